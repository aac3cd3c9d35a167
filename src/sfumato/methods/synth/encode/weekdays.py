"""Days of the week, measured beside the bins of a column of dates.

A bin of a month says nothing of Sundays. Where somebody asks for it, the day of the week is one
more axis of the model, with a name that no column has; a day is then drawn from those of its bin
that are on the day of the week that was drawn with it.

Decision `synthesis-columns`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.data.counting.axes import Grid, Listed, literal
from sfumato.privacy.noise.selection import uniform_below

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import IntArray
    from sfumato.methods.synth.encode.bins import Bins
    from sfumato.privacy.noise.entropy import Entropy

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
