"""Rows by their day: those between two days, and of each person the first ones alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.engines.base import column, everything

if TYPE_CHECKING:
    from sfumato.privacy.units import Unit

_TURN, _PERIOD = "sf_turn", "sf_period"


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


@dataclass(frozen=True)
class PeriodBound:
    """How rows of a stream are counted: from which day on, in periods, cells, and by person."""

    begins: date
    every: str
    """day, week, month, quarter, year, or days such as 10d."""
    days: int | None = None
    """In how many periods a person counts at most; None where rows alone are bounded."""
    by: str | None = None
    """The column whose values are the cells."""

    def period(self, of: str) -> exp.Expr:
        """What all rows of one period have in common, and grows with the periods."""
        day = exp.cast(column(of), "DATE")
        if self.every == "day":
            return day
        if self.every.endswith("d"):
            begins = exp.cast(exp.Literal.string(self.begins.isoformat()), "DATE")
            far = exp.DateDiff(this=day, expression=begins, unit=exp.var("DAY"))
            whole = exp.cast(far, exp.DType.BIGINT)
            length = exp.Literal.number(int(self.every[:-1]))
            return exp.Sub(this=whole, expression=exp.Mod(this=whole.copy(), expression=length))
        moment = exp.cast(column(of), exp.DType.TIMESTAMP)
        start = exp.TimestampTrunc(this=moment, unit=exp.var(self.every.upper()))
        return exp.cast(start, "DATE")


def count_cells(
    table: exp.Expr, of: str, unit: Unit, low: date, high: date, bound: PeriodBound
) -> exp.Select:
    """The rows of each value of a column, or all, between `low` and `high`, bounded by person.

    Of each person the first rows since `bound.begins`, as many as the unit bounds; or where
    `bound.days` says so, their first periods, with so many rows in each. What was counted of a
    person once stays counted while rows are only added: what comes later has a later turn.
    """
    rows = between(table, of, bound.begins, high)
    if unit.column is not None:
        rows = _first_turns(rows, of, unit, bound)
    block = between(rows.subquery("sf_block"), of, low, high).subquery("sf_counted")
    counted = exp.alias_(exp.Count(this=exp.Star()), "n")
    if bound.by is None:
        return exp.select(counted).from_(block)
    cell = column(bound.by)
    return exp.select(exp.alias_(cell, "cell"), counted).from_(block).group_by(cell.copy())


def _first_turns(rows: exp.Select, of: str, unit: Unit, bound: PeriodBound) -> exp.Select:
    """Of each person the rows that count; rows of nobody are left out."""
    assert unit.column is not None
    person, most = column(unit.column), exp.Literal.number(unit.max_rows)
    rows = rows.where(person.is_(exp.null()).not_())
    cells = [] if bound.by is None else [column(bound.by)]
    turns: list[exp.Expr] = [column(of), *cells]  # the same on every engine
    if bound.days is None:
        turn = _window(exp.RowNumber(), [person], turns)
        turned = rows.select(exp.alias_(turn, _TURN, quoted=True))
        return everything(turned.subquery("sf_rows")).where(column(_TURN) <= most)
    period = bound.period(of)
    turn = _window(exp.RowNumber(), [person, period], turns)
    rank = _window(exp.DenseRank(), [person], [period])
    turned = rows.select(
        exp.alias_(turn, _TURN, quoted=True), exp.alias_(rank, _PERIOD, quoted=True)
    )
    kept = exp.and_(column(_TURN) <= most, column(_PERIOD) <= exp.Literal.number(bound.days))
    return everything(turned.subquery("sf_rows")).where(kept)


def _window(what: exp.Expr, of: list[exp.Expr], by: list[exp.Expr]) -> exp.Window:
    order = exp.Order(expressions=[one.copy() for one in by])
    return exp.Window(this=what, partition_by=[one.copy() for one in of], order=order)
