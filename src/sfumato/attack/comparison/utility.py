"""The utility of a release, as one figure with the same meaning for every kind of release.

Every release gives the counts of each column and each pair of columns.
*Kept*: 1 minus the total variation distance from the original's counts, the mean over all tables.
1 means that all counts are unchanged. Its interval covers the mean of all such tables in 95 of 100
cases.
*Ranges*: the mean error of the share of rows in a box of two columns.
Decision `release-gate`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.attack.sampling import subsets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import FloatArray
    from sfumato.attack.comparison.binned_counts import ColumnBins, Countable


MOST_PAIRS = 300
"""Pairs of columns compared at most, evenly spread over all of them."""
_BOXES = 4
_STEPS = np.array([2, 3, 5, 7]) ** 0.5 % 1
"""The fractions of square roots of primes: their multiples fill the cube of four ends evenly."""


@dataclass(frozen=True)
class Utility:
    """The share of counts that a release keeps, with its interval, and the errors by table size."""

    kept: float
    low: float
    high: float
    one_way: float
    two_way: float | None
    ranges: float | None
    tables: int

    def json(self) -> dict[str, Any]:
        """Return it as plain data for JSON."""
        return {
            "kept": self.kept,
            "interval": [self.low, self.high],
            "one_way": self.one_way,
            "two_way": self.two_way,
            "ranges": self.ranges,
            "tables": self.tables,
        }


class Yardstick:
    """The counts of an original by its columns, to measure releases against."""

    def __init__(self, original: Countable, columns: Sequence[ColumnBins]) -> None:
        """Count the original once for all releases."""
        self._columns = columns
        pairs = subsets(len(columns), 2, MOST_PAIRS)
        self._pairs = [(columns[first], columns[second]) for first, second in pairs]
        self._ones = [original.single(column) for column in columns]
        self._twos = [original.pair(*pair) for pair in self._pairs]

    def measure(self, release: Countable) -> Utility:
        """Compare the counts of a release with those of the original."""
        single_errors = [
            _apart(real, release.single(bins))
            for real, bins in zip(self._ones, self._columns, strict=True)
        ]
        twos, ranges = [], []
        for number, (real, pair) in enumerate(zip(self._twos, self._pairs, strict=True)):
            counted = release.pair(*pair)
            twos.append(_apart(real, counted))
            ranges += [_off(real - counted, _BOXES * number + box) for box in range(_BOXES)]
        errors = np.array([*single_errors, *twos])
        mean = float(errors.mean())
        # The interval of the mean over tables, by the normal curve.
        off = 1.96 * float(errors.std(ddof=1)) / len(errors) ** 0.5 if len(errors) > 1 else 0.0
        return Utility(
            kept=1 - mean,
            low=max(1 - mean - off, 0.0),
            high=min(1 - mean + off, 1.0),
            one_way=float(np.mean(single_errors)),
            two_way=float(np.mean(twos)) if twos else None,
            ranges=float(np.mean(ranges)) if ranges else None,
            tables=len(errors),
        )


def _apart(real: FloatArray, released: FloatArray) -> float:
    """Return the total variation distance, half the sum of differences of shares."""
    return float(min(np.abs(real - released).sum() / 2, 1.0))


def _off(differences: FloatArray, number: int) -> float:
    """Return the error of the share of rows in the box of this number."""
    # Two ends in each of two columns, as shares of their bins.
    ends = np.sort(((number + 1) * _STEPS % 1).reshape(2, 2), axis=1)
    # The last bin of a column holds values outside it, which are in no box.
    sizes = np.maximum(np.array(differences.shape) - 1, 1)
    (low, high), (start, right) = (ends * sizes[:, None]).astype(np.int64).tolist()
    return float(abs(differences[low : high + 1, start : right + 1].sum()))
