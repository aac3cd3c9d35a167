"""`sfumato attack`, `compare` and `evaluate`: what releases reveal, and how useful they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.completion import columns
from sfumato.cli.options import (
    DeclaredSchema,
    Json,
    Overwrite,
    OwnersPage,
    SchemaFile,
    argument,
    check_page,
    form,
    option,
    topic,
    write_owners_page,
)
from sfumato.cli.process import as_flag, values_named
from sfumato.operations.field import Field
from sfumato.report.progress import progress
from sfumato.text import dumps

if TYPE_CHECKING:
    from sfumato.attack.comparison.result import Comparison
    from sfumato.attack.finding import Finding, Findings

Known = Annotated[
    str | None,
    option("FILE", "A table of what the attacker knows: people with names or quasi-identifiers."),
]
Original = Annotated[
    str | None, option("FILE", "The original table, to check the attacker's guesses.")
]
Other = Annotated[
    str | None, option("RELEASE", "A second release, or a table to join with the first.")
]
OriginalTable = Annotated[str, option("FILE", "The original table.", "--original")]
OtherOriginal = Annotated[str | None, option("FILE", "The original table of the second release.")]
Control = Annotated[
    str | None,
    option("FILE", "A table of similar people who are not in the original (control group)."),
]
Synthetic = Annotated[
    bool, option(None, "Treat the release as synthetic: its rows belong to nobody.", "--synthetic")
]
ATTACKER = (
    Field("sensitive", "The sensitive column to guess.", "COLUMN"),
    Field(
        "sure",
        "An attacker who is at least this sure of a value counts as certain.",
        "SHARE",
        type=float,
        default=1.0,
    ),
    Field("exclude", "How many values the attacker can rule out.", "J", type=int, default=1),
    Field(
        "gain",
        "Report values whose probability grows by at least this factor.",
        "FACTOR",
        type=float,
        default=2.0,
    ),
    Field(
        "near",
        "Numbers closer than this share of the range count as equal.",
        "SHARE",
        type=float,
        default=0.25,
    ),
    Field("l", "The l of l-diversity that the release was made for.", "L", type=int),
    Field(
        "population_size",
        "The size of the population from which the table was drawn.",
        "N",
        type=int,
    ),
    Field(
        "guesses",
        "The number of attempts: people, descriptions or games.",
        "N",
        type=int,
        default=2_000,
    ),
    Field("epsilon", "The epsilon of all queries of a query attack together.", "E"),
    Field(
        "together", "How many columns to combine to single out people.", "N", type=int, default=3
    ),
    Field("first", "The columns of the first of two linked lists.", "COLUMNS"),
    Field("on", "The columns on which to join two tables.", "COLUMNS"),
    Field("knows", "How many points or items the attacker knows of a victim.", "N", type=int),
    Field(
        "cell",
        "How precisely the attacker knows a location, in units of its columns.",
        "SIDE",
        type=float,
        default=0.01,
    ),
    Field(
        "minutes",
        "How precisely the attacker knows a time, in minutes.",
        "MINUTES",
        type=float,
        default=60.0,
    ),
    Field(
        "hops",
        "How many steps of the graph around a victim the attacker knows.",
        "N",
        type=int,
        default=2,
    ),
    Field(
        "column",
        "Which column is the person, item, rating, time, lon, lat or place; repeatable.",
        "WHAT=COLUMN",
        type=list[str],
    ),
)
"""The options about the attacker's knowledge; the defaults are those of `AttackOptions`."""


@form(*topic("The attacker", ATTACKER))
def attack(
    name: Annotated[str, argument("NAME", "An attack: one of those below, or 'all'.")],
    release: Annotated[
        str, argument("RELEASE", "A released table, or the folder of an anatomy release.")
    ],
    known: Known = None,
    original: Original = None,
    other: Other = None,
    other_original: OtherOriginal = None,
    control: Control = None,
    schema: SchemaFile = None,
    synthetic: Synthetic = False,
    report: OwnersPage = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
    **attacker: Any,
) -> None:
    """Attack a release and compare the attacker's success with guessing.

    Costs no budget. The result is about people in the table: keep it to yourself.

    Attacks:
        link           join a named list with the release
        link-fuzzy     join a list that has typing errors and missing cells
        uniqueness     find who is unique in the population
        homogeneity    find classes whose people all have one value
        background     find classes with one value left after some are excluded
        skewness       find classes in which a rare value is common
        similarity     find classes whose values mean the same
        minimality     reason from where a minimal algorithm did not stop
        definetti      learn across buckets which values go with which traits
        composition    intersect two releases of the same people
        join           join two releases, or a release and a public table, over their labels
        downcoding     refine minimal labels by one step
        predict        train a model on the release
        differencing   ask two questions that differ in one person
        averaging      ask one question again and again
        tracker        ask about many people so that all but one cancel out
        reconstruct    compute everybody's secret from counts of random groups
        membership     find out which people were in the data that a table was made from
        singling-out   describe unique rows of the release and look for people like that
        linkability    link records of two lists by the release
        inference      guess a column of people from the nearest released row
        copies         find released rows that are exact copies of people's rows
        scoreboard     find all ratings of a person by a few of them
        path           find all points of a person by a few of them
        log            find people by names and places that they search for
        neighbourhood  find people of a graph by their neighbourhood

    Examples:
        sfumato attack link safe.csv --original people.csv --schema people.toml
        sfumato attack all safe.csv --original people.csv --schema people.toml --report found.html
        sfumato attack differencing people.csv --schema people.toml --epsilon 1
    """
    from sfumato.attack.finding import Findings
    from sfumato.attack.inspection_pages import attack_page
    from sfumato.attack.options import attack_options
    from sfumato.attack.runner import attack as run_attack

    # A comma separates columns here; Python takes a list.
    for listed in ("first", "on"):
        attacker[listed] = attacker[listed] and attacker[listed].split(",")
    options = attack_options(columns=attacker.pop("column"), **attacker)
    tables: dict[str, str | None] = {
        "known": known,
        "original": original,
        "other": other,
        "other_original": other_original,
        "control": control,
    }
    # Before the attacks: they may take minutes, and the page may be unwritable.
    check_page(report, release, *tables.values(), schema, overwrite=overwrite)
    with values_named(), progress("Attacking", unit="attacks") as report_progress:
        result = run_attack(
            name,
            release,
            schema,
            **tables,
            synthetic=synthetic,
            options=options,
            progress=report_progress,
        )
    write_owners_page(
        report, lambda typed: attack_page(result, release, typed), overwrite=overwrite
    )
    if as_json:
        figures = result.json(spelling=as_flag) if isinstance(result, Findings) else result.json()
        typer.echo(dumps(figures, ensure_ascii=False))
    else:
        _print_findings(result, report)


