"""Statistics: the whole numbers that are counted in the engine, get noise, and make up measures.

A count is a statistic of its own; an average is made of a count and a centred sum, a variance of
a count and two centred moments. Measures that need the same statistic share it and its noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.privacy.units import Entity
from sfumato.query.plan import Function

if TYPE_CHECKING:
    from fractions import Fraction

    from sfumato.privacy.units import Unit
    from sfumato.query.plan import Argument, Measure, Plan

_MOMENT_BITS = 29
"""Squares of numbers of so many bits stay below 10^18."""


@dataclass(frozen=True)
class Count:
    """Rows, or where a column is given, rows that have a value there."""

    column: str | None = None


@dataclass(frozen=True)
class People:
    """People, each counted once in a group."""


@dataclass(frozen=True)
class Distinct:
    """Different values of a column."""

    column: str


@dataclass(frozen=True)
class Total:
    """The sum over rows of y, or of y^2 - `square_centre`, where y = (n - centre) / 2^shift.

    The shift keeps squares inside 64 bits; it is 0 unless the argument has more than 2^30 steps.
    """

    argument: Argument
    centre: int = 0
    shift: int = 0
    power: int = 1

    @property
    def ends(self) -> tuple[int, int]:
        """The least and the greatest term."""
        low, high = (
            _towards_zero(end - self.centre, self.shift)
            for end in (self.argument.low, self.argument.high)
        )
        if self.power == 1:
            return low, high
        return -self.square_centre, max(low**2, high**2) - self.square_centre

    @property
    def square_centre(self) -> int:
        """What is subtracted from each square, so that terms lie evenly around zero."""
        if self.power == 1:
            return 0
        reach = max(abs(self.argument.low - self.centre), abs(self.argument.high - self.centre))
        return _towards_zero(reach, self.shift) ** 2 // 2

    @property
    def largest(self) -> int:
        """The largest magnitude of a term."""
        return max(abs(end) for end in self.ends)

    @property
    def term(self) -> exp.Expr:
        """The SQL of one row's term; NULL where the argument is."""
        value: exp.Expr = exp.column(self.argument.column)
        if self.centre:
            value = exp.Paren(this=value - exp.cast(exp.convert(self.centre), "BIGINT"))
        if self.shift:
            unit = exp.cast(exp.convert(1 << self.shift), "BIGINT")
            value = exp.Paren(this=exp.IntDiv(this=value, expression=unit))
        if self.power == 1:
            return value
        centre = exp.cast(exp.convert(self.square_centre), "BIGINT")
        return exp.Paren(this=value * value.copy() - centre)


@dataclass(frozen=True)
class Rank:
    """The value at a rank: chosen, not summed."""

    argument: Argument
    quantile: Fraction


Statistic = Count | People | Distinct | Total | Rank
Additive = Count | Total
"""Statistics of a union of groups that are the sum of theirs."""


def parts(measure: Measure, unit: Unit) -> tuple[Statistic, ...]:
    """The statistics that a measure is made of."""
    argument = measure.argument
    if measure.function is Function.COUNT_PEOPLE:
        return (People() if isinstance(unit, Entity) else Count(),)
    if argument is None:
        return (Count(),)
    rows = Count(argument.column if argument.nullable else None)
    # Rounded up: so n - centre fits 64 bits even where the bounds are those of 64 bits.
    centre = -(-(argument.low + argument.high) // 2)
    match measure.function:
        case Function.COUNT:
            return (rows,)
        case Function.COUNT_DISTINCT:
            return (Distinct(argument.column),)
        case Function.SUM:
            return (Total(argument),)
        case Function.AVERAGE:
            return rows, Total(argument, centre)
        case Function.QUANTILE:
            assert measure.quantile is not None
            return (Rank(argument, measure.quantile),)
        case _:
            reach = max(argument.high - centre, centre - argument.low)
            shift = max(0, reach.bit_length() - _MOMENT_BITS)
            return rows, *(Total(argument, centre, shift, power) for power in (1, 2))


def statistics(plan: Plan) -> tuple[Statistic, ...]:
    """All statistics of a plan, each once."""
    found = (part for measure in plan.measures for part in parts(measure, plan.unit))
    return tuple(dict.fromkeys(found))


def _towards_zero(value: int, shift: int) -> int:
    return value >> shift if value >= 0 else -(-value >> shift)
