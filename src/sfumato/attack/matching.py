"""Match people with classes of a release, and classes with classes, without looking at all pairs.

If the labels of a column do not overlap, every value has one label, and people and classes are
joined by equality. Otherwise both are split at medians until all pairs of a piece fit in memory; a
class that lies on both sides goes to both. Two boxes that overlap are matched on the side where
their common part begins, so each pair comes once. Decision `matching`.
The module also finds the column that names the people of a list, who of them is in the original,
and how many people fit a class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.attack.finding import MOST_EXAMPLES, plain
from sfumato.data.counting.grouping import keys, ragged
from sfumato.data.schema.column import Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.attack.case import Case, HeldTable
    from sfumato.attack.classes import BoxColumn, Boxes
    from sfumato.data.counting.frequencies import Frequencies

    Pairs = tuple[IntArray, IntArray]
    Coordinate = tuple[IntArray, IntArray, IntArray, IntArray]
    """First and last leaf of each item of one side, then of each class of the other."""


_BLOCK = 1 << 20
"""Pairs compared at once: a mask of a megabyte."""


def fitting(points: Sequence[IntArray], boxes: Boxes) -> Iterator[Pairs]:
    """Yield pairs of a point and a class that contains it, in portions; each pair comes once.

    A point is given by its leaf in each column; -1 stands for a value that fits no class.
    """
    if not len(boxes) or not len(points[0]):
        return
    # A value that no label covers fits no class.
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
        # The combined key of all columns without overlaps is one more coordinate of the split.
        keyed = np.full(len(points[0]), -1, dtype=np.int64)
        keyed[inside] = mine
        coordinates.append((keyed, keyed, theirs, theirs))
    for people, held in _split_sides(inside, classes, coordinates):
        fits = np.ones(len(people), dtype=bool)
        for column, leaves in exact:
            fits &= covered(column, held, leaves[people])
        yield people[fits], held[fits]


def meeting(ours: Boxes, theirs: Boxes) -> Iterator[Pairs]:
    """Yield pairs of a class of each side that have a value in common; each pair comes once.

    Both sides are boxes over the same leaves.
    """
    if not len(ours) or not len(theirs):
        return
    own, their_labels, sizes, gaps = [], [], [], []
    coordinates: list[Coordinate] = []
    for column, right in zip(ours.columns, theirs.columns, strict=True):
        numbers = _apart(column, right)
        if numbers is not None:
            own.append(numbers[0][column.labels])
            their_labels.append(numbers[1][right.labels])
            sizes.append(int(max(number.max() for number in numbers)) + 1)
        else:
            gaps.append((column, right))
            coordinates.append((*_ends(column), *_ends(right)))
    first, second = np.arange(len(ours)), np.arange(len(theirs))
    if own:
        both, _ = keys(
            [np.concatenate(pair) for pair in zip(own, their_labels, strict=True)], sizes
        )
        mine, yours = both[: len(ours)], both[len(ours) :]
        if not coordinates:
            yield by_key(first, mine, yours)
            return
        coordinates.append((mine, mine, yours, yours))
    for mine, yours in _split_sides(first, second, coordinates):
        overlaps = np.ones(len(mine), dtype=bool)
        for left, right in gaps:
            overlaps &= overlapping(left, left.labels[mine], right, right.labels[yours])
        yield mine[overlaps], yours[overlaps]


def overlapping(left: BoxColumn, ours: IntArray, right: BoxColumn, theirs: IntArray) -> BoolArray:
    """Return whether two labels of one column have a leaf in common, pair by pair."""
    covers, width = right.covers, len(right.taxonomy.leaves)
    owners = _owners(right)
    runs = np.diff(left.covers.starts, append=len(left.covers.first))[ours]
    starts = np.cumsum(runs) - runs
    run_index = ragged(left.covers.starts[ours], runs)
    label = np.repeat(theirs, runs)
    near = np.searchsorted(
        owners * width + covers.first, label * width + left.covers.last[run_index], side="right"
    )
    near = np.maximum(near - 1, 0)
    inside = (owners[near] == label) & (left.covers.first[run_index] <= covers.last[near])
    inside &= covers.first[near] <= left.covers.last[run_index]
    return np.logical_or.reduceat(inside, starts) if len(starts) else np.zeros(0, dtype=bool)


def _ends(column: BoxColumn) -> Pairs:
    return column.covers.low[column.labels], column.covers.high[column.labels]


def _owners(column: BoxColumn) -> IntArray:
    """Return the label of each run of leaves."""
    covers = column.covers
    return np.repeat(
        np.arange(len(covers.starts)), np.diff(covers.starts, append=len(covers.first))
    )


def _apart(left: BoxColumn, right: BoxColumn) -> list[IntArray] | None:
    """Number the labels of both, alike if they cover the same; None if any overlap in part."""
    known: dict[bytes, int] = {}
    numbers, runs = [], []
    for column in (left, right):
        pairs = np.stack([column.covers.first, column.covers.last], axis=1)
        label_numbers = []
        for runs_of_label in np.split(pairs, column.covers.starts[1:]):
            text = runs_of_label.tobytes()
            if text not in known:
                known[text] = len(known)
                runs.append(runs_of_label)
            label_numbers.append(known[text])
        numbers.append(np.array(label_numbers, dtype=np.int64))
    every = np.concatenate(runs)
    every = every[np.argsort(every[:, 0], kind="stable")]
    return None if (every[1:, 0] <= every[:-1, 1]).any() else numbers


def _own_labels(column: BoxColumn) -> IntArray | None:
    """Return the only label of each leaf, -1 for none; None if a leaf has several."""
    covers, owners = column.covers, _owners(column)
    order = np.argsort(covers.first, kind="stable")
    first, last, owners = covers.first[order], covers.last[order], owners[order]
    if (first[1:] <= last[:-1]).any():
        return None
    label_of = np.full(len(column.taxonomy.leaves), -1, dtype=np.int64)
    lengths = last - first + 1
    label_of[ragged(first, lengths)] = np.repeat(owners, lengths)
    return label_of


def by_key(people: IntArray, mine: IntArray, theirs: NDArray[np.integer[Any]]) -> Pairs:
    """Return all pairs with equal keys."""
    order = np.argsort(theirs, kind="stable")
    ranked = theirs[order]
    first = np.searchsorted(ranked, mine, side="left")
    match_counts = np.searchsorted(ranked, mine, side="right") - first
    return np.repeat(people, match_counts), order[ragged(first, match_counts)]


def _split_sides(
    people: IntArray, classes: IntArray, coordinates: Sequence[Coordinate]
) -> Iterator[Pairs]:
    """Split both sides until all pairs of a piece can be compared at once."""
    waiting = [(people, classes)]
    while waiting:
        mine, theirs = waiting.pop()
        if not len(mine) or not len(theirs):
            continue
        if len(mine) * len(theirs) <= _BLOCK:
            yield _looked_at(mine, theirs, coordinates)
            continue
        pieces = _cut(mine, theirs, coordinates)
        if pieces is None:  # no cut separates them: compare all pairs, in portions
            size = max(_BLOCK // len(theirs), 1)
            for start in range(0, len(mine), size):
                yield _looked_at(mine[start : start + size], theirs, coordinates)
        else:
            waiting += pieces


def _cut(
    people: IntArray, classes: IntArray, coordinates: Sequence[Coordinate]
) -> list[Pairs] | None:
    """Split where fewest pairs are left, or return None if no cut removes a tenth of them.

    A pair goes to the side where its common part begins: below the cut if both begin there, else
    above.
    """
    # A cut that saves less than a tenth of the pairs costs more than it saves.
    best, pieces = 0.9 * len(people) * len(classes), None
    for low, high, first, last in coordinates:
        mine = low[people]
        # The median halves the people; a cut at the maximum would leave one side empty.
        middle = int(np.median(mine))
        if middle == mine.max():
            middle -= 1
        is_below, through = mine <= middle, high[people] > middle
        under, over = first[classes] <= middle, last[classes] > middle
        cuts = [(is_below, under), (~is_below, over), (is_below & through, ~under)]
        pairs = sum(
            int(cut_people.sum()) * int(cut_classes.sum()) for cut_people, cut_classes in cuts
        )
        if pairs < best:
            best, pieces = (
                pairs,
                [(people[cut_people], classes[cut_classes]) for cut_people, cut_classes in cuts],
            )
    return pieces


def _looked_at(people: IntArray, classes: IntArray, coordinates: Sequence[Coordinate]) -> Pairs:
    fits = np.ones((len(people), len(classes)), dtype=bool)
    for low, high, first, last in coordinates:
        fits &= first[classes] <= high[people][:, None]
        fits &= low[people][:, None] <= last[classes]
    person_index, class_index = np.nonzero(fits)
    return people[person_index], classes[class_index]


def covered(column: BoxColumn, classes: IntArray, leaves: IntArray) -> BoolArray:
    """Return whether the label of each class covers a leaf; sets may have gaps."""
    covers, width = column.covers, len(column.taxonomy.leaves)
    if len(covers.first) == len(covers.starts):
        labels = column.labels[classes]
        return (covers.low[labels] <= leaves) & (leaves <= covers.high[labels])
    owners = _owners(column)
    labels = column.labels[classes]
    # Runs are sorted by label and first leaf, so the last run that begins at or before the leaf
    # is the only one that can hold it.
    runs = np.searchsorted(owners * width + covers.first, labels * width + leaves, side="right") - 1
    inside: BoolArray = (owners[runs] == labels) & (leaves <= covers.last[runs])
    return inside


def naming(case: Case, held: HeldTable) -> list[str]:
    """Return the identifier that names people in the list, and in the original if it is given."""
    for column in case.schema.by_role(Role.IDENTIFIER):
        if column.name in held.names and (
            case.original is None or column.name in case.original.names
        ):
            return [column.name]
    return []


def candidates(
    released: Boxes, people: Frequencies, real: Frequencies | None
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return for each person the rows that fit and the chance to be in one of their classes.

    The third result counts the people who fit each class, of the original or else of the list.
    """
    points, crowd = released.locate(people), crowds(released, people if real is None else real)
    share = released.sizes / np.maximum(crowd, released.sizes)
    rows, chance = np.zeros(len(people)), np.zeros(len(people))
    for mine, theirs in fitting(points, released):  # there may be too many pairs to keep
        rows += np.bincount(mine, released.sizes[theirs], len(people))
        chance += np.bincount(mine, share[theirs], len(people))
    return rows.astype(np.int64), np.minimum(chance, 1.0), crowd


