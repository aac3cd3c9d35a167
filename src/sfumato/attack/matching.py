"""Who fits which class: the join of values with boxes of labels, not by looking at all pairs.

Where the labels of a column overlap nowhere, a value has one label, and values are joined by
equality. Else people and classes are parted at medians, those classes that lie on both sides being
taken along to both, until all pairs of a part can be looked at at once. Decision 0291.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.counting.grouping import keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from sfumato.attack.classes import BoxColumn, Boxes

    Ints = NDArray[np.int64]
    Pairs = tuple[Ints, Ints]

_BLOCK = 1 << 20
"""So many pairs are looked at at once."""


def fitting(points: Sequence[Ints], boxes: Boxes) -> Iterator[Pairs]:
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
    coordinates = [(leaves, first, last) for (leaves, first), last in zip(low, high, strict=True)]
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
            yield _by_key(inside, mine, theirs)
            return
        keyed = np.full(len(points[0]), -1, dtype=np.int64)
        keyed[inside] = mine
        coordinates.append((keyed, theirs, theirs))
    for people, held in _parted(inside, classes, coordinates):
        kept = np.ones(len(people), dtype=bool)
        for column, leaves in exact:
            kept &= covered(column, held, leaves[people])
        yield people[kept], held[kept]


def _own_labels(column: BoxColumn) -> Ints | None:
    """The one label of each leaf, -1 for none; None where leaves have several."""
    covers = column.covers
    owners = np.repeat(
        np.arange(len(covers.starts)), np.diff(covers.starts, append=len(covers.first))
    )
    order = np.argsort(covers.first, kind="stable")
    first, last, owners = covers.first[order], covers.last[order], owners[order]
    if (first[1:] <= last[:-1]).any():
        return None
    found = np.full(len(column.taxonomy.leaves), -1, dtype=np.int64)
    lengths = last - first + 1
    steps = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    found[np.repeat(first, lengths) + steps] = np.repeat(owners, lengths)
    return found


def _by_key(people: Ints, mine: Ints, theirs: Ints) -> Pairs:
    """Pairs with equal keys."""
    order = np.argsort(theirs, kind="stable")
    ranked = theirs[order]
    first = np.searchsorted(ranked, mine, side="left")
    many = np.searchsorted(ranked, mine, side="right") - first
    steps = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
    return np.repeat(people, many), order[np.repeat(first, many) + steps]


def _parted(
    people: Ints, classes: Ints, coordinates: Sequence[tuple[Ints, Ints, Ints]]
) -> Iterator[Pairs]:
    """Pairs whose points lie between the ends of the class in every coordinate."""
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
    people: Ints, classes: Ints, coordinates: Sequence[tuple[Ints, Ints, Ints]]
) -> list[Pairs] | None:
    """Part them where fewest pairs are left; None where no cut leaves a good deal fewer."""
    best, found = 0.9 * len(people) * len(classes), None
    for place, low, high in coordinates:
        mine = place[people]
        middle = int(np.median(mine))
        if middle == mine.max():
            middle -= 1
        left = mine <= middle
        under, over = low[classes] <= middle, high[classes] > middle
        below = int(left.sum())
        pairs = below * int(under.sum()) + (len(people) - below) * int(over.sum())
        if pairs < best:
            best = pairs
            found = [(people[left], classes[under]), (people[~left], classes[over])]
    return found


def _looked_at(
    people: Ints, classes: Ints, coordinates: Sequence[tuple[Ints, Ints, Ints]]
) -> Pairs:
    fits = np.ones((len(people), len(classes)), dtype=bool)
    for place, low, high in coordinates:
        mine = place[people][:, None]
        fits &= low[classes] <= mine
        fits &= mine <= high[classes]
    one, other = np.nonzero(fits)
    return people[one], classes[other]


def covered(column: BoxColumn, classes: Ints, leaves: Ints) -> NDArray[np.bool_]:
    """Whether the label of each class covers a leaf: a set may have gaps between its ends."""
    covers, width = column.covers, len(column.taxonomy.leaves)
    if len(covers.first) == len(covers.starts):
        labels = column.labels[classes]
        return (covers.low[labels] <= leaves) & (leaves <= covers.high[labels])
    owners = np.repeat(
        np.arange(len(covers.starts)), np.diff(covers.starts, append=len(covers.first))
    )
    labels = column.labels[classes]
    runs = np.searchsorted(owners * width + covers.first, labels * width + leaves, side="right") - 1
    inside: NDArray[np.bool_] = (owners[runs] == labels) & (leaves <= covers.last[runs])
    return inside
