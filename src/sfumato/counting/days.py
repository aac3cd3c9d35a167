"""Rows by their day: those between two days, and of each person the first ones alone."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.engines.base import column, everything

if TYPE_CHECKING:
    from sfumato.privacy.units import Unit

_TURN = "sf_turn"


def between(table: exp.Expr, of: str, low: date, high: date) -> exp.Select:
    """The rows of a table from one day to another, both included."""
    # Half open, so that a time on the last day belongs to it as well.
    behind = high if high == date.max else high + timedelta(days=1)
    first, stop = (exp.cast(exp.Literal.string(one.isoformat()), "DATE") for one in (low, behind))
    return everything(table.copy()).where(exp.and_(column(of) >= first, column(of) < stop))


def count_first(
    table: exp.Expr, of: str, unit: Unit, begins: date, low: date, high: date
) -> exp.Select:
    """How many rows lie between `low` and `high`, of each person the first since `begins` alone.

    As many of a person as the unit bounds. Which of two rows of one day comes first does not
    matter: both or neither lie in any range of days.
    """
    rows = between(table, of, begins, high)
    if unit.column is not None:
        person = column(unit.column)
        order = exp.Order(expressions=[column(of)])
        turn = exp.Window(this=exp.RowNumber(), partition_by=[person], order=order)
        rows = rows.where(person.copy().is_(exp.null()).not_())
        rows = rows.select(exp.alias_(turn, _TURN, quoted=True))
        kept = column(_TURN) <= exp.Literal.number(unit.max_rows)
        rows = everything(rows.subquery("sf_rows")).where(kept)
    block = between(rows.subquery("sf_block"), of, low, high)
    counted = exp.alias_(exp.Count(this=exp.Star()), "n")
    return exp.select(counted).from_(block.subquery("sf_counted"))
