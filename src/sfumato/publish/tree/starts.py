"""Where the search for shares begins: the supports of the methods that are known to be good."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from sfumato.publish.tree.ladder import outer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.publish.tree.ladder import Ladder

    Floats = NDArray[np.float64]


def block_sizes(ladders: Sequence[Ladder]) -> Floats:
    """How many cells a block of each tuple of levels has."""
    return outer([np.array(ladder.widths, dtype=np.float64) for ladder in ladders])


def starts(ladders: Sequence[Ladder], products: Sequence[Floats] = ()) -> Floats:
    """Shares of several methods: (methods, levels of the first axis, ...), each summing to 1.

    Cells alone; all levels; every k-th level, with and without the whole, of all axes in step or
    independently; marginals of each order; and products of the shares given for each axis.
    """
    shape = tuple(ladder.depth + 1 for ladder in ladders)
    deepest = max(shape) - 1
    found = [np.ones(shape), outer(products)] if products else [np.ones(shape)]
    # In step: eps ~ width^((1 - d) / 3), written with the size of a block, width^d.
    falling = block_sizes(ladders) ** ((1 / len(shape) - 1) / 3)
    for stride in range(1, deepest + 1):
        lines = [_every(stride, size) for size in shape]
        along = np.zeros(shape)
        for step in range(0, deepest + 1, stride):
            along[tuple(max(size - 1 - step, 0) for size in shape)] = 1.0
        found += [along, along * falling, outer(lines)]
    for order in range(len(shape)):
        found.append(_marginals(shape, order))
    whole = (0,) * len(shape)
    without = [one.copy() for one in found]
    for one in without:
        one[whole] = 0.0
        one[tuple(size - 1 for size in shape)] += 1e-3
    array = np.unique(np.array(found + without), axis=0)
    return np.asarray(array / array.sum(axis=tuple(range(1, array.ndim)), keepdims=True))


def _every(stride: int, size: int) -> Floats:
    line = np.zeros(size)
    line[::-1][::stride] = 1.0
    return line


def _marginals(shape: tuple[int, ...], order: int) -> Floats:
    """The cells, and all tables of so many of the columns."""
    found = np.zeros(shape)
    for chosen in product((0, 1), repeat=len(shape)):
        if sum(chosen) in {order, len(shape)}:
            place = tuple((size - 1) * one for size, one in zip(shape, chosen, strict=True))
            found[place] = 1.0
    return found
