"""`sfumato attack`: what an attacker still gets from a release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.completion import columns
from sfumato.cli.options import (
    Json,
    Overwrite,
    OwnersPage,
    SchemaFile,
    argument,
    check_page,
    option,
    write_owners_page,
)
from sfumato.cli.progress import progress, values_named
from sfumato.text import dumps

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.attack.finding import Finding, Findings

ATTACKER = "The attacker"
"""The topic under which help tells what is supposed of an attacker."""


def _supposed(metavar: str, told: str) -> Any:
    return option(metavar, told, rich_help_panel=ATTACKER)


Known = Annotated[str | None, option("FILE", "The attacker's list of people.")]
Original = Annotated[str | None, option("FILE", "The table it was made from: who is right?")]
Other = Annotated[str | None, option("RELEASE", "A second release, or a table to join with.")]
OtherOriginal = Annotated[str | None, option("FILE", "The table that the other was made from.")]
Control = Annotated[str | None, option("FILE", "People like these who are not in the data.")]
Synthetic = Annotated[bool, option(None, "Its rows are made up, nobody's.", "--synthetic")]
Sensitive = Annotated[str | None, option("COLUMN", "Guess this column.", autocompletion=columns)]
Sure = Annotated[float, _supposed("SHARE", "From this belief on the attacker is sure.")]
Exclude = Annotated[int, _supposed("J", "Values that the attacker can exclude.")]
Gain = Annotated[float, _supposed("FACTOR", "A gain of belief that matters.")]
Near = Annotated[float, _supposed("SHARE", "Numbers in this share of the range are alike.")]
Diverse = Annotated[int | None, _supposed("L", "The l-diversity that was asked for.")]
People = Annotated[int | None, _supposed("N", "How many people the release is drawn from.")]
Guesses = Annotated[int, _supposed("N", "So many people, descriptions or games are tried.")]
Epsilon = Annotated[str | None, _supposed("E", "What a script of questions costs together.")]
Together = Annotated[int, _supposed("N", "Columns that are taken together to single out.")]
First = Annotated[str | None, _supposed("COLUMNS", "Columns of the first of two lists.")]
On = Annotated[str | None, _supposed("COLUMNS", "Columns by which two tables are joined.")]
Knows = Annotated[int | None, _supposed("N", "Points or items that are known of a victim.")]
Cell = Annotated[float, _supposed("SIDE", "How exactly a place is known.")]
Minutes = Annotated[float, _supposed("MINUTES", "How exactly a time is known.")]
Hops = Annotated[int, _supposed("N", "How far around a victim a graph is known.")]
Named = Annotated[
    list[str] | None,
    _supposed("WHAT=COLUMN", "Which column is the person, item, rating, time, lon, lat, place..."),
]


def attack(
    name: Annotated[str, argument("NAME", "An attack, or 'all'.")],
    release: Annotated[str, argument("RELEASE", "A released table, or the folder of an anatomy.")],
    known: Known = None,
    original: Original = None,
    other: Other = None,
    other_original: OtherOriginal = None,
    control: Control = None,
    schema: SchemaFile = None,
    synthetic: Synthetic = False,
    sensitive: Sensitive = None,
    sure: Sure = 1.0,
    exclude: Exclude = 1,
    gain: Gain = 2.0,
    near: Near = 0.25,
    l: Diverse = None,  # noqa: E741  # the literature's own name
    population_size: People = None,
    guesses: Guesses = 2_000,
    epsilon: Epsilon = None,
    together: Together = 3,
    first: First = None,
    on: On = None,
    knows: Knows = None,
    cell: Cell = 0.01,
    minutes: Minutes = 60.0,
    hops: Hops = 2,
    column: Named = None,
    report: OwnersPage = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Attack a release as its owner: how often is an attacker right, how often would a guess be?

    Nothing is charged. What it tells is about people in the table, and for the owner alone.

    Examples:
        sfumato attack link safe.csv --original people.csv --schema people.toml
        sfumato attack all safe.csv --original people.csv --schema people.toml --report found.html
        sfumato attack differencing people.csv --schema people.toml --epsilon 1
    """
    from sfumato.attack.inspection_pages import attack_page
    from sfumato.attack.options import attack_options
    from sfumato.attack.runner import attack as attacked

    supposed: dict[str, Any] = {"sensitive": sensitive, "sure": sure, "exclude": exclude, "l": l}
    supposed |= {"gain": gain, "near": near, "guesses": guesses, "columns": column}
    supposed |= {"population_size": population_size, "epsilon": epsilon, "together": together}
    supposed |= {"knows": knows, "cell": cell, "minutes": minutes, "hops": hops}
    tables: dict[str, Any] = {"known": known, "original": original, "other": other}
    tables |= {"other_original": other_original, "control": control}
    options = attack_options(**supposed, first=_listed(first), on=_listed(on))
    check_page(report, release, *tables.values(), schema, overwrite=overwrite)
    with values_named(), progress("Attacking", unit="attacks") as told:
        tables["synthetic"] = synthetic
        found = attacked(name, release, schema, **tables, options=options, progress=told)
    write_owners_page(report, lambda typed: attack_page(found, release, typed), overwrite=overwrite)
    if as_json:
        typer.echo(dumps(found.json(), ensure_ascii=False))
    else:
        _show(found, report)


def _listed(names: str | None) -> list[str] | None:
    return None if names is None else names.split(",")


def _show(found: Finding | Findings, report: Path | None) -> None:
    """Print each finding in words, then what did not run."""
    from rich.console import Console

    from sfumato.attack.finding import Finding
    from sfumato.report.terminal import printable

    console = Console(highlight=False)
    for one in [found] if isinstance(found, Finding) else found.findings:
        console.print(printable(f"{one.attack}: {one.words()}"))
        if one.victims:
            console.print(printable(f"  Victims: {one.victims:,}."))
        for remark in one.remarks:
            console.print(printable(f"  {remark}"), style="dim")
    if not isinstance(found, Finding):
        for name, reason in found.not_run.items():
            console.print(printable(f"{name} did not run: {reason}"))
    console.print("For the owner: computed from rows of people.", style="dim")
    if report is not None:
        console.print(printable(f"The page is {report}."), style="dim")
