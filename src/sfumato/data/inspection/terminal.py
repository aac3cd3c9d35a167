"""Print an inspection on the terminal: roles, the most identifying columns, three attackers."""

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
    from sfumato.data.inspection.risk import SetRisk

# Bars in the chart of sets, and names of columns up to which a set is spelled out.
_MOST_BARS, _MOST_NAMES = 12, 12


def print_inspection(inspection: Inspection, *, written: Path | None = None) -> None:
    """Print an inspection on the terminal; `written` is the schema file that was written."""
    blocks: list[RenderableType] = [
        f"{inspection.rows:,} rows, {len(inspection.guesses)} columns\n",
        _roles(inspection),
        *_warnings(inspection),
    ]
    if inspection.sets:
        blocks += ["", _headline(inspection), "", _sets(inspection), "", _attackers(inspection)]
    else:
        blocks += [
            "\nNo column is a quasi-identifier, so there is nothing to tell people apart by."
        ]
    if written is not None:
        blocks.append(
            f"\nWrote the schema to {written}. Check the roles. For queries and publications, "
            "uncomment the bounds and values that are public."
        )
    Console(highlight=False, soft_wrap=False).print(Group(*blocks))


def _roles(inspection: Inspection) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("Column", "Kind", "Role", "Reason"):
        table.add_column(title, overflow="fold")
    for guess in inspection.guesses:
        column = guess.column
        table.add_row(printable(column.name), column.kind, column.role, printable(guess.reason))
    return table


def _warnings(inspection: Inspection) -> list[RenderableType]:
    warnings = [
        (guess.column.name, warning) for guess in inspection.guesses for warning in guess.warnings
    ]
    if not warnings:
        return []
    return ["", *(Text.assemble(printable(name), ": ", printable(text)) for name, text in warnings)]


def _headline(inspection: Inspection) -> str:
    """A sentence about the smallest set that has at least 90 % of the highest uniqueness."""
    most = max(set_risk.unique_share for set_risk in inspection.sets)
    telling = min(
        (set_risk for set_risk in inspection.sets if set_risk.unique_share >= 0.9 * most),
        key=lambda set_risk: (len(set_risk.columns), -set_risk.unique_share),
    )
    return (
        f"{_name(telling)}: unique for {100 * telling.unique_share:.1f} % of the "
        f"{inspection.counted}."
    )


def _sets(inspection: Inspection) -> RenderableType:
    """A bar table of the most identifying sets of each size, small to large."""
    chosen: dict[tuple[str, ...], SetRisk] = {}
    sizes = sorted({len(set_risk.columns) for set_risk in inspection.sets})
    for size in sizes:
        of_size = [set_risk for set_risk in inspection.sets if len(set_risk.columns) == size]
        for set_risk in of_size[: max(1, _MOST_BARS // len(sizes))]:
            chosen[set_risk.columns] = set_risk
    rows = [(_name(set_risk), set_risk.unique_share) for set_risk in chosen.values()]
    title = f"Most revealing sets of columns (of {len(inspection.sets):,} examined)"
    shown = bar_table(rows, category=title, value="unique", percent=True)
    return Group(shown, f"\n{left_out}") if (left_out := inspection.left_out) else shown


def _attackers(inspection: Inspection) -> Table:
    from sfumato.data.inspection.risk import SMALL

    risk = inspection.reidentification
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("An attacker who knows all quasi-identifiers")
    for title in ("highest risk", "average risk", f"{inspection.counted} in classes below {SMALL}"):
        table.add_column(title, justify="right")
    for name, knowledge, attacker in (
        ("prosecutor", "knows the target is in the table", risk.prosecutor),
        ("journalist", "picks any target of the population", risk.journalist),
        ("marketer", "links all rows at once", risk.marketer),
    ):
        figures = (attacker.highest, attacker.average, attacker.at_risk)
        table.add_row(f"{name}: {knowledge}", *(f"{100 * figure:.1f} %" for figure in figures))
    return table


def _name(risk: SetRisk) -> str:
    if len(risk.columns) > _MOST_NAMES:
        return f"all {len(risk.columns):,} quasi-identifiers"
    return " + ".join(risk.columns)
