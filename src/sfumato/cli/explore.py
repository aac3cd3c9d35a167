"""`--explore`: write several candidates into a folder, with a page that compares them."""

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
    from sfumato.vault.families import Family
    from sfumato.vault.private import Private

EXPLORE = "Make several candidates, from strict to loose, in the folder OUT, and compare them."


def refuse_other_options(values: Mapping[str, object], *, explores: bool = True) -> None:
    """Refuse flags that concern a single release, and --yes where nothing is explored."""
    if not explores:
        raise ParameterError(
            "options_conflict", "--yes means nothing without --explore. Give both, or neither."
        )
    flags = [f"--{name.replace('_', '-')}" for name, value in values.items() if value]
    if flags:
        raise ParameterError(
            "option_not_applicable",
            f"--explore makes several releases and a page of its own, so {' and '.join(flags)} "
            "cannot be given with it. Leave it out.",
        )


def write_candidates(
    table: Table, ladder: Ladder, folder: Path, *, overwrite: bool, as_json: bool
) -> None:
    """Write the candidates, compare them and print the comparison."""
    from sfumato.anonymize.alternatives import write_ladder
    from sfumato.attack.comparison.compare import compare_releases
    from sfumato.release.open_table import source_of

    ending = ".parquet" if str(table.source).endswith(".parquet") else ".csv"
    with progress("Writing the candidates"):
        paths = write_ladder(ladder, folder, ending, overwrite=overwrite)
    source = source_of(table)
    assert source is not None
    with progress("Comparing", unit="candidates") as report:
        comparison = compare_releases(dict(paths), source, table.schema, progress=report)
    _show(comparison, folder, ladder.remarks, overwrite=overwrite, as_json=as_json)


def synthesize_candidates(
    private: Private,
    family: Family,
    asked: dict[str, Any],
    out: Path | None,
    kept: Sequence[Path],
    *,
    yes: bool,
    only_explain: bool,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Show what all candidates cost, ask for confirmation, charge, write and compare them."""
    from sfumato.anonymize.alternatives import PAGE, check_folder, made_folder
    from sfumato.filesystem import check_target
    from sfumato.vault.release_attacks import compare_twins, cost_of_all, rungs

    candidates = rungs(private, family, asked)
    cost = cost_of_all(private, candidates)
    summary = f"{len(candidates)} candidates, {', '.join(candidates)}; together they cost {cost}."
    if only_explain:
        data = {"candidates": list(candidates), "cost": cost}
        typer.echo(dumps(data) if as_json else f"{summary} Nothing was spent.")
        return
    assert out is not None  # it may be left out where nothing is written
    check_folder(out, overwrite=overwrite)
    paths = {name: out / f"{name}.csv" for name in candidates}
    with made_folder(out):
        for name, prepared in candidates.items():
            family.home().check_targets(prepared, paths[name], None, overwrite=overwrite, kept=kept)
        check_target(out / PAGE, overwrite=overwrite, kept=kept)
        _confirm(summary, yes=yes)  # after every check: nothing is charged that cannot be written
    for number, (name, prepared) in enumerate(candidates.items(), start=1):
        with progress(f"Candidate {number} of {len(candidates)}"):
            answer = private.answer(family, prepared)
        with paid():
            answer.save(paths[name], overwrite=overwrite)
    with progress("Comparing", unit="candidates") as report:
        comparison = compare_twins(private, paths, report)
    _show(comparison, out, [summary], overwrite=overwrite, as_json=as_json)


def _confirm(summary: str, *, yes: bool) -> None:
    """Ask for agreement to the total cost before anything is charged."""
    if yes:
        return
    if sys.stdin.isatty() and sys.stderr.isatty():
        typer.confirm(f"{summary} Charge them?", abort=True, err=True)
        return
    raise ParameterError(
        "parameter_missing",
        f"{summary} Nothing was charged. Give --yes to charge them.",
        parameter="yes",
    )


def _show(
    comparison: Comparison, folder: Path, remarks: Sequence[str], *, overwrite: bool, as_json: bool
) -> None:
    from sfumato.anonymize.alternatives import PAGE

    page = folder / PAGE
    comparison.save_report(page, overwrite=overwrite)
    if as_json:
        data = {**comparison.json(), "folder": str(folder), "report": str(page)}
        typer.echo(dumps({**data, "explored": list(remarks)}, ensure_ascii=False))
        return
    print_comparison(comparison, page)
    for remark in remarks:
        typer.echo(remark)
    if sys.stdout.isatty() and not os.environ.get("CI"):
        import webbrowser

        webbrowser.open(page.resolve().as_uri())
