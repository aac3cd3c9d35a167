"""How many pairs of a join have the same values, in all tables that two releases may stand for.

*Model*: each released row stands for one row of the original, whose values are any of those that
its labels cover, whatever those of other rows are. A world gives every row of both tables values;
the count is that of pairs with the same values in all columns. Rows that were not released are in
no world.

*Bounds*: where one table has values, not labels, each row of the other one chooses among them for
itself: s rows that may be any x meet s min n(x) to s max n(x) rows. Where each class meets at most
one, both ends are reached too. Else the choices hang together, and the bounds hold without being
reached: from above each row meets no more than all rows that may be where it is; from below it
meets the rows whose values are certain. Decision 0297.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.attack.matching import fitting, meeting

if TYPE_CHECKING:
    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.attack.classes import Boxes


def count_bounds(one: Boxes, two: Boxes) -> tuple[int, int, bool]:
    """The least and the largest count, and whether some world has them."""
    sides = ((one, two), (two, one))
    low = max(_certain(mine, theirs) for mine, theirs in sides)
    for mine, theirs in sides:
        if _single(theirs).all():
            return low, _largest(mine, theirs), True
    pairs = list(meeting(one, two))
    ours = np.concatenate([first for first, _ in pairs] or [np.zeros(0, dtype=np.int64)])
    others = np.concatenate([second for _, second in pairs] or [np.zeros(0, dtype=np.int64)])
    high = min(_at_most(one, two, ours, others), _at_most(two, one, others, ours))
    exact = len(np.unique(ours)) == len(np.unique(others)) == len(ours)
    return low, high, exact


def _single(boxes: Boxes) -> BoolArray:
    """Which classes stand for one value in every column."""
    single: BoolArray = _volume(boxes) == 1
    return single


def _volume(boxes: Boxes) -> FloatArray:
    """How many combinations of values each class may stand for."""
    volume = np.ones(len(boxes))
    for column in boxes.columns:
        volume *= column.covers.leaves[column.labels]
    return volume


def _points(boxes: Boxes) -> tuple[list[IntArray], IntArray]:
    """The values of the classes that stand for one, and the rows of each."""
    single = _single(boxes)
    points = [np.where(single, one.covers.low[one.labels], -1) for one in boxes.columns]
    return points, np.where(single, boxes.sizes, 0)


def _certain(mine: Boxes, theirs: Boxes) -> int:
    """Each row meets at least the fewest rows that are for certain where it may be."""
    points, sizes = _points(theirs)
    seen = np.zeros(len(mine))
    fewest = np.full(len(mine), np.iinfo(np.int64).max)
    for place, classes in fitting(points, mine):
        seen += np.bincount(classes, minlength=len(mine))
        np.minimum.at(fewest, classes, sizes[place])
    everywhere = seen == _volume(mine)
    return int((mine.sizes[everywhere] * fewest[everywhere]).sum())


def _largest(mine: Boxes, theirs: Boxes) -> int:
    """Each row is where most rows are, whose values are certain."""
    points, sizes = _points(theirs)
    most = np.zeros(len(mine), dtype=np.int64)
    for place, classes in fitting(points, mine):
        np.maximum.at(most, classes, sizes[place])
    return int((mine.sizes * most).sum())


def _at_most(mine: Boxes, theirs: Boxes, ours: IntArray, others: IntArray) -> int:
    """Each row meets no more than all that may be in one place: of classes apart, the largest."""
    most = np.zeros(len(mine), dtype=np.int64)
    if sum(len(first) for first, _ in meeting(theirs, theirs)) == len(theirs):
        np.maximum.at(most, ours, theirs.sizes[others])
    else:
        np.add.at(most, ours, theirs.sizes[others])
    return int((mine.sizes * most).sum())
