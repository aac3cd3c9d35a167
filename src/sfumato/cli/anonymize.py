"""`sfumato anonymize`: release a table that satisfies privacy criteria such as k-anonymity."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sfumato.anonymize.choices import ALGORITHMS, COSTS
from sfumato.cli.explore import EXPLORE, refuse_other_options, write_candidates
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
from sfumato.cli.process import as_flag, values_named
from sfumato.cli.release_gate import NoAttacks, PublishFindings, Require, kept_in_words, table_gate
from sfumato.errors import EndedEarly, ParameterError
from sfumato.errors import option as parameter
from sfumato.operations.field import Field
from sfumato.report.progress import progress
from sfumato.text import dumps

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
        "The file to write: .csv, .tsv, .txt, .parquet or .xlsx; OUT/ for a folder of Parquet "
        "files; table:NAME for a table in the database of the source; a folder for anatomy.",
        "-o",
        "--out",
        rich_help_panel=OUTPUT,
    ),
]
MoreSensitive = Annotated[
    list[str] | None,
    typer.Argument(hidden=True, metavar="COLUMN", help="More names after --sensitive."),
]
Report = Annotated[
    Path | None,
    option("FILE.html", "Write a confidential HTML report for the holder.", rich_help_panel=OUTPUT),
]
PublicReport = Annotated[
    Path | None,
    option(
        "FILE.html",
        "Write an HTML report that may be published with the release.",
        rich_help_panel=OUTPUT,
    ),
]
By = Annotated[str | None, option("NAME", "The name of the publisher, for the reports.")]
Explore = Annotated[bool, option(None, EXPLORE, "--explore", rich_help_panel=OUTPUT)]
NoAdvice = Annotated[bool, option(None, "Do not search for options that lose less.", "--no-advice")]

CRITERIA = (
    Field("k", "k-anonymity: the least number of rows (or people) in each class.", "K", type=int),
    Field(
        "l",
        "l-diversity: the least number of different sensitive values in each class.",
        "L",
        type=int,
    ),
    Field(
        "diversity",
        "How to count values for --l; by default distinct.",
        "",
        type=Literal["distinct", "entropy", "recursive", "folk"],
    ),
    Field("c", "The c of recursive (c,l)-diversity.", "C"),
    Field(
        "t",
        "t-closeness: the largest distance between the sensitive values of a class and of the "
        "whole table.",
        "T",
    ),
    Field(
        "distance",
        "How --t measures distance between values; by default equal.",
        "",
        type=Literal["equal", "ordered", "hierarchy"],
    ),
    Field(
        "delta_disclosure",
        "delta-disclosure: the largest |ln(p/q)|, where p and q are the shares of a sensitive "
        "value in a class and in the table.",
        "D",
    ),
    Field(
        "beta",
        "beta-likeness: the most that the share of a sensitive value may grow from the table to a "
        "class, relative to its share in the table.",
        "B",
    ),
    Field(
        "presence",
        "delta-presence: bounds on the probability that a person is in the table.",
        "MIN,MAX",
    ),
    Field(
        "m",
        "For itemsets: whatever M items of a basket are known, at least K baskets have them; "
        "algorithm apriori or local.",
        "M",
        type=int,
    ),
)
SEARCH = (
    Field(
        "population",
        "A table of the whole population; --k without --presence then counts its people.",
        "FILE",
    ),
    Field(
        "sensitive",
        "The sensitive columns to protect; by default all.",
        "COLUMN ...",
        type=list[str],
    ),
    Field(
        "algorithm",
        "The search algorithm: one of those above.",
        "NAME",
        default="optimal",
        choices=ALGORITHMS,
    ),
    Field("cost", f"The loss to minimise: {', '.join(COSTS)}.", "NAME", choices=COSTS),
    Field(
        "suppress",
        "The share of rows (or people) that may be suppressed, such as 2% or 0.02.",
        "FRACTION",
        default="0",
    ),
    Field(
        "suppressed",
        "Whether suppressed rows are left out (drop) or released with blank cells (star).",
        "",
        type=Literal["drop", "star"],
        default="drop",
    ),
    Field(
        "refine",
        "Search the suppressed rows again, with finer labels of their own.",
        "",
        type=bool,
        default=False,
    ),
    Field("limit_seconds", "Stop after S seconds and use the best result so far.", "S", type=float),
)

_COUNTS_NODES = {"optimal", "sweeney"}
"""The algorithms whose progress is counted in nodes of the lattice."""


@form(*topic("Privacy criteria", CRITERIA), *topic("Search", SEARCH))
def anonymize(
    table: TableFile,
    schema: DeclaredSchema,
    out: Out,
    more_sensitive: MoreSensitive = None,
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
    **options: Any,
) -> None:
    """Anonymize a table (k-anonymity and other criteria) with the least loss of detail.

    Algorithms:
        {algorithms}

    Examples:
        sfumato anonymize people.csv --schema people.toml --k 5 -o safe.csv
        sfumato anonymize people.csv --schema people.toml --k 5 --l 2 -o diverse.csv
        sfumato anonymize people.csv --schema people.toml --explore -o candidates
    """
    from sfumato.anonymize.alternatives import explore as explore_candidates
    from sfumato.anonymize.criteria.request import CriteriaRequest
    from sfumato.release.output import Output

    if (known_items := options.pop("m")) is not None:
        not_for_items: dict[str, object] = {
            "report": report,
            "public_report": public_report,
            "require": require,
            "explore": explore,
            "column": more_sensitive,
        }
        options |= {"m": known_items, "by": by}
        _release_items(
            table, schema, out, options, not_for_items, overwrite=overwrite, as_json=as_json
        )
        return
    # Requirements and criteria are read before the table: a typing error should cost no time.
    gate = table_gate(require, no_attacks=no_attacks, publish=publish_findings)
    output, pages = Output.parse(out), {"report": report, "public_report": public_report}
    thresholds = {field.name: options.pop(field.name) for field in CRITERIA if field.name != "m"}
    population, algorithm, sensitive = map(options.pop, ("population", "algorithm", "sensitive"))
    several_tables = algorithm == "anatomy"
    if several_tables:  # they go into a folder, whatever its name
        output = Output(output.path)
    request = CriteriaRequest(**thresholds, population=population is not None)
    if explore:
        _check_explore(output, {**pages, "require": require}, overwrite=overwrite)
    else:
        _check_outputs(
            output,
            pages,
            (table, schema, population),
            several_tables=several_tables,
            overwrite=overwrite,
        )
    with ExitStack() as stack:
        tables = _read(stack, table, schema, population)
        columns = _sensitive_columns(sensitive, more_sensitive)
        if explore:
            # The candidates themselves are the advice.
            options |= {"by": by, "advice": False}
            ladder = explore_candidates(
                request,
                lambda candidate: _search(tables, candidate, columns, algorithm, options),
            )
            write_candidates(tables[0], ladder, output.path, overwrite=overwrite, as_json=as_json)
            return
        if output.by_engine:  # only the engine can tell whether the target exists
            tables[0].engine.check(output.target, overwrite=overwrite)
        gate.check(tables[0])
        options |= {"by": by, "advice": not no_advice}
        anonymized = gate.attack(_search(tables, request, columns, algorithm, options))
        with progress("Writing the release"):
            release = anonymized.write(output, **pages, overwrite=overwrite)
    _report_result(anonymized, release, output, pages, as_json=as_json)


# The list of algorithms has one source, so help cannot lack a new one.
_NAME_WIDTH = max(map(len, ALGORITHMS))
anonymize.__doc__ = (anonymize.__doc__ or "").replace(
    "{algorithms}",
    "\n        ".join(f"{name:{_NAME_WIDTH}}  {line}" for name, line in ALGORITHMS.items()),
)


def _release_items(
    table: str,
    schema: Path,
    out: str,
    options: dict[str, Any],
    not_for_items: dict[str, object],
    *,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Release the baskets of a table of items."""
    from sfumato.anonymize.itemsets import anonymize_items
    from sfumato.release.files_in_use import source_files
    from sfumato.release.open_table import read
    from sfumato.release.output import Output, check_outputs

    item_options = {name: options.pop(name) for name in ("k", "m", "suppress", "by")}
    algorithm = options.pop("algorithm")
    del options["suppressed"]  # it has a default, and does nothing here
    in_use = (*source_files(table), schema)
    check_outputs(Output.parse(out), several=False, overwrite=overwrite, kept=in_use)
    with progress("Reading the table"):
        people = read(table, schema)
    with closing(people), progress("Searching"):
        release = anonymize_items(
            people,
            algorithm="apriori" if algorithm == "optimal" else algorithm,
            # Refused if any is set: itemsets have no criteria but k^m-anonymity.
            ignored={**options, **not_for_items},
            **item_options,
        )
        release.save(out, overwrite=overwrite)
    figures = {**release.guarantee.parameters, **(release.holder or {})}
    if as_json:
        typer.echo(dumps(figures, ensure_ascii=False))
        return
    typer.echo(release.guarantee.statement)
    typer.echo(
        f"Released {figures['baskets']:,} of {figures['baskets_before']:,} baskets of "
        f"{figures['groups']:,} groups, as {figures['rows']:,} rows; {figures['left_out']:,} items "
        f"in baskets suppressed; loss {figures['loss']:.4f}."
    )
    typer.echo(f"Wrote {out} and {out}.json. Keep {out}.holder.json to yourself.")


