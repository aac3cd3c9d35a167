"""`sfumato anonymize`: release a table in which nobody stands out."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sfumato.cli.options import DeclaredSchema, Json, Overwrite, TableFile, option
from sfumato.cli.process import EndedEarly
from sfumato.cli.progress import progress, values_named
from sfumato.errors import ParameterError
from sfumato.texts import dumps

if TYPE_CHECKING:
    from sfumato.steward.anonymized import Anonymized
    from sfumato.steward.problem import CriteriaRequest
    from sfumato.steward.table import Table

Out = Annotated[
    Path, option("OUT", "A .csv, .csv.gz or .parquet; for anatomy a directory.", "-o", "--out")
]
Further = Annotated[
    list[str] | None,
    typer.Argument(hidden=True, metavar="COLUMN", help="More names after --sensitive."),
]
K = Annotated[int | None, option("K", "How many rows, or people, must look alike.")]
L = Annotated[int | None, option("L", "How many sensitive values.", "--l")]
Diversity = Annotated[
    Literal["distinct", "entropy", "recursive", "folk"] | None,
    option(None, "What many values means; by default distinct."),
]
C = Annotated[str | None, option("C", "The c of recursive diversity.", "--c")]
T = Annotated[str | None, option("T", "How far a class may be from the table.", "--t")]
Distance = Annotated[
    Literal["equal", "ordered", "hierarchy"] | None,
    option(None, "How far values are apart; by default equal."),
]
DeltaDisclosure = Annotated[str | None, option("D", "Most that |ln p/q| of any value may be.")]
Beta = Annotated[str | None, option("B", "Most that any value may gain.")]
Presence = Annotated[str | None, option("MIN,MAX", "Shares of the population in the table.")]
Population = Annotated[
    str | None, option("FILE", "Its people; --k without --presence counts among them.")
]
Sensitive = Annotated[
    list[str] | None, option("COLUMN ...", "What to protect; by default all sensitive columns.")
]
Algorithm = Annotated[
    str,
    option(
        "NAME",
        "optimal, incognito, samarati, sweeney, datafly, mondrian, mondrian-relaxed, "
        "k-optimize, meyerson-williams, aggarwal-suppress, aggarwal-generalize, anatomy, permute, "
        "perturb.",
    ),
]
Cost = Annotated[
    str | None,
    option(
        "NAME",
        "loss, loss-geometric, discernability, average-class-size, precision, entropy, suppressed.",
    ),
]
Suppress = Annotated[
    str, option("FRACTION", "The share of rows, or people, that may be suppressed.")
]
Suppressed = Annotated[Literal["drop", "star"], option(None, "What becomes of suppressed rows.")]
Refine = Annotated[
    bool, option(None, "Search the suppressed rows again, for labels of their own.", "--refine")
]
LimitSeconds = Annotated[float | None, option("S", "Take the best that is found in this time.")]
Report = Annotated[Path | None, option("FILE.html", "Write a page for the holder, who keeps it.")]
PublicReport = Annotated[
    Path | None, option("FILE.html", "Write a page that may travel with the release.")
]

_IN_NODES = {"optimal", "sweeney"}
"""The algorithms whose progress is counted in nodes of the lattice."""


def anonymize(
    table: TableFile,
    schema: DeclaredSchema,
    out: Out,
    further: Further = None,
    k: K = None,
    l: L = None,  # noqa: E741  # the literature's own name
    diversity: Diversity = None,
    c: C = None,
    t: T = None,
    distance: Distance = None,
    delta_disclosure: DeltaDisclosure = None,
    beta: Beta = None,
    presence: Presence = None,
    population: Population = None,
    sensitive: Sensitive = None,
    algorithm: Algorithm = "optimal",
    cost: Cost = None,
    suppress: Suppress = "0",
    suppressed: Suppressed = "drop",
    refine: Refine = False,
    limit_seconds: LimitSeconds = None,
    report: Report = None,
    public_report: PublicReport = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Release a table in which nobody stands out, at the least cost."""
    from sfumato.release.writer import check_outputs
    from sfumato.steward.problem import CriteriaRequest

    used, several = _in_use(table, schema, population), algorithm == "anatomy"
    check_outputs(out, report, public_report, several=several, overwrite=overwrite, kept=used)
    asked = CriteriaRequest(
        k=k,
        l=l,
        diversity=diversity or ("folk" if l and algorithm == "anatomy" else None),
        c=c,
        t=t,
        distance=distance,
        delta_disclosure=delta_disclosure,
        beta=beta,
        presence=presence,
        population=population is not None,
    )
    with ExitStack() as stack:
        decided = _decide(
            _read(stack, table, schema, population),
            asked,
            _columns(sensitive, further),
            algorithm,
            {"cost": cost, "suppress": suppress, "suppressed": suppressed, "refine": refine},
            limit_seconds,
        )
        with progress("Writing the release"):
            warnings = decided.write(
                out, report=report, public_report=public_report, overwrite=overwrite
            )
    _tell(decided, warnings, (out, report, public_report), as_json=as_json)


