"""Statistics: integers that the engine counts, that get noise, and that measures are computed from.

A count is a statistic of its own; an average is made of a count and a centred sum, a variance of
a count and two centred moments. Measures that need the same statistic share it and its noise.

An `Effect` says how far one person can move a statistic, over all groups of one level together.
Under an `Entity` the engine has bounded every person's rows after all joins, so `max_rows` and
`max_groups` hold for the rows that are aggregated. A row that is a person of its own may have
become as many rows as joins with public tables allow.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.data.counting.contribution import FULL_WEIGHT
from sfumato.data.schema.unit import (
    Entity,
    Neighbours,
    Sensitivity,
    count_sensitivity,
    people_sensitivity,
    quantile_sensitivity,
    sum_sensitivity,
)
from sfumato.methods.query.plan import Function

if TYPE_CHECKING:
    from sfumato.data.schema.unit import Unit
    from sfumato.methods.query.plan import Argument, Measure, Plan


_MOMENT_BITS = 29
"""Squares of numbers of so many bits stay below 10^18."""


@dataclass(frozen=True)
class Count:
    """Rows, or where a column is given, rows that have a value there."""

    column: str | None = None


@dataclass(frozen=True)
class PeopleCount:
    """People, each counted once in a group."""


@dataclass(frozen=True)
class DistinctCount:
    """Distinct values of a column."""

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
        """The middle of the possible squares: subtracting it halves the sensitivity."""
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
    """The value at a rank; it is chosen by the exponential mechanism instead of summed."""

    argument: Argument
    quantile: Fraction


Statistic = Count | PeopleCount | DistinctCount | Total | Rank
Additive = Count | Total
"""Statistics of which a union of disjoint groups has the sum."""


def statistics_of(measure: Measure, unit: Unit) -> tuple[Statistic, ...]:
    """The statistics that a measure is computed from."""
    argument = measure.argument
    if measure.function is Function.COUNT_PEOPLE:
        return (PeopleCount() if unit.by_person else Count(),)
    if argument is None:
        return (Count(),)
    rows = Count(argument.column if argument.nullable else None)
    # Rounded up: so n - centre fits 64 bits even where the bounds are those of 64 bits.
    # A sum around the middle of the bounds has the smallest sensitivity.
    centre = -(-(argument.low + argument.high) // 2)
    match measure.function:
        case Function.COUNT:
            return (rows,)
        case Function.COUNT_DISTINCT:
            return (DistinctCount(argument.column),)
        case Function.SUM:
            return (Total(argument),)
        case Function.AVERAGE:
            return rows, Total(argument, centre)
        case Function.QUANTILE:
            assert measure.quantile is not None
            return (Rank(argument, measure.quantile),)
        case _:
            # y = (n - centre) / 2^shift has at most 29 bits, so that y^2 stays below 10^18.
            reach = max(argument.high - centre, centre - argument.low)
            shift = max(0, reach.bit_length() - _MOMENT_BITS)
            return rows, *(Total(argument, centre, shift, power) for power in (1, 2))


def statistics(plan: Plan) -> tuple[Statistic, ...]:
    """All statistics of a plan, each once."""
    all_statistics = (
        statistic for measure in plan.measures for statistic in statistics_of(measure, plan.unit)
    )
    return tuple(dict.fromkeys(all_statistics))


def _towards_zero(value: int, shift: int) -> int:
    return value >> shift if value >= 0 else -(-value >> shift)


@dataclass(frozen=True)
class Effect:
    """The largest move by one person, in both norms, and the declared range to see it against.

    For a quantile it is twice the move of the scores, over the groups together, and a person of
    `unit`, each row counting `granule`, moves the score of a single group as much.
    """

    sensitivity: Sensitivity
    spread: Fraction
    unit: Unit
    granule: int = 1

    @property
    def relative(self) -> Fraction:
        """The L1 move in units of the range."""
        return self.sensitivity.l1 / self.spread

    @property
    def relative_squared(self) -> Fraction:
        """The squared L2 move in squared units of the range."""
        return self.sensitivity.l2_squared / self.spread**2


def bounded_unit(plan: Plan) -> Unit:
    """The privacy unit after bounding: rows and groups of a person in the aggregated rows."""
    return plan.unit if plan.unit.by_person else plan.unit.bounded(plan.multiplicity)


def _ranking(unit: Unit, fine: int, *, grouped: bool) -> tuple[Unit, int]:
    """A unit and row weight that move a single score as much as all groups' scores together.

    A replaced person leaves some groups and enters others: twice as many rows come or go.
    """
    if grouped and unit.relation is Neighbours.REPLACE_ONE:
        return Entity(unit.column or "row", unit.max_rows), 2 * fine
    return unit.bounded(unit.max_rows), fine


def granule(plan: Plan, statistic: Statistic) -> int:
    """The units of the engine's sums in one row, or in one step of a value."""
    weighed = plan.unit.by_person and not isinstance(statistic, PeopleCount | DistinctCount)
    return FULL_WEIGHT if weighed else 1


def effect(plan: Plan, statistic: Statistic, *, grouped: bool) -> Effect:
    """Bound what one person changes, in granules; `grouped` says that there are several groups."""
    unit, fine = bounded_unit(plan), granule(plan, statistic)
    match statistic:
        case Total():
            low, high = statistic.ends
            if low == high == 0:
                high = 1  # a sum that is always zero gets noise too: no special case for the schema
            moved = sum_sensitivity(unit, low, high, grouped=grouped)
            return Effect(_scale(moved, fine), Fraction(fine * max(1, high - low)), unit)
        case PeopleCount():
            return Effect(people_sensitivity(unit, grouped=grouped), Fraction(1), unit)
        case Rank():
            # The exponential mechanism costs 2 rate times the move of the score, and the choices in
            # all groups cost that of the sum of the moves.
            all_groups, weight = _ranking(unit, fine, grouped=grouped)
            score = weight * quantile_sensitivity(all_groups, statistic.quantile)
            # The mechanism has bounded range, so that it costs rho = epsilon^2 / 8: as much as
            # Gaussian noise of half the sensitivity.
            moved = Sensitivity(l1=2 * score, l2_squared=score**2)
            return Effect(moved, Fraction(fine), all_groups, weight)
        case _:
            return Effect(
                _scale(count_sensitivity(unit, grouped=grouped), fine), Fraction(fine), unit
            )


def _scale(moved: Sensitivity, fine: int) -> Sensitivity:
    return Sensitivity(l1=moved.l1 * fine, l2_squared=moved.l2_squared * fine**2)