def _check_outputs(
    output: Output,
    pages: dict[str, Path | None],
    sources: tuple[str, Path, str | None],
    *,
    several_tables: bool,
    overwrite: bool,
) -> None:
    """Refuse outputs that cannot be written, or that would replace a source."""
    from sfumato.release.files_in_use import source_files
    from sfumato.release.output import check_outputs

    table, schema, population = sources
    in_use = [*source_files(table), schema]
    if population is not None:
        in_use += source_files(population)
    check_outputs(output, *pages.values(), several=several_tables, overwrite=overwrite, kept=in_use)


def _check_explore(output: Output, refused: dict[str, object], *, overwrite: bool) -> None:
    """Refuse options of a single release, and an output that is no folder."""
    from sfumato.anonymize.alternatives import check_folder

    refuse_other_options(refused)
    if output.is_table:
        raise ParameterError(
            "option_not_applicable",
            f"{parameter('explore', True)} writes candidates into a folder, not into "
            f"{output.in_words()}.",
            parameter="out",
            hint="Name a folder.",
        )
    check_folder(output.path, overwrite=overwrite)


def _read(
    stack: ExitStack, table: str, schema: Path, population: str | None
) -> tuple[Table, Table | None]:
    """Open the table and the population, if there is one; the stack closes them."""
    from sfumato.release.open_table import read, read_population

    with progress("Reading the table"):
        people = stack.enter_context(closing(read(table, schema)))
        if population is None:
            return people, None
        return people, stack.enter_context(closing(read_population(population, people.schema)))


