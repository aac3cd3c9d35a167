"""The best cut of every part of a table at once, along one quasi-identifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sfumato.arrays import IntArray


_DENSE_FACTOR = 4  # a histogram of this many slots per point is still cheaper than a sort


@dataclass(frozen=True, eq=False)
class Cuts:
    """For each part: its lowest and highest value, and a cut behind a value, with its balance.

    The balance is the size of the smaller side; 0 where there is nothing to cut.
    """

    low: IntArray
    high: IntArray
    cut: IntArray
    balance: IntArray


@dataclass(frozen=True, eq=False)
class Runs:
    """The values of each part in order, with their numbers of rows; `starts` begins each part."""

    starts: IntArray
    part: IntArray
    value: IntArray
    balance: IntArray

    @classmethod
    def of(cls, part: NDArray[np.int32], values: NDArray[np.integer], counts: IntArray) -> Runs:
        """Sort the values of all parts together."""
        width = int(values.max()) + 1
        keys, rows = _summed(part, values, counts, width)
        owner, value = np.divmod(keys, width)
        starts = _starts(owner)
        left = np.cumsum(rows)
        left -= (left[starts] - rows[starts])[owner]
        ends = np.append(starts[1:], len(keys)) - 1
        return cls(starts, owner, value, np.minimum(left, left[ends][owner] - left))

    def best(self) -> Cuts:
        """The most balanced cut of each part, the lowest of several."""
        best = np.maximum.reduceat(self.balance, self.starts)
        equal = np.flatnonzero(self.balance == best[self.part])
        first = equal[_starts(self.part[equal])]
        return self._cuts(self.value[first], best)

    def by_balance(self, most: int) -> Iterator[Cuts]:
        """The most balanced cuts of each part one after the other; balance 0 where none is left."""
        ceiling = int(self.balance.max()) + 1
        order = np.argsort((self.part + 1) * ceiling - self.balance, kind="stable")
        lengths = np.diff(self.starts, append=len(order))
        for rank in range(min(most, int(lengths.max()) - 1)):
            place = order[self.starts + np.minimum(rank, lengths - 1)]
            balance = np.where(rank < lengths, self.balance[place], 0)
            if not balance.any():
                return
            yield self._cuts(self.value[place], balance)

    def _cuts(self, cut: IntArray, balance: IntArray) -> Cuts:
        ends = np.append(self.starts[1:], len(self.value)) - 1
        return Cuts(self.value[self.starts], self.value[ends], cut, balance)


def best_cuts(
    part: NDArray[np.int32], parts: int, values: NDArray[np.integer], counts: IntArray
) -> Cuts:
    """The most balanced cut of each of the parts 0 .. parts - 1, none of which is empty."""
    width = int(values.max()) + 1
    if parts * width > _DENSE_FACTOR * len(part):
        return Runs.of(part, values, counts).best()
    keys = part.astype(np.int64) * width + values
    # float64 adds exactly below 2^53 rows.
    rows = np.bincount(keys, counts, parts * width).reshape(parts, width)
    left = np.cumsum(rows, axis=1)
    balance = np.minimum(left, left[:, -1:] - left)
    cut = balance.argmax(axis=1)
    present = rows > 0
    return Cuts(
        present.argmax(axis=1),
        width - 1 - present[:, ::-1].argmax(axis=1),
        cut,
        balance[np.arange(parts), cut].astype(np.int64),
    )


def _summed(
    part: NDArray[np.int32], values: NDArray[np.integer], counts: IntArray, width: int
) -> tuple[IntArray, IntArray]:
    """The keys part x width + value that occur, in order, and the rows of each.

    Key and count are sorted as one integer, so that nothing need be gathered afterwards.
    """
    most = int(counts.max())
    bits = most.bit_length() if most > 1 else 0
    keys = part.astype(np.int64)
    keys *= width
    keys += values
    if bits:
        keys <<= bits
        keys |= counts
    keys.sort()
    rows = keys & ((1 << bits) - 1) if bits else None
    keys >>= bits
    starts = _starts(keys)
    if rows is None:
        return keys[starts], np.diff(starts, append=len(keys))
    return keys[starts], np.add.reduceat(rows, starts)


def _starts(ordered: IntArray) -> IntArray:
    """Where each run of equal numbers begins."""
    first = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return np.flatnonzero(first)