def _tell(
    decided: Anonymized, warnings: list[str], written: tuple[Path | None, ...], *, as_json: bool
) -> None:
    """Say what was decided, and warn the holder of what the release gives away."""
    if as_json:
        more = {"unprotected": list(decided.unprotected), "warnings": warnings}
        typer.echo(dumps({**decided.figures, **more}, ensure_ascii=False))
    else:
        _show(decided, [one for one in written if one is not None])
    for warning in warnings:
        typer.echo(f"sfumato: {warning}", err=True)
    if decided.figures["ended"] == "interrupted":
        raise EndedEarly("Interrupted; the best release so far was written.")


def _in_use(table: str, schema: Path, population: str | None) -> tuple[Path, ...]:
    from sfumato.release.in_use import source_files

    return (*source_files(table), schema, *(() if population is None else source_files(population)))


def _read(
    stack: ExitStack, table: str, schema: Path, population: str | None
) -> tuple[Table, Table | None]:
    """Open the table, and the population where there is one; the stack closes them."""
    from sfumato.steward.table import read, read_population

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
    limit_seconds: float | None,
) -> Anonymized:
    """Search, with a bar that shows how far it is."""
    from sfumato.steward.anonymize import anonymize as decide
    from sfumato.steward.perturbative import PERTURBATIVE

    people, population = tables
    criteria = asked.criteria(people.schema, columns)
    rearranges = algorithm in PERTURBATIVE
    if columns and not rearranges and not any(one.column for one in criteria):
        raise ParameterError(
            "option_without_other",
            f"--sensitive means nothing to {algorithm!r} without --l, --t, --beta or "
            "--delta-disclosure. Give one of them, or drop it.",
        )
    unit = "nodes" if algorithm in _IN_NODES else None
    with values_named(), progress("Searching", unit=unit) as told:
        return decide(
            people,
            criteria,
            algorithm=algorithm,
            sensitive=columns if rearranges else (),
            population=population,
            limit_seconds=limit_seconds,
            progress=told,
            **options,
        )


def _columns(sensitive: list[str] | None, further: list[str] | None) -> list[str]:
    """The columns after --sensitive, of which the parser takes only the first as its own."""
    if further and not sensitive:
        raise ParameterError(
            "argument_unexpected",
            f"There is one TABLE, but {further[0]!r} was given beside it. Drop it.",
        )
    return [*(sensitive or ()), *(further or ())]


def _show(decided: Anonymized, written: list[Path]) -> None:
    """Print what was decided for people: the promise, what is gone, every cost."""
    from rich.console import Console
    from rich.table import Table as Grid

    from sfumato.report.terminal import printable

    found, guarantee = decided.figures, decided.guarantee
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
    if found["levels"]:
        levels = ", ".join(f"{name} {level}" for name, level in found["levels"].items())
        console.print(printable(f"Levels: {levels}."))
    table = Grid(box=None, pad_edge=False, header_style="bold")
    table.add_column("Cost")
    table.add_column("before", justify="right")
    table.add_column("after", justify="right")
    for name, value in found["cost"].items():
        table.add_row(name.replace("_", " "), *map(_number, (decided.before.get(name), value)))
    console.print(table)
    if decided.unprotected:
        names = ", ".join(decided.unprotected)
        console.print(printable(f"Released unchanged and unprotected: {names}."), style="bold")
    for note in (*guarantee.parameters["notes"], *decided.remarks):
        console.print(printable(note), style="dim")
    console.print(printable(f"Wrote {' and '.join(map(str, written))}."), soft_wrap=True)
    kept = f"{written[0].name}.holder.json"
    console.print(printable(f"Keep {kept} and any report: they tell of the original."), style="dim")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.6g}"
