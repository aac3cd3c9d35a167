"""An inspection on the terminal: roles, the most telling columns, three attackers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from sfumato.report.terminal import bar_table, printable

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

    from sfumato.data.inspection import Inspection
    from sfumato.data.inspection.uniqueness import SetRisk

_MOST_BARS, _MOST_NAMES = 12, 12


def print_inspection(found: Inspection, *, written: Path | None = None) -> None:
    """Print an inspection: roles, the headline, the most telling sets, three attackers."""
    parts: list[RenderableType] = [
        f"{found.rows:,} rows, {len(found.guesses)} columns\n",
        _roles(found),
        *_warnings(found),
    ]
    if found.sets:
        parts += ["", _headline(found), "", _sets(found), "", _attackers(found)]
    else:
        parts += ["\nNo column is a quasi-identifier, so there is nothing to tell people apart by."]
    if written is not None:
        parts.append(
            f"\nWrote the schema to {written}. Check the roles. For questions and publications, "
            "uncomment there what everybody may know."
        )
    Console(highlight=False, soft_wrap=False).print(Group(*parts))


def _roles(found: Inspection) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("Column", "Kind", "Role", "Reason"):
        table.add_column(title, overflow="fold")
    for guess in found.guesses:
        column = guess.column
        table.add_row(printable(column.name), column.kind, column.role, printable(guess.reason))
    return table


def _warnings(found: Inspection) -> list[RenderableType]:
    said = [(guess.column.name, one) for guess in found.guesses for one in guess.warnings]
    if not said:
        return []
    return ["", *(Text.assemble(printable(name), ": ", printable(one)) for name, one in said)]


def _headline(found: Inspection) -> str:
    """The sentence a person remembers, about the smallest set that is nearly as telling as any."""
    most = max(one.unique_share for one in found.sets)
    telling = min(
        (one for one in found.sets if one.unique_share >= 0.9 * most),
        key=lambda one: (len(one.columns), -one.unique_share),
    )
    return (
        f"{_name(telling)}: unique for {100 * telling.unique_share:.0f} % of the {found.counted}."
    )


def _sets(found: Inspection) -> RenderableType:
    """The most telling sets of each size, small to large."""
    chosen: dict[tuple[str, ...], SetRisk] = {}
    sizes = sorted({len(one.columns) for one in found.sets})
    for size in sizes:
        same = [one for one in found.sets if len(one.columns) == size]
        for one in same[: max(1, _MOST_BARS // len(sizes))]:
            chosen[one.columns] = one
    rows = [(f"{_name(one)}", one.unique_share) for one in chosen.values()]
    title = f"Most telling sets of columns (of {len(found.sets):,} examined)"
    shown = bar_table(rows, what=title, value="unique", percent=True)
    return Group(shown, f"\n{left_out}") if (left_out := found.left_out) else shown


def _attackers(found: Inspection) -> Table:
    from sfumato.data.inspection.uniqueness import SMALL

    risk = found.reidentification
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("An attacker who knows all quasi-identifiers")
    for title in ("highest risk", "average risk", f"{found.counted} in groups below {SMALL}"):
        table.add_column(title, justify="right")
    for name, what, attacker in (
        ("prosecutor", "knows the target is in the table", risk.prosecutor),
        ("journalist", "picks any target of the population", risk.journalist),
        ("marketer", "links all rows at once", risk.marketer),
    ):
        figures = (attacker.highest, attacker.average, attacker.at_risk)
        table.add_row(f"{name}: {what}", *(f"{100 * figure:.1f} %" for figure in figures))
    return table


def _name(one: SetRisk) -> str:
    if len(one.columns) > _MOST_NAMES:
        return f"all {len(one.columns):,} quasi-identifiers"
    return " + ".join(one.columns)
