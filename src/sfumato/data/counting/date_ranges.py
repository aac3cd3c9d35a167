"""Rows by their day: those between two days, and of each person the first ones alone."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.data.engines.base import column, everything

if TYPE_CHECKING:
    from sfumato.data.schema.unit import Unit

_TURN, _PERSON = "sf_turn", "sf_person"


def between(table: exp.Expr, of: str, low: date, high: date) -> exp.Select:
    """The rows of a table from one day to another, both included."""
    # Half open, so that a time on the last day belongs to it as well.
    behind = high if high == date.max else high + timedelta(days=1)
    first, stop = (exp.cast(exp.Literal.string(day.isoformat()), "DATE") for day in (low, behind))
    return everything(table.copy()).where(exp.and_(column(of) >= first, column(of) < stop))


def count_cells(table: exp.Expr, of: str, low: date, high: date, by: str | None) -> exp.Select:
    """The rows between two days, by value of a column where one is given."""
    block = between(table, of, low, high).subquery("sf_block")
    counted = exp.alias_(exp.Count(this=exp.Star()), "n")
    if by is None:
        return exp.select(counted).from_(block)
    return exp.select(exp.alias_(column(by), "cell"), counted).from_(block).group_by(column(by))


def rows_of_people(
    table: exp.Expr, of: str, unit: Unit, low: date, high: date, by: str | None, person: exp.Expr
) -> exp.Select:
    """The rows between two days by `person`, who is the unit's; of each person the first alone.

    At most the unit's `max_rows` of each: `person, n` of so many rows; or with cells
    `person, cell, turn`, one for each row. Rows of nobody are left out.
    """
    named = exp.alias_(person, _PERSON, quoted=True)
    block = between(table, of, low, high).where(column(str(unit.column)).is_(exp.null()).not_())
    most = exp.Literal.number(unit.max_rows)
    # What is selected stands alone: beside all columns, one of the table's own that has a name of
    # ours would be taken for the people, and one person could count as many.
    if by is None:
        counted = exp.Least(this=exp.Count(this=exp.Star()), expressions=[most])
        rows = block.select(named, append=False).subquery("sf_block")
        return (
            exp.select(column(_PERSON), exp.alias_(counted, "n"))
            .from_(rows)
            .group_by(column(_PERSON))
        )
    # The same order on every engine: by day, and on one day by cell.
    order = exp.Order(expressions=[column(of), column(by)])
    turn = exp.Window(this=exp.RowNumber(), partition_by=[person.copy()], order=order)
    cell = exp.alias_(column(by), "cell", quoted=True)
    turned = block.select(named, cell, exp.alias_(turn, _TURN, quoted=True), append=False)
    numbered = exp.select(column(_PERSON), column("cell"), column(_TURN))
    return numbered.from_(turned.subquery("sf_rows")).where(column(_TURN) <= most)
