"""The least, the greatest and the expected value of an aggregate over all possible selections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.anonymize.worlds.statement import Aggregate

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Answer:
    """Bounds over all possible worlds, and an estimate between them; None where none exists."""

    lower: float | None
    upper: float | None
    estimate: float | None

    def json(self) -> dict[str, float | None]:
        """All of it, ready to be written."""
        return {"lower": self.lower, "upper": self.upper, "estimate": self.estimate}


@dataclass(frozen=True, eq=False)
class Choice:
    """Rows that may be selected: of each group at least `least` and at most `most`, any of them.

    An entry stands for `count` rows of a group, each with a value between `low` and `high` (NaN
    where that is unknown) that is `middle` in expectation, selected with a `chance`.
    """

    group: Ints
    count: Ints
    low: Floats
    high: Floats
    middle: Floats
    chance: Floats
    least: Ints
    most: Ints

    def answer(self, aggregate: Aggregate) -> Answer:
        """The aggregate over every selection, the empty one only where it has a value."""
        if aggregate == "count":
            expected = float((self.chance * self.count).sum())
            return _clamped(float(self.least.sum()), float(self.most.sum()), expected)
        possible = self.most[self.group] > 0
        if np.isnan(self.low[possible]).any() or np.isnan(self.high[possible]).any():
            return Answer(None, None, None)
        # Turned over, the greatest is the least: one side is enough.
        below = self._side(self.low)
        above = self._side(-self.high)
        if aggregate == "sum":
            return _clamped(below.least_sum(), -above.least_sum(), self._expected_sum())
        if not self.most.any():
            return Answer(None, None, None)
        if aggregate == "avg":
            rows = float((self.chance * self.count).sum())
            return _clamped(below.least_mean(), -above.least_mean(), self._expected_sum() / rows)
        if aggregate == "min":
            return _clamped(below.least(), -above.least_largest(), self._expected_least(1))
        return _clamped(below.least_largest(), -above.least(), self._expected_least(-1))

    def _side(self, values: Floats) -> _Side:
        """Sort the entries of each group by value, and say which rows must and may be taken."""
        order = np.lexsort((values, self.group))
        group, count = self.group[order], self.count[order]
        before = np.cumsum(count) - count
        starts = np.searchsorted(group, group)
        before -= before[starts]
        forced = np.clip(self.least[group] - before, 0, count)
        available = np.clip(self.most[group] - before, 0, count)
        return _Side(values[order], forced, available - forced)

    def _expected_sum(self) -> float:
        taken = self.chance > 0
        return float((self.chance * self.count * self.middle)[taken].sum())

    def _expected_least(self, sign: int) -> float:
        """The expected least value (greatest for sign -1) of a selection that is not empty.

        Rows are selected independently: the i-th smallest is the least where it is selected and
        none before it is.
        """
        order = np.argsort(sign * self.middle, kind="stable")
        none = (1 - self.chance[order]) ** self.count[order]
        reached = np.concatenate([[1.0], np.cumprod(none)])
        odds = reached[:-1] - reached[1:]
        return float((odds * np.nan_to_num(self.middle[order])).sum() / odds.sum())


@dataclass(frozen=True, eq=False)
class _Side:
    """Values with how many rows of each must be taken, and how many more may be."""

    values: Floats
    forced: Ints
    optional: Ints

    def least_sum(self) -> float:
        """All that must be, and the negative ones that may be."""
        extra = _product(np.minimum(self.values, 0), self.optional)
        return float((_product(self.values, self.forced) + extra).sum())

    def least_mean(self) -> float:
        """What must be taken, joined by the smallest of what may be, as long as it helps."""
        order = np.argsort(self.values, kind="stable")
        rows = np.cumsum(np.append(self.forced.sum(), self.optional[order]))
        forced = _product(self.values, self.forced).sum()
        sums = np.cumsum(np.append(forced, _product(self.values[order], self.optional[order])))
        some = rows > 0
        return float((sums[some] / rows[some]).min())

    def least(self) -> float:
        """The smallest that can be taken."""
        return float(self.values[self.forced + self.optional > 0].min())

    def least_largest(self) -> float:
        """The least that the largest can be: of what must be taken, or else of any one row."""
        forced = self.values[self.forced > 0]
        return float(forced.max()) if len(forced) else self.least()


def _product(values: Floats, rows: Ints) -> Floats:
    """Values times rows, 0 of what is unknown and not taken."""
    return np.where(rows > 0, values, 0.0) * rows


def _clamped(lower: float, upper: float, estimate: float) -> Answer:
    return Answer(lower, upper, min(max(estimate, lower), upper))
