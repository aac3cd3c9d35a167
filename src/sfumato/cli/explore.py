"""`--explore`: several candidates into a folder, and the page that sets them beside each other."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import typer

from sfumato.cli.attack import print_comparison
from sfumato.cli.process import paid
from sfumato.errors import ParameterError
from sfumato.report.progress import progress
from sfumato.text import dumps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sfumato.anonymize.alternatives import Ladder
    from sfumato.attack.comparison.result import Comparison
    from sfumato.release.open_table import Table
    from sfumato.vault.family import Family
    from sfumato.vault.private import Private

EXPLORE = "Make several candidates, from strict to loose, in the folder OUT, and compare them."


def refuse_beside(given: Mapping[str, object], *, explores: bool = True) -> None:
    """Refuse flags that mean one release, and --yes where nothing is explored."""
    if not explores:
        raise ParameterError(
            "options_conflict", "--yes means nothing without --explore. Give both, or neither."
        )
    said = [f"--{name.replace('_', '-')}" for name, one in given.items() if one]
    if said:
        raise ParameterError(
            "option_not_applicable",
            f"--explore makes several releases and a page of its own, so {' and '.join(said)} "
            "cannot be given with it. Drop it.",
        )


def write_candidates(
    table: Table, found: Ladder, folder: Path, *, overwrite: bool, as_json: bool
) -> None:
    """Write what was decided, compare it, and tell."""
    from sfumato.anonymize.alternatives import write_ladder
    from sfumato.attack.comparison.compare import compare_releases
    from sfumato.release.open_table import source_of

    ending = ".parquet" if str(table.source).endswith(".parquet") else ".csv"
    with progress("Writing the candidates"):
        places = write_ladder(found, folder, ending, overwrite=overwrite)
    source = source_of(table)
    assert source is not None
    with progress("Comparing", unit="candidates") as told:
        compared = compare_releases(dict(places), source, table.schema, progress=told)
    _tell(compared, folder, found.remarks, overwrite=overwrite, as_json=as_json)


def synthesize_candidates(
    private: Private,
    family: Family,
    asked: dict[str, Any],
    out: Path | None,
    kept: Sequence[Path],
    *,
    yes: bool,
    only_told: bool,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Say what all candidates cost, have it confirmed, pay for them, write and compare them."""
    from sfumato.anonymize.alternatives import PAGE, check_folder, made_folder
    from sfumato.filesystem import check_target
    from sfumato.vault.release_attacks import compare_twins, cost_of_all, rungs

    found = rungs(private, family, asked)
    cost = cost_of_all(private, found)
    said = f"{len(found)} candidates, {', '.join(found)}; together they cost {cost}."
    if only_told:
        told = {"candidates": list(found), "cost": cost}
        typer.echo(dumps(told) if as_json else f"{said} Nothing was spent.")
        return
    assert out is not None  # it may be left out where nothing is written
    folder = out
    check_folder(folder, overwrite=overwrite)
    places = {name: folder / f"{name}.csv" for name in found}
    with made_folder(folder):
        for name, prepared in found.items():
            family.home().check_targets(
                prepared, places[name], None, overwrite=overwrite, kept=kept
            )
        check_target(folder / PAGE, overwrite=overwrite, kept=kept)
        _confirm(said, yes=yes)
    for done, (name, prepared) in enumerate(found.items(), start=1):
        with progress(f"Candidate {done} of {len(found)}"):
            answer = private.answer(family, prepared)
        with paid():
            answer.save(places[name], overwrite=overwrite)
    with progress("Comparing", unit="candidates") as report:
        compared = compare_twins(private, places, report)
    _tell(compared, folder, [said], overwrite=overwrite, as_json=as_json)


def _confirm(said: str, *, yes: bool) -> None:
    """Have somebody agree to the sum before anything is charged."""
    if yes:
        return
    if sys.stdin.isatty() and sys.stderr.isatty():
        typer.confirm(f"{said} Charge them?", abort=True, err=True)
        return
    raise ParameterError(
        "parameter_missing",
        f"{said} Nothing was charged. Give --yes to charge them.",
        parameter="yes",
    )


def _tell(
    compared: Comparison, folder: Path, remarks: Sequence[str], *, overwrite: bool, as_json: bool
) -> None:
    from sfumato.anonymize.alternatives import PAGE

    page = folder / PAGE
    compared.save_report(page, overwrite=overwrite)
    if as_json:
        told = {**compared.json(), "folder": str(folder), "report": str(page)}
        typer.echo(dumps({**told, "explored": list(remarks)}, ensure_ascii=False))
        return
    print_comparison(compared, page)
    for remark in remarks:
        typer.echo(remark)
    if sys.stdout.isatty() and not os.environ.get("CI"):
        import webbrowser

        webbrowser.open(page.resolve().as_uri())
