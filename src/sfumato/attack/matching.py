"""Who fits which class, and which classes meet: joins with boxes of labels, not of all pairs.

Where the labels of a column overlap nowhere, a value has one label, and values are joined by
equality. Else people and classes are parted at medians, those classes that lie on both sides being
taken along to both, until all pairs of a part can be looked at at once. Two boxes that overlap are
met on the side where what they have in common begins. Decision 0291.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.data.counting.grouping import keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sfumato.arrays import BoolArray, IntArray
    from sfumato.attack.classes import BoxColumn, Boxes

    Pairs = tuple[IntArray, IntArray]
    Coordinate = tuple[IntArray, IntArray, IntArray, IntArray]
    """The first and the last leaf of each of ours, and of each class."""

_BLOCK = 1 << 20
"""So many pairs are looked at at once."""


def fitting(points: Sequence[IntArray], boxes: Boxes) -> Iterator[Pairs]:
    """Pairs of a point and a class that holds it, part by part; each pair comes once.

    Points are given by their leaves, column by column; -1 is a value that fits no class.
    """
    if not len(boxes) or not len(points[0]):
        return
    inside = np.flatnonzero(np.logical_and.reduce([leaves >= 0 for leaves in points]))
    apart, low, high, exact = [], [], [], []
    for column, leaves in zip(boxes.columns, points, strict=True):
        own = _own_labels(column)
        if own is not None:
            mine = own[leaves[inside]]
            apart.append((mine, column.labels, len(column.covers.starts)))
        else:
            exact.append((column, leaves))
            low.append((leaves, column.covers.low[column.labels]))
            high.append(column.covers.high[column.labels])
    classes = np.arange(len(boxes), dtype=np.int64)
    coordinates = [
        (leaves, leaves, first, last) for (leaves, first), last in zip(low, high, strict=True)
    ]
    if apart:
        known = np.logical_and.reduce([mine >= 0 for mine, _, _ in apart])
        inside, key_of, key_in = (
            inside[known],
            [m[known] for m, _, _ in apart],
            [theirs for _, theirs, _ in apart],
        )
        sizes = [size for _, _, size in apart]
        both, _ = keys([np.concatenate(two) for two in zip(key_of, key_in, strict=True)], sizes)
        mine, theirs = both[: len(inside)], both[len(inside) :]
        if not coordinates:
            yield by_key(inside, mine, theirs)
            return
        keyed = np.full(len(points[0]), -1, dtype=np.int64)
        keyed[inside] = mine
        coordinates.append((keyed, keyed, theirs, theirs))
    for people, held in _parted(inside, classes, coordinates):
        kept = np.ones(len(people), dtype=bool)
        for column, leaves in exact:
            kept &= covered(column, held, leaves[people])
        yield people[kept], held[kept]


def meeting(ours: Boxes, theirs: Boxes) -> Iterator[Pairs]:
    """Pairs of a class of ours and one of theirs that have a value in common, each pair once.

    Both are boxes over the same leaves.
    """
    if not len(ours) or not len(theirs):
        return
    own, other, sizes, gaps = [], [], [], []
    coordinates: list[Coordinate] = []
    for one, two in zip(ours.columns, theirs.columns, strict=True):
        numbers = _apart(one, two)
        if numbers is not None:
            own.append(numbers[0][one.labels])
            other.append(numbers[1][two.labels])
            sizes.append(int(max(part.max() for part in numbers)) + 1)
        else:
            gaps.append((one, two))
            coordinates.append((*_ends(one), *_ends(two)))
    first, second = np.arange(len(ours)), np.arange(len(theirs))
    if own:
        both, _ = keys([np.concatenate(pair) for pair in zip(own, other, strict=True)], sizes)
        mine, yours = both[: len(ours)], both[len(ours) :]
        if not coordinates:
            yield by_key(first, mine, yours)
            return
        coordinates.append((mine, mine, yours, yours))
    for mine, yours in _parted(first, second, coordinates):
        kept = np.ones(len(mine), dtype=bool)
        for one, two in gaps:
            kept &= overlapping(one, one.labels[mine], two, two.labels[yours])
        yield mine[kept], yours[kept]


def overlapping(one: BoxColumn, ours: IntArray, two: BoxColumn, theirs: IntArray) -> BoolArray:
    """Whether labels of one column have a leaf in common, pair by pair; sets may have gaps."""
    covers, width = two.covers, len(two.taxonomy.leaves)
    owners = _owners(two)
    runs = np.diff(one.covers.starts, append=len(one.covers.first))[ours]
    starts = np.cumsum(runs) - runs
    each = np.repeat(one.covers.starts[ours] - starts, runs) + np.arange(runs.sum())
    label = np.repeat(theirs, runs)
    near = np.searchsorted(
        owners * width + covers.first, label * width + one.covers.last[each], side="right"
    )
    near = np.maximum(near - 1, 0)
    inside = (owners[near] == label) & (one.covers.first[each] <= covers.last[near])
    inside &= covers.first[near] <= one.covers.last[each]
    return np.logical_or.reduceat(inside, starts) if len(starts) else np.zeros(0, dtype=bool)


def _ends(column: BoxColumn) -> Pairs:
    return column.covers.low[column.labels], column.covers.high[column.labels]


def _owners(column: BoxColumn) -> IntArray:
    """The label of each run."""
    covers = column.covers
    return np.repeat(
        np.arange(len(covers.starts)), np.diff(covers.starts, append=len(covers.first))
    )


def _apart(one: BoxColumn, two: BoxColumn) -> list[IntArray] | None:
    """Numbers for the labels of both, equal where they cover the same; None if some overlap."""
    known: dict[bytes, int] = {}
    numbers, runs = [], []
    for column in (one, two):
        pairs = np.stack([column.covers.first, column.covers.last], axis=1)
        found = []
        for part in np.split(pairs, column.covers.starts[1:]):
            text = part.tobytes()
            if text not in known:
                known[text] = len(known)
                runs.append(part)
            found.append(known[text])
        numbers.append(np.array(found, dtype=np.int64))
    every = np.concatenate(runs)
    every = every[np.argsort(every[:, 0], kind="stable")]
    return None if (every[1:, 0] <= every[:-1, 1]).any() else numbers


def _own_labels(column: BoxColumn) -> IntArray | None:
    """The one label of each leaf, -1 for none; None where leaves have several."""
    covers, owners = column.covers, _owners(column)
    order = np.argsort(covers.first, kind="stable")
    first, last, owners = covers.first[order], covers.last[order], owners[order]
    if (first[1:] <= last[:-1]).any():
        return None
    found = np.full(len(column.taxonomy.leaves), -1, dtype=np.int64)
    lengths = last - first + 1
    steps = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    found[np.repeat(first, lengths) + steps] = np.repeat(owners, lengths)
    return found


def by_key(people: IntArray, mine: IntArray, theirs: IntArray) -> Pairs:
    """Pairs with equal keys."""
    order = np.argsort(theirs, kind="stable")
    ranked = theirs[order]
    first = np.searchsorted(ranked, mine, side="left")
    many = np.searchsorted(ranked, mine, side="right") - first
    steps = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
    return np.repeat(people, many), order[np.repeat(first, many) + steps]


def _parted(
    people: IntArray, classes: IntArray, coordinates: Sequence[Coordinate]
) -> Iterator[Pairs]:
    """Pairs of boxes, of which the first may be points, that overlap in every coordinate."""
    waiting = [(people, classes)]
    while waiting:
        mine, theirs = waiting.pop()
        if not len(mine) or not len(theirs):
            continue
        if len(mine) * len(theirs) <= _BLOCK:
            yield _looked_at(mine, theirs, coordinates)
            continue
        parts = _cut(mine, theirs, coordinates)
        if parts is None:  # nothing tells them apart: all pairs, in portions
            size = max(_BLOCK // len(theirs), 1)
            for start in range(0, len(mine), size):
                yield _looked_at(mine[start : start + size], theirs, coordinates)
        else:
            waiting += parts


def _cut(
    people: IntArray, classes: IntArray, coordinates: Sequence[Coordinate]
) -> list[Pairs] | None:
    """Part them where fewest pairs are left; None where no cut leaves a good deal fewer.

    A pair goes where what it has in common begins: below the cut where both begin
    there, else above.
    """
    best, found = 0.9 * len(people) * len(classes), None
    for low, high, first, last in coordinates:
        mine = low[people]
        middle = int(np.median(mine))
        if middle == mine.max():
            middle -= 1
        left, through = mine <= middle, high[people] > middle
        under, over = first[classes] <= middle, last[classes] > middle
        parts = [(left, under), (~left, over), (left & through, ~under)]
        pairs = sum(int(one.sum()) * int(two.sum()) for one, two in parts)
        if pairs < best:
            best, found = pairs, [(people[one], classes[two]) for one, two in parts]
    return found


def _looked_at(people: IntArray, classes: IntArray, coordinates: Sequence[Coordinate]) -> Pairs:
    fits = np.ones((len(people), len(classes)), dtype=bool)
    for low, high, first, last in coordinates:
        fits &= first[classes] <= high[people][:, None]
        fits &= low[people][:, None] <= last[classes]
    one, other = np.nonzero(fits)
    return people[one], classes[other]


def covered(column: BoxColumn, classes: IntArray, leaves: IntArray) -> BoolArray:
    """Whether the label of each class covers a leaf: a set may have gaps between its ends."""
    covers, width = column.covers, len(column.taxonomy.leaves)
    if len(covers.first) == len(covers.starts):
        labels = column.labels[classes]
        return (covers.low[labels] <= leaves) & (leaves <= covers.high[labels])
    owners = _owners(column)
    labels = column.labels[classes]
    runs = np.searchsorted(owners * width + covers.first, labels * width + leaves, side="right") - 1
    inside: BoolArray = (owners[runs] == labels) & (leaves <= covers.last[runs])
    return inside