def _print_findings(result: Finding | Findings, report: Path | None) -> None:
    """Print each finding in words, then the attacks that did not run."""
    from rich.console import Console

    from sfumato.attack.finding import Finding
    from sfumato.report.terminal import printable

    console = Console(highlight=False)
    for finding in [result] if isinstance(result, Finding) else result.findings:
        console.print(printable(f"{finding.attack}: {finding.words()}"))
        if finding.victims:
            console.print(printable(f"  Victims: {finding.victims:,}."))
        for remark in finding.remarks:
            console.print(printable(f"  {remark}"), style="dim")
    if not isinstance(result, Finding):
        for name, reason in result.reasons(as_flag).items():
            console.print(printable(f"{name} did not run: {reason}"))
    console.print("For the owner: computed from rows of people.", style="dim")
    if report is not None:
        console.print(printable(f"The page is {report}."), style="dim")


def compare(
    releases: Annotated[list[str], argument("RELEASE...", "Released tables, or their folders.")],
    original: OriginalTable,
    schema: DeclaredSchema,
    known: Known = None,
    control: Control = None,
    synthetic: Annotated[
        list[str] | None, option("RELEASE", "A candidate whose rows are synthetic; repeatable.")
    ] = None,
    report: OwnersPage = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Compare several releases of one table by privacy and utility.

    Candidates can be anonymized tables, anatomies, published counts, synthetic tables or tables of
    other tools. Reads the original without a budget: keep the result to yourself.

    Examples:
        sfumato compare safe.csv synthetic.csv --original people.csv --schema people.toml
        sfumato compare safe.csv synthetic.csv --original people.csv --schema people.toml \\
            --known voters.csv --report compare.html
    """
    from sfumato.attack.comparison.compare import compare_releases

    check_page(report, *releases, original, known, control, schema, overwrite=overwrite)
    with values_named(), progress("Comparing", unit="candidates") as report_progress:
        comparison = compare_releases(
            releases,
            original,
            schema,
            known=known,
            control=control,
            synthetic=synthetic or (),
            progress=report_progress,
        )
    if report is not None:
        comparison.save_report(report, overwrite=overwrite)
    if as_json:
        typer.echo(dumps(comparison.json(), ensure_ascii=False))
    else:
        print_comparison(comparison, report)


def print_comparison(comparison: Comparison, report: Path | None) -> None:
    """Print one line for each candidate, and the best trade-offs."""
    from sfumato.attack.comparison.page import summary
    from sfumato.report.terminal import print_for_owner

    print_for_owner(summary(comparison), report)


def evaluate(
    synthetic: Annotated[str, argument("SYNTHETIC", "The synthetic table, of any tool.")],
    original: OriginalTable,
    schema: DeclaredSchema,
    target: Annotated[
        str | None,
        option(
            "COLUMN",
            "Train models that predict this column on both tables, and compare them.",
            autocompletion=columns,
        ),
    ] = None,
    report: OwnersPage = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Compare a synthetic table with its original: similarity, use for models, copied rows.

    Reads the original without a budget: keep the result to yourself.

    Examples:
        sfumato evaluate synthetic.csv --original people.csv --schema people.toml
        sfumato evaluate synthetic.csv --original people.csv --schema people.toml \\
            --target disease --report evaluation.html
    """
    from sfumato.attack.evaluation.evaluate import evaluate as evaluate_tables
    from sfumato.attack.evaluation.page import summary
    from sfumato.report.terminal import print_for_owner

    check_page(report, synthetic, original, schema, overwrite=overwrite)
    with progress("Comparing the tables", unit="sets of columns") as report_progress:
        evaluation = evaluate_tables(
            synthetic, original, schema, target=target, progress=report_progress
        )
    if report is not None:
        evaluation.report(report, overwrite=overwrite)
    if as_json:
        typer.echo(dumps(evaluation.json(), ensure_ascii=False))
    else:
        print_for_owner(summary(evaluation), report)
