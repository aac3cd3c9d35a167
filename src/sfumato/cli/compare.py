"""`sfumato compare`: candidates for a release beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli.options import OUTPUT, DeclaredSchema, Json, Overwrite, argument, option
from sfumato.cli.progress import progress, values_named
from sfumato.text import dumps

if TYPE_CHECKING:
    from sfumato.attack.comparison.result import Comparison


def compare(
    releases: Annotated[list[str], argument("RELEASE...", "Released tables, or their folders.")],
    original: Annotated[str, option("FILE", "The table that they were made from.", "--original")],
    schema: DeclaredSchema,
    known: Annotated[str | None, option("FILE", "The attacker's list of people.")] = None,
    control: Annotated[
        str | None, option("FILE", "People like these who are not in the data.")
    ] = None,
    synthetic: Annotated[
        list[str] | None, option("RELEASE", "One of them has made-up rows, nobody's.")
    ] = None,
    report: Annotated[
        Path | None,
        option("FILE.html", "Write a page with pictures, for the owner.", rich_help_panel=OUTPUT),
    ] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """See what attackers get of several releases of one table, and what each is good for.

    Any kinds: anonymized tables, anatomies, published counts, synthetic tables, anyone's CSV. It
    looks at the original without a budget, so what it tells is for the owner.

    Examples:
        sfumato compare safe.csv synthetic.csv --original people.csv --schema people.toml
        sfumato compare safe.csv synthetic.csv --original people.csv --schema people.toml \\
            --known voters.csv --report compare.html
    """
    from sfumato.attack.comparison.compare import compare_releases
    from sfumato.filesystem import check_target
    from sfumato.release.files_in_use import source_files

    if report is not None:
        named = [one for one in (*releases, original, known, control) if one is not None]
        used = (*(file for one in named for file in source_files(one)), schema)
        check_target(report, overwrite=overwrite, kept=used)
    with values_named(), progress("Comparing", unit="candidates") as told:
        beside = {"known": known, "control": control}
        found = compare_releases(
            releases, original, schema, **beside, synthetic=synthetic or (), progress=told
        )
    if report is not None:
        found.save_report(report, overwrite=overwrite)
    if as_json:
        typer.echo(dumps(found.json(), ensure_ascii=False))
    else:
        show(found, report)


def show(found: Comparison, report: Path | None) -> None:
    """Print a line for each candidate, and what of them is worth choosing."""
    from sfumato.attack.comparison.page import summary
    from sfumato.report.terminal import print_for_owner

    print_for_owner(summary(found), report)
