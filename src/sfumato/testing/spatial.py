"""Many independent trees at once, so that an audit of a spatial decomposition is quick."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.axes import Grid
from sfumato.publish.spatial.growth import Growth
from sfumato.publish.spatial.space import Space
from sfumato.schema.column import Kind
from sfumato.schema.domain import Bounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.noise.entropy import Entropy
    from sfumato.publish.spatial.decomposition import Decomposition


def grow_copies(
    method: Decomposition,
    points: Sequence[tuple[int, ...]],
    copies: int,
    entropy: Entropy,
    *,
    kind: type[Growth] = Growth,
) -> Growth:
    """Grow a tree over the same points `copies` times, each copy with noise of its own.

    The copies lie side by side along a column of their own, the last one, which the method does not
    know of and which is divided beforehand. A growth of another kind may misbehave on purpose.
    """
    beside = Grid("copy", Kind.INTEGER, Bounds(0, copies - 1), nullable=False)
    space = Space((*method.space.axes, beside))
    rows = np.array(points, dtype=np.int64).reshape(-1, len(method.space.shape))
    codes = np.column_stack([np.tile(rows, (copies, 1)), np.repeat(np.arange(copies), len(rows))])
    growth = kind(space, codes, np.ones(len(codes), dtype=np.int64), np.zeros(0, dtype=np.int64))
    division = growth.begin(np.array([True]))
    division.evenly(len(space.shape) - 1, np.array([copies]))
    growth.end(division)
    method.grow(growth, entropy)
    return growth


def seen(growth: Growth, copies: int) -> NDArray[np.int64]:
    """What an observer sees of each copy: (copies, 5) of its shape and its noisy counts.

    How many leaves it has, where its leaf at the origin ends, where its first part ends, and what
    was measured of the whole and of this part, -1 where there is none.
    """
    tree, (values, _) = growth.tree, growth.measured
    copy = tree.lows[:, -1]
    roots = np.arange(1, copies + 1)
    divided = tree.children[roots] > 0
    first = tree.firsts[roots] * divided
    origin = np.zeros(copies)
    corner = tree.leaves & (tree.lows[:, :-1] == 0).all(axis=1)
    origin[copy[corner]] = tree.highs[corner, 0]
    leaves = np.bincount(copy[tree.leaves], minlength=copies)
    parts = [np.where(divided, one[first], -1) for one in (tree.highs[:, 0], values)]
    figures = np.stack([leaves, origin, *parts, values[roots]], axis=1)
    return np.asarray(np.rint(figures), dtype=np.int64)
