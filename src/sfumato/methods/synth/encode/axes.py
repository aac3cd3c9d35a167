"""A declared axis of bins: neighbouring points of a grid that are counted as one.

A value goes to the nearest point of the grid and with it into a bin. Where bins are equally wide
the engine divides, which is fastest; else it compares the value with the bins' lower ends, a few
times for each row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import chain, count, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from sfumato.data.counting.axes import Grid, Listed, literal
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import EXACT, Bounds
from sfumato.data.schema.hierarchy import Calendar, Step, Widths
from sfumato.data.schema.spelling import NumberSpelling
from sfumato.privacy.noise.selection import uniform_below

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sfumato.arrays import IntArray
    from sfumato.data.counting.axes import Axis
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.hierarchy import Hierarchy
    from sfumato.privacy.noise.entropy import Entropy


@dataclass(frozen=True)
class Bins(Grid):
    """Bins of a grid's points, each from its start up to the next one's; starts are numbers."""

    starts: tuple[int, ...]

    @property
    def points(self) -> int:
        """How many bins there are."""
        return len(self.starts)

    @cached_property
    def fine(self) -> Grid:
        """The grid whose points lie in the bins."""
        return Grid(self.column, self.kind, self.bounds, self.nullable)

    def decode(self, codes: NDArray[np.integer]) -> pa.Array:
        """The lowest value of each bin, NULL and NaN included."""
        return self.at(codes, np.zeros(len(codes), dtype=np.int64))

    def highest(self, codes: NDArray[np.integer]) -> pa.Array:
        """The highest value of each bin, NULL and NaN included."""
        return self.at(codes, self.widths_of(codes) - 1)

    def spread(self, codes: NDArray[np.integer], entropy: Entropy) -> pa.Array:
        """Values drawn evenly from the points of each bin, NULL and NaN included."""
        return self.at(codes, uniform_below(self.widths_of(codes), entropy))

    def bins_of(self, fine_codes: IntArray) -> IntArray:
        """The bins that points of the grid are in; NULL and NaN have codes behind all."""
        inside = np.searchsorted(self.starts, fine_codes, side="right") - 1
        beyond = fine_codes - self.fine.points
        return np.where(beyond < 0, inside, self.points + beyond)

    def starts_of(self, codes: NDArray[np.integer]) -> IntArray:
        """The first point of each bin."""
        starts = np.array(self.starts, dtype=np.int64)
        return np.asarray(starts[np.minimum(codes, self.points - 1)])

    def widths_of(self, codes: NDArray[np.integer]) -> IntArray:
        """How many points each bin has."""
        widths = np.diff((*self.starts, self.fine.points)).astype(np.int64)
        return np.asarray(widths[np.minimum(codes, self.points - 1)])

    def at(self, codes: NDArray[np.integer], offsets: IntArray) -> pa.Array:
        """The values so many points after the first of each bin, NULL and NaN included."""
        beyond = codes.astype(np.int64) - self.points
        inside = self.starts_of(codes) + offsets
        return self.fine.decode(np.where(beyond < 0, inside, self.fine.points + beyond))

    def _nearest(self, value: exp.Expr) -> exp.Expr:
        """The bin of a value strictly inside the bounds."""
        width = self._width
        if width is None:
            return self._among(value, 0, self.points)
        if self.kind is Kind.REAL:
            from_second = exp.Paren(this=value - literal(self._lower_end(1)))
            step = EXACT.multiply(Decimal(width), Decimal(self.bounds.grid_step or 1))
            bin_number = exp.Floor(this=from_second / literal(step)) + literal(Decimal(1))
            # However doubles were rounded, codes are those of bins.
            last = literal(Decimal(self.points - 1))
            return exp.Least(this=bin_number, expressions=[last], ignore_nulls=True)
        # The first bin may begin before the first point: as if so many points were before it.
        bin_number = exp.Paren(this=super()._nearest(value)) + literal(width - self.starts[1])
        return exp.IntDiv(this=exp.Paren(this=bin_number), expression=literal(width))

    @property
    def _width(self) -> int | None:
        """How many points each bin has, but for a shorter first and last one; None if uneven."""
        if len(self.starts) < 3:
            return None
        widths = {after - before for before, after in pairwise(self.starts[1:])}
        width = widths.pop()
        even = not widths and max(self.starts[1], self.fine.points - self.starts[-1]) <= width
        return width if even else None

    def _among(self, value: exp.Expr, first: int, stop: int) -> exp.Expr:
        """The bin of a value that is in one of [first, stop), by halving."""
        if stop - first == 1:
            return exp.convert(first)
        middle = (first + stop) // 2
        reached = exp.GTE(this=value.copy(), expression=literal(self._lower_end(middle)))
        upper, lower = self._among(value, middle, stop), self._among(value, first, middle)
        # `when` and `else_` would copy all that is below, at every level.
        return exp.Case(ifs=[exp.If(this=reached, true=upper)], default=lower)

    def _lower_end(self, code: int) -> int | Decimal | date:
        """The least value that is nearest to the first point of a bin, or to a later one."""
        low, step = self.bounds.low, self.bounds.grid_step
        assert step is not None
        start = self.starts[code]
        if isinstance(low, Decimal):
            doubled = EXACT.multiply(Decimal(2 * start - 1), Decimal(step))
            return EXACT.add(low, EXACT.divide(doubled, Decimal(2)))
        distance = start * int(step) - int(step) // 2
        if isinstance(low, date):
            return low + timedelta(days=distance)
        return low + distance


# Where a grid is cut into bins: from what is declared alone, at ends that people would choose.
#
# Of the widths and calendar steps that a column's hierarchy declares, and else of round ones, the
# finest that gives few enough bins is taken. Bins begin at multiples of their width.

_MONTHS = {Step.MONTH: 1, Step.QUARTER: 3, Step.YEAR: 12, Step.DECADE: 120}


def starts(grid: Grid, hierarchy: Hierarchy | None, most: int) -> tuple[int, ...] | None:
    """The first points of at most so many bins, more than one; None if points are few enough."""
    if grid.points <= most:
        return None
    low, high = grid.bounds.low, grid.bounds.high
    if isinstance(low, date) and isinstance(high, date):
        steps = hierarchy.steps if isinstance(hierarchy, Calendar) else tuple(_MONTHS)
        for months in (_MONTHS[step] for step in steps):
            if _month(high) // months - _month(low) // months < most:
                return _calendar(grid, low, high, months)
    zero = date(1, 1, 1)
    first = (low - zero).days if isinstance(low, date) else low
    last = (high - zero).days if isinstance(high, date) else high
    declared = hierarchy.widths if isinstance(hierarchy, Widths) else ()
    step = Fraction(grid.bounds.grid_step or 1)
    for width in chain(map(Fraction, declared), _round(step)):
        if width >= step and Fraction(last) // width - Fraction(first) // width < most:
            return _multiples(Fraction(first), Fraction(last), step, width)
    raise AssertionError("round widths grow until all is one bin or two")


def _round(step: Fraction) -> Iterator[Fraction]:
    """1, 2, 5, 10, 20, 50, ... from the least that is no less than a step of at most 10^15."""
    power = -12
    while Fraction(10) ** (power + 1) <= step:
        power += 1
    for exponent in count(power):
        yield from (digit * Fraction(10) ** exponent for digit in (1, 2, 5))


def _multiples(first: Fraction, last: Fraction, step: Fraction, width: Fraction) -> tuple[int, ...]:
    ends = range(first // width + 1, last // width + 1)
    return (0, *dict.fromkeys(-((first - end * width) // step) for end in ends))


def _calendar(grid: Grid, low: date, high: date, months: int) -> tuple[int, ...]:
    step = int(grid.bounds.grid_step or 1)
    numbers = range(_month(low) // months + 1, _month(high) // months + 1)
    days = [(date(*_year_and_month(number * months), 1) - low).days for number in numbers]
    return (0, *dict.fromkeys(-(-day // step) for day in days))


def _month(day: date) -> int:
    return 12 * day.year + day.month - 1


def _year_and_month(number: int) -> tuple[int, int]:
    return number // 12, number % 12 + 1


# The grid of a column of reals: as fine as is declared, or as its decimals are written.
#
# Decision `schemas` cuts a continuum into about a hundred round steps, by which counts and sums
# are no worse. Rows that are drawn on them would have lost their decimals: weights of 71.3 were
# 71 then, and of amounts up to 40,000 most were 0. Bins are cut where rows crowd, on any grid.

_MOST_WRITTEN = 1 << 24
"""Finer than this decimals that are written are not drawn, nor hundredths where nobody says."""
_MOST_POINTS = 1 << 16
"""And others not finer than this: questions about such points, beside few others, are judged."""
_HUNDREDTH = Decimal("0.01")
"""Amounts come in cents."""


def on_grid(column: Column) -> Column:
    """The column with a step, if it is one of reals within bounds that declares none."""
    domain = column.public_domain
    if column.kind is not Kind.REAL or not isinstance(domain, Bounds) or domain.step is not None:
        return column
    stepped = _as_written(column, domain) or _by_decimals(column, domain)
    if stepped is None and domain.stepped() is None:
        stepped = _by_last_digit(domain)
    return column if stepped is None else replace(column, domain=stepped, spelling=None)


def _as_written(column: Column, domain: Bounds) -> Bounds | None:
    """In steps of the last decimal that is written, unless round steps are finer."""
    written = column.spelling
    if not isinstance(written, NumberSpelling) or written.places is None or not domain.span:
        return None
    step, round_steps = Decimal(1).scaleb(-written.places), domain.stepped()
    is_divisible = not EXACT.remainder(Decimal(domain.span), step)
    if not is_divisible or EXACT.divide(Decimal(domain.span), step) >= _MOST_WRITTEN:
        return None
    if round_steps is not None and Decimal(round_steps.step or 0) <= step:
        return None
    return Bounds(domain.low, domain.high, step)


def _by_decimals(column: Column, domain: Bounds) -> Bounds | None:
    """In the finest decimals of few enough points, or hundredths, where nobody says how many."""
    written = column.spelling
    if (isinstance(written, NumberSpelling) and written.places is not None) or not domain.span:
        return None
    span = Decimal(domain.span)
    step = Decimal(1).scaleb((span / _MOST_POINTS).adjusted() + 1)
    if span / _MOST_WRITTEN < _HUNDREDTH:
        step = min(step, _HUNDREDTH)
    round_steps = domain.stepped()
    if EXACT.remainder(span, step) or (
        round_steps is not None and Decimal(round_steps.step or 0) <= step
    ):
        return None
    return Bounds(domain.low, domain.high, step)


def _by_last_digit(domain: Bounds) -> Bounds:
    """What no round step divides, and a single number: in steps of their last digit."""
    low, high = Decimal(domain.low), Decimal(domain.high)  # type: ignore[arg-type]
    digits = min(int(end.normalize().as_tuple().exponent) for end in (low, high))
    return Bounds(low, high, Decimal(1).scaleb(min(digits, 0)))


# Days of the week, measured beside the bins of a column of dates.
#
# A bin of a month says nothing of Sundays. Where somebody asks for it, the day of the week is one
# more axis of the model, with a name that no column has; a day is then drawn from those of its
# bin that are on the day of the week that was drawn with it.
#
# Decision `synthetic-rows`.

_WEEK = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True)
class Weekdays(Listed):
    """The seven days, and none where a date is missing; counted of the days of a grid."""

    days: Grid

    @classmethod
    def of(cls, days: Grid, name: str) -> Weekdays:
        """The axis of this name beside that of some days, one by one."""
        values = pa.array([*_WEEK, *([None] if days.nullable else [])], pa.string())
        return cls(name, values, True, days)

    def code(self) -> exp.Expr:
        """The SQL of the day of the week that a value is on; NULL where it is missing."""
        # A grid without a place for what is missing gives it no code.
        days = exp.Paren(this=replace(self.days, nullable=False).code() + literal(self._first))
        case = exp.case(exp.Mod(this=days, expression=literal(len(_WEEK))))
        for number, name in enumerate(_WEEK):
            case = case.when(literal(number), exp.convert(name))
        return case

    def codes(self, points: NDArray[np.integer]) -> IntArray:
        """The codes of points of the grid, of which those behind all are missing."""
        on = (points.astype(np.int64) + self._first) % len(_WEEK)
        return np.where(points < self.days.points, on, len(_WEEK))

    def spread(
        self,
        bins: Bins,
        codes: NDArray[np.integer],
        weekdays: NDArray[np.integer],
        entropy: Entropy,
    ) -> pa.Array:
        """Dates drawn evenly from those of each bin that are on a day of the week.

        From all of the bin where none of its days is, or where the day of the week is missing.
        """
        starts, widths = bins.starts_of(codes), bins.widths_of(codes)
        ahead = (weekdays.astype(np.int64) - starts - self._first) % len(_WEEK)
        weeks = np.maximum(-((ahead - widths) // len(_WEEK)), 0)
        held = (weeks > 0) & (weekdays < len(_WEEK))
        drawn = uniform_below(np.where(held, weeks, widths), entropy)
        return bins.at(codes, np.where(held, ahead + len(_WEEK) * drawn, drawn))

    @property
    def _first(self) -> int:
        """The day of the week of the first point."""
        low = self.days.bounds.low
        assert isinstance(low, date)
        return low.weekday()


# The codes of values that an axis gave out: what `decode` and `spread` did, undone.

_EPOCH = 719163
"""The ordinal of 1970-01-01."""


def codes_in(axis: Axis, rows: pa.Table) -> NDArray[np.int32]:
    """The codes of rows that were drawn: of an axis's column, or of days of the week in one."""
    if not isinstance(axis, Weekdays):
        return codes_of(axis, rows.column(axis.column))
    points = codes_of(axis.days, rows.column(axis.days.column))
    return axis.codes(points).astype(np.int32)