def crowds(released: Boxes, people: Frequencies, person: IntArray | None = None) -> FloatArray:
    """Count the people who fit each class: rows, or different people if `person` numbers them."""
    crowd: FloatArray = np.zeros(len(released))
    pairs = [np.zeros(0, dtype=np.int64)]
    for mine, theirs in fitting(released.locate(people), released):
        if person is None:
            crowd += np.bincount(theirs, people.counts[mine], len(released))
        else:
            pairs.append(np.unique(person[mine] * len(released) + theirs))
    if person is not None:
        once = np.unique(np.concatenate(pairs))
        crowd += np.bincount(once % max(len(released), 1), minlength=len(released))
    return crowd


def in_original(
    people: Frequencies, names: Sequence[str], person: Sequence[str], case: Case
) -> FloatArray:
    """Return the chance of each person of a list to be in the original; 1 without an original."""
    if case.original is None or case.known is None:
        return np.ones(len(people))
    if person:
        members = case.original.counted(person)
        values = people.axis(person[0]).decode(np.arange(people.axis(person[0]).size))
        known = pc.is_in(values, value_set=members.axis(person[0]).decode(members.codes[0]))
        codes = people.codes[people.columns.index(person[0])]
        present: FloatArray = np.asarray(known, dtype=np.float64)[codes]
        return present
    real = case.original.counted(names)
    mine, theirs = same_keys(people, real, names)
    order = np.argsort(theirs)
    positions = np.searchsorted(theirs[order], mine).clip(max=len(order) - 1)
    original_counts = np.where(theirs[order][positions] == mine, real.counts[order][positions], 0)
    shares: FloatArray = np.minimum(original_counts / alike(people, names), 1.0)
    return shares