def _search(
    tables: tuple[Table, Table | None],
    request: CriteriaRequest,
    columns: list[str],
    algorithm: str,
    options: dict[str, Any],
) -> Anonymized:
    """Search for the release, and show the progress."""
    from sfumato.anonymize.pipeline import anonymize as find_release
    from sfumato.anonymize.pipeline import criteria_of

    people, population = tables
    # Permutation and perturbation change the sensitive columns themselves.
    criteria, rearranged = criteria_of(people.schema, request, columns, algorithm)
    unit = "nodes" if algorithm in _COUNTS_NODES else None
    # The values that a hierarchy lacks are shown: this user may see the table.
    with values_named(), progress("Searching", unit=unit) as report_progress:
        return find_release(
            people,
            criteria,
            algorithm=algorithm,
            sensitive=rearranged,
            population=population,
            progress=report_progress,
            **options,
        )


def _sensitive_columns(first: list[str] | None, more: list[str] | None) -> list[str]:
    """The columns after --sensitive; the parser takes those after the first as arguments."""
    if more and not first:
        raise ParameterError(
            "option_not_applicable",
            f"There is one TABLE, but {more[0]!r} was given beside it.",
            hint="Leave it out.",
        )
    return [*(first or ()), *(more or ())]


def _report_result(
    anonymized: Anonymized,
    release: Release,
    output: Output,
    pages: dict[str, Path | None],
    *,
    as_json: bool,
) -> None:
    """Print the result, and warn the holder of what the release reveals."""
    assert release.holder is not None
    warnings = release.holder["findings"]
    if as_json:
        parameters = release.guarantee.parameters
        holder = {
            "unprotected": list(anonymized.unprotected),
            "warnings": warnings,
            "columns": parameters["columns"],
            "risk": {"before": release.holder["risk"], "after": parameters["risk"]},
            "advice": [advice.json(as_flag) for advice in anonymized.advice],
            "attacks": release.holder.get("attacks"),
        }
        typer.echo(dumps({**anonymized.figures, **holder}, ensure_ascii=False))
    else:
        _print_result(anonymized, release, output, pages)
    for warning in warnings:  # also with --json, for the person beside the program
        typer.echo(f"sfumato: {warning}", err=True)
    # The release is complete, but the exit code must tell that the search was not.
    if anonymized.figures["ended"] == "interrupted":
        raise EndedEarly("Interrupted; the best release so far was written.")