def codes_of(axis: Axis, values: pa.ChunkedArray) -> NDArray[np.int32]:
    """The codes of values that are all on the axis; as drawn, with missing values for NaN."""
    if isinstance(axis, Listed):
        codes = pc.index_in(values.cast(axis.values.type), value_set=axis.values)
        return np.asarray(codes.combine_chunks(), dtype=np.int32)
    grid = axis.fine if isinstance(axis, Bins) else axis
    missing = np.asarray(pc.is_null(values, nan_is_null=True), dtype=bool)
    points = _points(grid, values)
    if isinstance(axis, Bins):
        points = np.searchsorted(axis.starts, points, "right") - 1
    return np.where(missing, axis.points, points).astype(np.int32)


def _points(grid: Grid, values: pa.ChunkedArray) -> IntArray:
    """The numbers of points of a grid; 0 where there is none."""
    low: Any = grid.bounds.low
    step: Any = grid.bounds.grid_step or 1
    if grid.kind is Kind.REAL:
        reals = np.asarray(values.fill_null(float(low)), dtype=np.float64)
        steps = np.nan_to_num(reals - float(low)) / float(step)
        return np.clip(np.rint(steps), 0, grid.points - 1).astype(np.int64)
    if grid.kind is Kind.DATE:
        values, low = values.cast(pa.int32()), low.toordinal() - _EPOCH
    integers = np.asarray(values.cast(pa.int64()).fill_null(int(low)), dtype=np.int64)
    # Distances may need 64 bits without a sign, as where points are decoded.
    distances = integers.astype(np.uint64) - np.full(
        len(integers), int(low) % 2**64, dtype=np.uint64
    )
    return (distances // np.uint64(int(step))).astype(np.int64)