def alike(people: Frequencies, names: Sequence[str]) -> IntArray:
    """Count for each combination the rows with the same values in some columns."""
    owner = alike_in(people, names)
    alike_rows: IntArray = np.bincount(owner, people.counts).astype(np.int64)[owner]
    return alike_rows


def alike_in(people: Frequencies, names: Sequence[str]) -> IntArray:
    """Return the index of each combination among the combinations of some columns, in order."""
    axes = [people.columns.index(name) for name in names]
    key, _ = keys([people.codes[axis] for axis in axes], [people.sizes[axis] for axis in axes])
    owner: IntArray = np.unique(key, return_inverse=True)[1]
    return owner


def same_keys(
    first: Frequencies, second: Frequencies, names: Sequence[str]
) -> tuple[IntArray, IntArray]:
    """Number the combinations of two tables, alike where values are equal."""
    codes, sizes = [np.zeros(len(first) + len(second), dtype=np.int64)], [1]
    for name in names:
        mine, theirs = first.axis(name), second.axis(name)
        values = [axis.decode(np.arange(axis.size)) for axis in (mine, theirs)]
        every = pa.concat_arrays(values).dictionary_encode(null_encoding="encode").indices
        number = every.to_numpy(zero_copy_only=False).astype(np.int64)
        codes.append(
            np.concatenate(
                [
                    number[: mine.size][first.codes[first.columns.index(name)]],
                    number[mine.size :][second.codes[second.columns.index(name)]],
                ]
            )
        )
        sizes.append(int(number.max(initial=0)) + 1)
    key, _ = keys(codes, sizes)
    return key[: len(first)], key[len(first) :]


def examples(people: Frequencies, names: Sequence[str], chosen: IntArray) -> list[dict[str, Any]]:
    """Return some people by name, as examples for the owner."""
    shown = chosen[:MOST_EXAMPLES]
    values = [
        people.axis(name).decode(people.codes[people.columns.index(name)][shown]).to_pylist()
        for name in names
    ]
    return [
        {name: plain(value) for name, value in zip(names, row, strict=True)}
        for row in zip(*values, strict=True)
    ]
