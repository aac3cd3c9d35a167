"""`sfumato anonymize`: release a table in which nobody stands out."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sfumato.cli.anonymize_items import KNOWN, release_items
from sfumato.cli.explore import EXPLORE, refuse_beside, write_candidates
from sfumato.cli.options import (
    OUTPUT,
    DeclaredSchema,
    Json,
    Overwrite,
    TableFile,
    form,
    option,
    topic,
)
from sfumato.cli.process import EndedEarly
from sfumato.cli.progress import progress, values_named
from sfumato.cli.release_gate import NoAttacks, PublishFindings, Require, kept_in_words, table_gate
from sfumato.errors import ParameterError
from sfumato.text import dumps
from sfumato.vault.family import Field

if TYPE_CHECKING:
    from sfumato.anonymize.criteria.request import CriteriaRequest
    from sfumato.anonymize.result import Anonymized
    from sfumato.release.open_table import Table
    from sfumato.release.output import Output
    from sfumato.release.release import Release

Out = Annotated[
    str,
    option(
        "OUT",
        "A .csv, .tsv, .txt, .parquet or .xlsx; OUT/ for a folder of Parquet files; table:NAME for "
        "a table beside the source; for anatomy a directory.",
        "-o",
        "--out",
        rich_help_panel=OUTPUT,
    ),
]
Further = Annotated[
    list[str] | None,
    typer.Argument(hidden=True, metavar="COLUMN", help="More names after --sensitive."),
]
Report = Annotated[
    Path | None,
    option("FILE.html", "Write a page for the holder, who keeps it.", rich_help_panel=OUTPUT),
]
PublicReport = Annotated[
    Path | None,
    option("FILE.html", "Write a page that may travel with the release.", rich_help_panel=OUTPUT),
]
By = Annotated[str | None, option("NAME", "Who makes the release, for its reports.")]
Explore = Annotated[bool, option(None, EXPLORE, "--explore", rich_help_panel=OUTPUT)]
NoAdvice = Annotated[bool, option(None, "Do not try what else would lose less.", "--no-advice")]

CRITERIA = (
    Field("k", "How many rows, or people, must look alike.", "K", type=int),
    Field("l", "How many sensitive values.", "L", type=int),
    Field(
        "diversity",
        "What many values means; by default distinct.",
        "",
        type=Literal["distinct", "entropy", "recursive", "folk"],
    ),
    Field("c", "The c of recursive diversity.", "C"),
    Field("t", "How far a class may be from the table.", "T"),
    Field(
        "distance",
        "How far values are apart; by default equal.",
        "",
        type=Literal["equal", "ordered", "hierarchy"],
    ),
    Field("delta_disclosure", "Most that |ln p/q| of any value may be.", "D"),
    Field("beta", "Most that any value may gain.", "B"),
    Field("presence", "Shares of the population in the table.", "MIN,MAX"),
)
ALGORITHMS = {
    "optimal": "one level for each column: the cheapest of all",
    "incognito": "one level for each column: all minimal choices",
    "samarati": "one level for each column: of least height",
    "sweeney": "one level for each column: of least distortion",
    "datafly": "one level for each column: quick",
    "mondrian": "a box for each class: small classes, large tables",
    "mondrian-relaxed": "a box for each class, rows dealt out at its sides",
    "k-optimize": "one set of ranges for each column",
    "meyerson-williams": "cells become *, within a proven factor of the best",
    "aggarwal-suppress": "cells become *, within a proven factor of the best",
    "aggarwal-generalize": "labels for each class, within a proven factor",
    "anatomy": "two tables, quasi and sensitive columns apart",
    "permute": "sensitive values shuffled inside groups",
    "perturb": "noise on numbers; it promises nothing",
}
"""How to search, each with a line for people."""
COSTS = {
    "loss": "how much of the hierarchies labels cover",
    "loss-geometric": "the same, geometric mean over columns",
    "discernability": "rows that look alike, counted in pairs",
    "average-class-size": "rows per class, in multiples of k",
    "c-avg": "released rows per class, in multiples of k",
    "precision": "steps up the hierarchies",
    "entropy": "bits lost",
    "suppressed": "suppressed rows",
}
"""What to lose least of."""
SEARCH = (
    Field("population", "Its people; --k without --presence counts among them.", "FILE"),
    Field(
        "sensitive",
        "What to protect; by default all sensitive columns.",
        "COLUMN ...",
        type=list[str],
    ),
    Field(
        "algorithm",
        "How to search: one of the algorithms above.",
        "NAME",
        default="optimal",
        choices=ALGORITHMS,
    ),
    Field(
        "cost",
        "loss, loss-geometric, discernability, average-class-size, precision, entropy, suppressed.",
        "NAME",
        choices=COSTS,
    ),
    Field(
        "suppress",
        "The share of rows, or people, that may be suppressed, such as 2% or 0.02.",
        "FRACTION",
        default="0",
    ),
    Field(
        "suppressed",
        "What becomes of suppressed rows.",
        "",
        type=Literal["drop", "star"],
        default="drop",
    ),
    Field(
        "refine",
        "Search the suppressed rows again, for labels of their own.",
        "",
        type=bool,
        default=False,
    ),
    Field("limit_seconds", "Take the best that is found in this time.", "S", type=float),
)

_IN_NODES = {"optimal", "sweeney"}
"""The algorithms whose progress is counted in nodes of the lattice."""


@form(*topic("What must hold", (*CRITERIA, *KNOWN)), *topic("How to get there", SEARCH))
def anonymize(
    table: TableFile,
    schema: DeclaredSchema,
    out: Out,
    further: Further = None,
    report: Report = None,
    public_report: PublicReport = None,
    by: By = None,
    no_advice: NoAdvice = False,
    explore: Explore = False,
    require: Require = None,
    no_attacks: NoAttacks = False,
    publish_findings: PublishFindings = False,
    overwrite: Overwrite = False,
    as_json: Json = False,
    **said: Any,
) -> None:
    """Release a table in which nobody stands out, at the least cost.

    Algorithms:
        {algorithms}

    Examples:
        sfumato anonymize people.csv --schema people.toml --k 5 -o safe.csv
        sfumato anonymize people.csv --schema people.toml --k 5 --l 2 -o diverse.csv
        sfumato anonymize people.csv --schema people.toml --explore -o candidates
    """
    if (known := said.pop("m")) is not None:
        said |= {"m": known, "by": by, "overwrite": overwrite, "as_json": as_json}
        release_items(table, schema, out, said, (report, public_report, require, explore, further))
        return
    from sfumato.anonymize.alternatives import explore as explored
    from sfumato.anonymize.criteria.request import CriteriaRequest
    from sfumato.release.output import Output

    gate = table_gate(require, no_attacks=no_attacks, publish=publish_findings)
    output, pages = Output.parse(out), {"report": report, "public_report": public_report}
    numbers = {one.name: said.pop(one.name) for one in CRITERIA}
    population, algorithm, sensitive = map(said.pop, ("population", "algorithm", "sensitive"))
    if several := algorithm == "anatomy":  # in a directory, however it is called
        output = Output(output.path)
    asked = CriteriaRequest(**numbers, population=population is not None)
    kept = None if explore else _in_use(table, schema, population)
    _check_places(output, pages, require, several=several, overwrite=overwrite, kept=kept)
    with ExitStack() as stack:
        tables = _read(stack, table, schema, population)
        if explore:
            said |= {"by": by, "advice": False}
            columns = _columns(sensitive, further)
            found = explored(asked, lambda one: _decide(tables, one, columns, algorithm, said))
            write_candidates(tables[0], found, output.path, overwrite=overwrite, as_json=as_json)
            return
        if output.by_engine:  # nobody else knows what is there
            tables[0].engine.check(output.target, overwrite=overwrite)
        gate.check(tables[0])
        said |= {"by": by, "advice": not no_advice}
        decided = gate.tried(_decide(tables, asked, _columns(sensitive, further), algorithm, said))
        with progress("Writing the release"):
            release = decided.write(output, **pages, overwrite=overwrite)
    _tell(decided, release, output, pages, as_json=as_json)


_WIDEST = max(map(len, ALGORITHMS))
anonymize.__doc__ = (anonymize.__doc__ or "").replace(
    "{algorithms}",
    "\n        ".join(f"{name:{_WIDEST}}  {told}" for name, told in ALGORITHMS.items()),
)


def _tell(
    decided: Anonymized,
    release: Release,
    output: Output,
    pages: dict[str, Path | None],
    *,
    as_json: bool,
) -> None:
    """Say what was decided, and warn the holder of what the release gives away."""
    assert release.holder is not None
    warnings = release.holder["findings"]
    if as_json:
        told = release.guarantee.parameters
        more = {
            "unprotected": list(decided.unprotected),
            "warnings": warnings,
            "columns": told["columns"],
            "risk": {"before": release.holder["risk"], "after": told["risk"]},
            "advice": release.holder["advice"],
            "attacks": release.holder.get("attacks"),
        }
        typer.echo(dumps({**decided.figures, **more}, ensure_ascii=False))
    else:
        _show(decided, release, output, pages)
    for warning in warnings:
        typer.echo(f"sfumato: {warning}", err=True)
    if decided.figures["ended"] == "interrupted":
        raise EndedEarly("Interrupted; the best release so far was written.")


def _check_places(
    output: Output,
    pages: dict[str, Path | None],
    require: list[str] | None,
    *,
    several: bool,
    overwrite: bool,
    kept: tuple[Path, ...] | None,
) -> None:
    """Refuse what cannot be written; where nothing is kept, candidates go into a folder."""
    from sfumato.anonymize.alternatives import check_folder
    from sfumato.release.output import check_outputs

    if kept is not None:
        check_outputs(output, *pages.values(), several=several, overwrite=overwrite, kept=kept)
        return
    refuse_beside({**pages, "require": require})
    if output.is_table:
        raise ParameterError(
            "option_not_applicable",
            f"--explore writes candidates into a folder, not into {output.in_words()}. "
            "Name a folder.",
        )
    check_folder(output.path, overwrite=overwrite)


def _in_use(table: str, schema: Path, population: str | None) -> tuple[Path, ...]:
    from sfumato.release.files_in_use import source_files

    return (*source_files(table), schema, *(() if population is None else source_files(population)))


def _read(
    stack: ExitStack, table: str, schema: Path, population: str | None
) -> tuple[Table, Table | None]:
    """Open the table, and the population where there is one; the stack closes them."""
    from sfumato.release.open_table import read, read_population

    with progress("Reading the table"):
        people = stack.enter_context(closing(read(table, schema)))
        if population is None:
            return people, None
        return people, stack.enter_context(closing(read_population(population, people.schema)))


def _decide(
    tables: tuple[Table, Table | None],
    asked: CriteriaRequest,
    columns: list[str],
    algorithm: str,
    options: dict[str, Any],
) -> Anonymized:
    """Search, with a bar that shows how far it is."""
    from sfumato.anonymize.pipeline import anonymize as decide
    from sfumato.anonymize.pipeline import criteria_of

    people, population = tables
    criteria, rearranged = criteria_of(people.schema, asked, columns, algorithm)
    unit = "nodes" if algorithm in _IN_NODES else None
    with values_named(), progress("Searching", unit=unit) as told:
        return decide(
            people,
            criteria,
            algorithm=algorithm,
            sensitive=rearranged,
            population=population,
            progress=told,
            **options,
        )


def _columns(sensitive: list[str] | None, further: list[str] | None) -> list[str]:
    """The columns after --sensitive, of which the parser takes only the first as its own."""
    if further and not sensitive:
        raise ParameterError(
            "option_not_applicable",
            f"There is one TABLE, but {further[0]!r} was given beside it. Drop it.",
        )
    return [*(sensitive or ()), *(further or ())]


def _show(
    decided: Anonymized, release: Release, output: Output, pages: dict[str, Path | None]
) -> None:
    """Print what was decided for people: the promise, what became of columns, every cost."""
    from rich.console import Console
    from rich.table import Table as Grid

    from sfumato.cli.tables import attack_table
    from sfumato.report.terminal import printable

    found, guarantee = decided.figures, release.guarantee
    console = Console(highlight=False)
    console.print(printable(guarantee.statement))
    console.print(
        f"Released {found['released']:,} of {found['rows']:,} rows in {found['classes']:,} "
        f"classes; {found['suppressed']:,} suppressed."
    )
    if found["people"] is not None:
        console.print(
            f"Of {found['people']:,} people, {found['suppressed_people']:,} lose rows by that."
        )
    columns = Grid(box=None, pad_edge=False, header_style="bold")
    columns.add_column("Column", overflow="fold")
    columns.add_column("became", overflow="fold")
    for name, words in guarantee.parameters["columns"].items():
        columns.add_row(printable(name), printable(words))
    console.print()
    console.print(columns)
    console.print()
    table = Grid(box=None, pad_edge=False, header_style="bold")
    table.add_column("Cost")
    table.add_column("before", justify="right")
    table.add_column("after", justify="right")
    for name, value in found["cost"].items():
        table.add_row(name.replace("_", " "), *map(_number, (decided.before.get(name), value)))
    console.print(table)
    if decided.attacks.findings is not None:
        console.print()
        console.print(attack_table(decided.attacks.findings))
    if decided.advice:
        console.print("\nWhat would cost less:")
        for one in decided.advice:
            console.print(printable(f"  {one.sentence()}"), soft_wrap=True)
    if decided.unprotected:
        names = ", ".join(decided.unprotected)
        console.print(printable(f"Released without protection: {names}."), style="bold")
    for note in (*guarantee.parameters["notes"], *decided.remarks):
        console.print(printable(note), style="dim")
    first = output.in_words(tables=1 if decided.values is None else 2)
    told = " and ".join([first, *(str(page) for page in pages.values() if page)])
    console.print(printable(f"Wrote {told}."), soft_wrap=True)
    kept = [Path(f"{output.path.name}.holder.json"), pages["report"]]
    console.print(printable(kept_in_words(release, kept)), style="dim", soft_wrap=True)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.6g}"
