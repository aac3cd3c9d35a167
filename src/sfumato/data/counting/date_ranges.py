"""Rows between two days, optionally bounded to the first rows of each person."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.data.engines.base import column, everything

if TYPE_CHECKING:
    from sfumato.data.schema.unit import Unit

_TURN, _PERSON = "sf_turn", "sf_person"


def rows_between(table: exp.Expr, of: str, low: date, high: date) -> exp.Select:
    """The rows of a table from day `low` to day `high`, both included."""
    # Half open, so that a timestamp on the last day is included.
    behind = high if high == date.max else high + timedelta(days=1)
    first, stop = (exp.cast(exp.Literal.string(day.isoformat()), "DATE") for day in (low, behind))
    return everything(table.copy()).where(exp.and_(column(of) >= first, column(of) < stop))


def count_cells(table: exp.Expr, of: str, low: date, high: date, by: str | None) -> exp.Select:
    """Count the rows between two days, by the values of column `by` where it is given."""
    block = rows_between(table, of, low, high).subquery("sf_block")
    counted = exp.alias_(exp.Count(this=exp.Star()), "n")
    if by is None:
        return exp.select(counted).from_(block)
    return exp.select(exp.alias_(column(by), "cell"), counted).from_(block).group_by(column(by))


def rows_of_people(
    table: exp.Expr, of: str, unit: Unit, low: date, high: date, by: str | None, person: exp.Expr
) -> exp.Select:
    """The first `max_rows` rows of each person between two days.

    The result has `person, n` with the number of rows; with `by` it has `person, cell, turn`, one
    line for each row. Rows without a person are left out.
    """
    named = exp.alias_(person, _PERSON, quoted=True)
    block = rows_between(table, of, low, high).where(column(str(unit.column)).is_(exp.null()).not_())
    most = exp.Literal.number(unit.max_rows)
    # Only our own columns are selected. *Attack*: a column of the table named sf_person would
    # otherwise take the place of the person, so that one person counted as many.
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
