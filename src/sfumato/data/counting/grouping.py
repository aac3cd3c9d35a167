"""GROUP BY over integer codes in memory: rows become mixed-radix keys, counted or sorted."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import IntArray

    Codes = NDArray[np.integer]
    Counts = NDArray[np.int64]

# Keys are signed 64-bit integers, and none is negative.
_KEY_BITS = 63
# A table of up to four slots per row is cheaper to fill than rows are to sort. Fewer than 2^20
# numbers are sorted by one core before others have started.
_DENSE_FACTOR = 4
_SORTED_ALONE = 1 << 20


@dataclass(frozen=True)
class Groups:
    """The groups of some rows: for each, one row that represents it and how many there are.

    Groups come in lexicographic order of their codes.
    """

    representatives: IntArray
    counts: Counts


def keys(codes: Sequence[Codes], sizes: Sequence[int]) -> tuple[IntArray, int]:
    """Return one integer per row, in lexicographic order of its codes, and the number of keys.

    If the product of the sizes does not fit into 63 bits, the key built so far is replaced by its
    rank among the keys that occur. This keeps the order and needs at most log2(rows) bits.
    """
    if not codes:
        raise ValueError("at least one column of codes is needed")
    key = codes[0].astype(np.int64)
    radix = int(sizes[0])
    for column, size in zip(codes[1:], sizes[1:], strict=True):
        if radix * int(size) >= 1 << _KEY_BITS:
            present, key = np.unique(key, return_inverse=True)
            radix = len(present)
            if radix * int(size) >= 1 << _KEY_BITS:
                raise OverflowError("too many combinations of values to number")
        key = key * np.int64(size) + column
        radix *= int(size)
    return key, radix


def group(codes: Sequence[Codes], sizes: Sequence[int], counts: Counts) -> Groups:
    """Group rows with equal codes and add up their counts."""
    key, radix = keys(codes, sizes)
    if radix <= _DENSE_FACTOR * max(len(key), 1):
        return _group_dense(key, radix, counts)
    return _group_sorted(key, radix, counts)


@dataclass(frozen=True)
class SortedGroups:
    """Rows in the order of their groups, where each group begins, and the sums of its counts."""

    order: IntArray
    starts: IntArray
    counts: Counts

    def rows_in_company(self) -> IntArray:
        """Return the rows that are not alone in their group."""
        lengths = np.diff(self.starts, append=len(self.order))
        return np.sort(self.order[np.repeat(lengths > 1, lengths)])


def runs(codes: Sequence[Codes], sizes: Sequence[int], counts: Counts) -> SortedGroups:
    """Sort rows by their codes, and add up the counts of equal ones."""
    return _runs(*keys(codes, sizes), counts)


def merge(
    codes: Sequence[Codes], sizes: Sequence[int], counts: Counts
) -> tuple[tuple[Codes, ...], Counts]:
    """Merge rows with equal codes, in lexicographic order of their codes.

    If a key and a count fit into one integer they are sorted as one: rows need not be gathered in
    their new order, because the codes can be read from the keys again.
    """
    radix = prod(map(int, sizes))
    count_bits = int(counts.max(initial=0)).bit_length()
    roomy = radix > _DENSE_FACTOR * max(len(counts), 1)
    if not roomy or radix.bit_length() + count_bits > _KEY_BITS or counts.min(initial=0) < 0:
        groups = group(codes, sizes, counts)
        return tuple(column[groups.representatives] for column in codes), groups.counts
    packed, _ = keys(codes, sizes)
    packed <<= count_bits
    packed |= counts
    _sort(packed)
    merged = packed & ((1 << count_bits) - 1)
    packed >>= count_bits
    starts = _starts(packed)
    if len(starts) < len(packed):
        packed, merged = packed[starts], np.add.reduceat(merged, starts)
    return tuple(_digits(packed, sizes, [column.dtype for column in codes])), merged


def _digits(
    key: NDArray[np.integer], sizes: Sequence[int], types: Sequence[np.dtype[np.integer]]
) -> list[Codes]:
    """Undo `keys`: the codes of each key."""
    codes: list[Codes] = []
    if prod(map(int, sizes)) < 1 << 32:
        key = key.astype(np.uint32)  # many times faster to divide
    for size, kind in zip(reversed(sizes), reversed(types), strict=True):
        quotient = key // key.dtype.type(size)
        codes.append((key - quotient * key.dtype.type(size)).astype(kind))
        key = quotient
    return codes[::-1]


def sums(codes: Sequence[Codes], sizes: Sequence[int], counts: Counts) -> Counts:
    """The counts of the groups alone, in order of their codes."""
    key, radix = keys(codes, sizes)
    if radix <= _DENSE_FACTOR * max(len(key), 1):
        totals = _totals(key, radix, counts)
        present: Counts = totals[totals != 0]
        return present
    if len(counts) and counts.max() == 1 == counts.min():
        _sort(key)
        runs: Counts = np.diff(_starts(key), append=len(key))
        return runs
    return _group_sorted(key, radix, counts).counts


def _totals(key: IntArray, radix: int, counts: Counts) -> Counts:
    """Add up counts per key."""
    # bincount adds in float64, which is exact below 2^53; so the low and high 32 bits separately.
    low = np.bincount(key, weights=counts & 0xFFFFFFFF, minlength=radix)
    totals = low.astype(np.int64)
    high = counts >> 32
    if high.any():
        totals += np.bincount(key, weights=high, minlength=radix).astype(np.int64) << 32
    return totals


def _group_dense(key: IntArray, radix: int, counts: Counts) -> Groups:
    representative = np.full(radix, -1, dtype=np.int64)
    representative[key[::-1]] = np.arange(len(key) - 1, -1, -1)  # the first row of a key wins
    present = representative >= 0
    return Groups(representative[present], _totals(key, radix, counts)[present])


def _group_sorted(key: IntArray, radix: int, counts: Counts) -> Groups:
    groups = _runs(key, radix, counts)
    return Groups(groups.order[groups.starts], groups.counts)


def _runs(key: IntArray, radix: int, counts: Counts) -> SortedGroups:
    """Sort key and row number packed into one integer: far faster than an argsort."""
    index_bits = max(len(key) - 1, 1).bit_length()
    if radix.bit_length() + index_bits <= _KEY_BITS:
        # The row number in the low bits makes the order stable and survives the sort.
        packed = (key << index_bits) | np.arange(len(key))
        _sort(packed)
        order = packed & ((1 << index_bits) - 1)
        packed >>= index_bits
    else:
        order = np.argsort(key, kind="stable")
        packed = key[order]
    starts = _starts(packed)
    # reduceat refuses an empty array.
    added = np.add.reduceat(counts[order], starts) if len(starts) else counts[:0]
    return SortedGroups(order, starts, added)


def _sort(numbers: IntArray) -> None:
    """Sort in place: a part on each core, then the stable sort joins the parts in one pass."""
    part_count = 1 if len(numbers) < _SORTED_ALONE else (os.cpu_count() or 1)
    if part_count == 1:
        numbers.sort()
        return
    with ThreadPoolExecutor(part_count) as workers:
        list(workers.map(np.ndarray.sort, np.array_split(numbers, part_count)))
    numbers.sort(kind="stable")


def _starts(ordered: IntArray) -> IntArray:
    """Return where each run of equal keys begins."""
    first = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return np.flatnonzero(first)


def ragged(firsts: IntArray, lengths: IntArray) -> IntArray:
    """Return the concatenated positions of runs: for each run `lengths` positions from `firsts`."""
    steps = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    positions: IntArray = np.repeat(firsts, lengths) + steps
    return positions