def _print_result(
    anonymized: Anonymized, release: Release, output: Output, pages: dict[str, Path | None]
) -> None:
    """Print the guarantee, the columns, the costs, the attacks and the files."""
    from rich.console import Console
    from rich.table import Table as Grid

    from sfumato.cli.tables import attack_table
    from sfumato.report.terminal import printable

    figures, guarantee = anonymized.figures, release.guarantee
    console = Console(highlight=False)
    console.print(printable(guarantee.statement))
    console.print(
        f"Released {figures['released']:,} of {figures['rows']:,} rows in {figures['classes']:,} "
        f"classes; {figures['suppressed']:,} suppressed."
    )
    if figures["people"] is not None:
        console.print(
            f"{figures['suppressed_people']:,} of {figures['people']:,} people lose rows."
        )
    columns = Grid(box=None, pad_edge=False, header_style="bold")
    columns.add_column("Column", overflow="fold")
    columns.add_column("released as", overflow="fold")
    for name, description in guarantee.parameters["columns"].items():
        columns.add_row(printable(name), printable(description))
    costs = Grid(box=None, pad_edge=False, header_style="bold")
    costs.add_column("Cost")
    costs.add_column("before", justify="right")
    costs.add_column("after", justify="right")
    for name, value in figures["cost"].items():
        before = anonymized.before.get(name)
        costs.add_row(name.replace("_", " "), _format_cost(before), _format_cost(value))
    console.print()
    console.print(columns)
    console.print()
    console.print(costs)
    if anonymized.attacks.findings is not None:
        console.print()
        console.print(attack_table(anonymized.attacks.findings))
    if anonymized.advice:
        console.print("\nOptions that would lose less:")
        for advice in anonymized.advice:
            console.print(printable(f"  {advice.sentence(as_flag)}"), soft_wrap=True)
    if anonymized.unprotected:
        names = ", ".join(anonymized.unprotected)
        console.print(printable(f"Released unchanged, without protection: {names}."), style="bold")
    for note in (*guarantee.parameters["notes"], *anonymized.remarks):
        console.print(printable(note), style="dim")
    written = [output.in_words(tables=1 if anonymized.values is None else 2)]
    written += [str(page) for page in pages.values() if page]
    console.print(printable(f"Wrote {' and '.join(written)}."), soft_wrap=True)
    private_files = [Path(f"{output.path.name}.holder.json"), pages["report"]]
    console.print(printable(kept_in_words(release, private_files)), style="dim", soft_wrap=True)


def _format_cost(value: float | None) -> str:
    return "–" if value is None else f"{value:,.6g}"
