"""The least, the greatest and the expected value of an aggregate over all possible worlds.

Where labels are tight, each end of every range label occurs in some released row. That narrows
counts and sums. An end that no row can have without being selected forces a row in, one that no row
can have while being selected keeps a row out; ends of one column need different rows. Each column
is looked at by itself and the narrowest bounds win: exact where one column has ranges and rows
enough are free for each end, and right in any case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.report.display import Card, Shown

if TYPE_CHECKING:
    from sfumato.anonymize.worlds.question import Aggregate
    from sfumato.anonymize.worlds.selection import (
        ReleasedColumn,
        ReleasedTable,
        RowSelection,
        Selected,
    )
    from sfumato.arrays import BoolArray, FloatArray, IntArray

    Forced = dict[bytes, tuple[BoolArray, int]]


@dataclass(frozen=True, repr=False)
class AnswerBounds(Shown):
    """Bounds over all possible worlds, and an estimate between them; None where none exists."""

    lower: float | None
    upper: float | None
    estimate: float | None

    def _card(self) -> Card:
        figures = [
            "unknown" if value is None else f"{value:,.6g}" for value in self.json().values()
        ]
        return Card(f"from {figures[0]} to {figures[1]}, estimated {figures[2]}", {})

    def json(self) -> dict[str, float | None]:
        """Return it as plain data for JSON."""
        return {"lower": self.lower, "upper": self.upper, "estimate": self.estimate}


@dataclass(frozen=True, eq=False)
class SelectableRows:
    """Rows that may be selected: of each group at least `least` and at most `most`, any of them.

    An entry stands for `count` rows of a group, each with a value between `low` and `high` (NaN
    where that is unknown) that is `middle` in expectation, selected with a `chance`.
    """

    group: IntArray
    count: IntArray
    low: FloatArray
    high: FloatArray
    middle: FloatArray
    chance: FloatArray
    least: IntArray
    most: IntArray

    def answer(self, aggregate: Aggregate) -> AnswerBounds:
        """Return the aggregate over every selection, empty ones only if it has a value there."""
        if aggregate == "count":
            expected = float((self.chance * self.count).sum())
            return _clamp_estimate(float(self.least.sum()), float(self.most.sum()), expected)
        possible = self.most[self.group] > 0
        if np.isnan(self.low[possible]).any() or np.isnan(self.high[possible]).any():
            return AnswerBounds(None, None, None)
        # Turned over, the greatest is the least: one side is enough.
        # The lower bound takes each row at its least value, the upper bound at its greatest.
        below = self._side(self.low)
        above = self._side(-self.high)
        if aggregate == "sum":
            return _clamp_estimate(below.least_sum(), -above.least_sum(), self._expected_sum())
        if not self.most.any():
            return AnswerBounds(None, None, None)
        if aggregate == "avg":
            rows = float((self.chance * self.count).sum())
            return _clamp_estimate(
                below.least_mean(), -above.least_mean(), self._expected_sum() / rows
            )
        if aggregate == "min":
            return _clamp_estimate(below.least(), -above.least_largest(), self._expected_least(1))
        return _clamp_estimate(below.least_largest(), -above.least(), self._expected_least(-1))

    def _side(self, values: FloatArray) -> _Extreme:
        """Sort the entries of each group by value; count the rows that must and may be taken."""
        # In each group the smallest values come first, because they make the aggregate smallest.
        order = np.lexsort((values, self.group))
        group, count = self.group[order], self.count[order]
        before = np.cumsum(count) - count
        starts = np.searchsorted(group, group)
        before -= before[starts]
        # The first `least` rows must be taken, the next up to `most` may be.
        forced = np.clip(self.least[group] - before, 0, count)
        available = np.clip(self.most[group] - before, 0, count)
        return _Extreme(values[order], forced, available - forced)

    def _expected_sum(self) -> float:
        selectable = self.chance > 0
        return float((self.chance * self.count * self.middle)[selectable].sum())

    def _expected_least(self, sign: int) -> float:
        """Return the expected smallest value (greatest for sign -1) of a nonempty selection.

        Rows are selected independently: the i-th smallest is the smallest if it is selected and
        none before it is.
        """
        order = np.argsort(sign * self.middle, kind="stable")
        unselected = (1 - self.chance[order]) ** self.count[order]
        reached = np.concatenate([[1.0], np.cumprod(unselected)])
        odds = reached[:-1] - reached[1:]
        return float((odds * np.nan_to_num(self.middle[order])).sum() / odds.sum())


@dataclass(frozen=True, eq=False)
class _Extreme:
    """Values with how many rows of each must be taken, and how many more may be."""

    values: FloatArray
    forced: IntArray
    optional: IntArray

    def least_sum(self) -> float:
        """Return the smallest sum: all forced rows, and optional rows with negative values."""
        extra = _product(np.minimum(self.values, 0), self.optional)
        return float((_product(self.values, self.forced) + extra).sum())

    def least_mean(self) -> float:
        """Return the smallest mean: forced rows, and the smallest optional rows that lower it."""
        # A mean falls as long as the next value is below it: one of the prefixes is least.
        order = np.argsort(self.values, kind="stable")
        rows = np.cumsum(np.append(self.forced.sum(), self.optional[order]))
        forced = _product(self.values, self.forced).sum()
        sums = np.cumsum(np.append(forced, _product(self.values[order], self.optional[order])))
        nonempty = rows > 0
        return float((sums[nonempty] / rows[nonempty]).min())

    def least(self) -> float:
        """Return the smallest value that can be taken."""
        return float(self.values[self.forced + self.optional > 0].min())

    def least_largest(self) -> float:
        """Return the smallest possible maximum: of the forced rows, or of any one row."""
        forced = self.values[self.forced > 0]
        return float(forced.max()) if len(forced) else self.least()


def _product(values: FloatArray, rows: IntArray) -> FloatArray:
    """Return values times rows; 0 for unknown values that are not taken."""
    return np.where(rows > 0, values, 0.0) * rows


def _clamp_estimate(lower: float, upper: float, estimate: float) -> AnswerBounds:
    return AnswerBounds(lower, upper, min(max(estimate, lower), upper))


def tighten(
    answer: AnswerBounds,
    aggregate: Aggregate,
    selection: RowSelection,
    table: ReleasedTable,
    selected: Selected,
) -> AnswerBounds:
    """Narrow the bounds of a count or a sum by tight labels; others stay unchanged."""
    columns, counts = table.columns, table.counts
    if aggregate not in ("count", "sum") or answer.lower is None or answer.upper is None:
        return answer
    unit_values = np.ones(len(counts))
    low = unit_values if aggregate == "count" else selected.low
    high = unit_values if aggregate == "count" else selected.high
    lower, upper = answer.lower, answer.upper
    for name, known in columns.items():
        least, most = answer.lower, answer.upper
        drawn_in, kept_out = _ends(name, known, selection, selected)
        for can, ends in drawn_in.values():
            least += _cheapest(np.maximum(low, 0), counts, can, ends)
            most -= _cheapest(-np.minimum(high, 0), counts, can, ends)
        for can, ends in kept_out.values():
            least += _cheapest(-np.minimum(low, 0), counts, can, ends)
            most -= _cheapest(np.maximum(high, 0), counts, can, ends)
        lower, upper = max(lower, least), min(upper, most)
    estimate = answer.estimate
    clamped = None if estimate is None else min(max(estimate, lower), upper)
    return AnswerBounds(lower, upper, clamped)


def _ends(
    name: str, known: ReleasedColumn, selection: RowSelection, selected: Selected
) -> tuple[Forced, Forced]:
    """Return the range ends that force a row in, and those that force one out, by possible rows."""
    drawn_in: Forced = {}
    kept_out: Forced = {}
    # Only rows that may or may not be selected can be decided by an end.
    doubtful = selected.possible & ~selected.certain
    present = known.covers.ends[np.unique(known.labels)]
    for end in np.unique(present[present >= 0]).tolist():
        can = known.covers.contains(end)[known.labels]
        conditional = selection.select((name, end))
        for forced, decided in ((drawn_in, conditional.certain), (kept_out, ~conditional.possible)):
            if (doubtful & decided)[can].all():
                _, ends = forced.get(can.tobytes(), (can, 0))
                forced[can.tobytes()] = (can, ends + 1)
    return drawn_in, kept_out


def _cheapest(costs: FloatArray, counts: IntArray, can: BoolArray, ends: int) -> float:
    """Return the least cost of assigning each end to a different row."""
    costs_per_row = np.sort(np.repeat(costs[can], np.minimum(counts[can], ends)))
    return float(costs_per_row[:ends].sum())
