"""A declared axis of bins: neighbouring points of a grid that are counted as one.

A value goes to the nearest point of the grid and with it into a bin. Where bins are equally wide
the engine divides, which is fastest; else it compares the value with the bins' lower ends, a few
times for each row.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from sqlglot import exp

from sfumato.data.counting.axes import Grid, literal
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import EXACT
from sfumato.privacy.noise.selection import uniform_below

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from sfumato.arrays import IntArray
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
            place = exp.Floor(this=from_second / literal(step)) + literal(Decimal(1))
            # However doubles were rounded, codes are those of bins.
            last = literal(Decimal(self.points - 1))
            return exp.Least(this=place, expressions=[last], ignore_nulls=True)
        # The first bin may begin before the first point: as if so many points were before it.
        place = exp.Paren(this=super()._nearest(value)) + literal(width - self.starts[1])
        return exp.IntDiv(this=exp.Paren(this=place), expression=literal(width))

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
        return exp.case().when(reached, upper).else_(lower)

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
