"""Axes cut into nested blocks: how ranges lie across the levels, and least squares in linear time.

Level 0 is the whole axis; every block of a level falls into equally many blocks of the next; a
block of the last level is one cell. Cells behind the last declared one are public zeros.

With B_j the matrix that replaces a cell by the mean of its block of level j, the differences
P_0 = B_0, P_j = B_j - B_(j-1) are orthogonal projections that sum to the identity. Counts of
blocks and contrasts between the children of blocks are both diagonal in them, so the variance of
a range r is the sum over levels of |P_j r|^2 / precision_j, its *energies* over precisions.

An estimate is split into these projections by means of blocks, and put together again by
repetition. Axes are taken one by one, so that over several axes it is the same few lines for each.

Decision `workload-strategies`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.privacy.estimation.trees import MANY, TOGETHER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray

    # RESHAPE
    Level = tuple[int, ...]
    Line = Mapping[int, FloatArray]
    Levels = Mapping[Level, FloatArray]
    Step = Callable[[Line, "Nesting", int], Line]

_QUERIES = 4096
"""Queries whose energies are multiplied at once."""


@dataclass(frozen=True, eq=False)
class Nesting:
    """An axis of `points` codes with blocks of `fanouts` children at each level.

    A cell is one code, or, with `cuts`, the codes from one cut up to the next.
    """

    points: int
    fanouts: tuple[int, ...]
    cuts: IntArray | None = None

    @property
    def cells(self) -> int:
        """How many cells the codes make."""
        return self.points if self.cuts is None else len(self.cuts) - 1

    @property
    def depth(self) -> int:
        """The last level, whose blocks are cells."""
        return len(self.fanouts)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """How many cells a block of each level has."""
        return tuple(math.prod(self.fanouts[level:]) for level in range(self.depth + 1))

    @property
    def size(self) -> int:
        """How many cells there are with those behind the last declared one."""
        return self.widths[0]

    def energies(self, low: NDArray[np.integer], high: NDArray[np.integer]) -> FloatArray:
        """The squared length of each range of codes in each level: (queries, levels).

        A range ends within a cell where cells have several codes: then that cell counts in part.
        """
        first, last = self._positions(low), self._positions(np.maximum(high + 1, low))
        return _differences(*(_ends(position, self.widths) for position in (first, last)))

    def usual_energies(self) -> FloatArray:
        """The mean energies over all ranges of cells, each counted once."""
        squares = [_sum_of_squares(self.cells, width) for width in self.widths]
        ranges = self.cells * (self.cells + 1) // 2
        found: FloatArray = np.diff([0.0, *(float(one / ranges) for one in squares)])
        return found

    def _positions(self, codes: NDArray[np.integer]) -> FloatArray:
        """Where the left edges of codes lie among the cells."""
        if self.cuts is None:
            return codes.astype(np.float64)
        return np.asarray(np.interp(codes, self.cuts, np.arange(len(self.cuts))))

    def merged(self, array: IntArray, axis: int) -> IntArray:
        """Add up the codes of each cell, and put public zeros behind the last."""
        if self.cuts is not None:
            array = np.add.reduceat(array, self.cuts[:-1], axis=axis)
        padding = [(0, 0)] * array.ndim
        padding[axis] = (0, self.size - self.cells)
        return np.pad(array, padding) if self.size > self.cells else array

    def taken(self, array: FloatArray, axis: int) -> FloatArray:
        """The cells without the zeros that `merged` put behind them."""
        return array[(slice(None),) * axis + (slice(self.cells),)]

    def line(self) -> list[IntArray]:
        """The parent of each block that holds a cell, generation by generation from the whole down.

        Many children of one block have some more generations between it and them.
        """
        found = []
        blocks = self.cells
        for fanout in reversed(self.fanouts):
            while fanout > MANY:
                places, fewer = np.arange(blocks), -(-fanout // TOGETHER)
                found.append(places // fanout * fewer + places % fanout // TOGETHER)
                fanout, blocks = fewer, int(found[-1][-1]) + 1
            found.append(np.arange(blocks) // fanout)
            blocks = int(found[-1][-1]) + 1
        return found[::-1]

    def held(self, low: int, high: int) -> FloatArray:
        """The part of each cell that a range of codes holds."""
        cuts = np.arange(self.points + 1) if self.cuts is None else self.cuts
        inside = np.minimum(cuts[1:], high + 1) - np.maximum(cuts[:-1], low)
        return np.asarray(np.maximum(inside, 0) / np.diff(cuts))

    def spread(self, array: FloatArray, axis: int) -> FloatArray:
        """Deal each cell out over its codes, evenly."""
        if self.cuts is None:
            return array
        lengths = np.diff(self.cuts)
        shape = [1] * array.ndim
        shape[axis] = len(lengths)
        return np.repeat(array / lengths.reshape(shape), lengths, axis=axis)


def balanced(cells: int, depth: int) -> tuple[int, ...]:
    """The fan-outs of a nesting of this depth: nearly equal, with few cells more than needed."""
    fanout = max(int(cells ** (1 / depth)) - 1, 1)
    while fanout**depth < cells:
        fanout += 1
    fanouts = [fanout] * depth
    for level in range(depth):
        fanouts[level] -= 1
        if math.prod(fanouts) < cells:
            fanouts[level] += 1
            break
    return tuple(fanouts)


def outer(sides: Sequence[FloatArray]) -> FloatArray:
    """The products of all combinations of some lines, one axis for each."""
    found = np.ones(1)
    for side in sides:
        found = np.multiply.outer(found, side)
    return np.asarray(found[0])


def box_energies(nestings: Sequence[Nesting], boxes: IntArray) -> list[FloatArray]:
    """The energies of boxes along every axis; a box that is empty in one axis is so in all."""
    empty = (boxes[:, :, 1] < boxes[:, :, 0]).any(axis=1)
    found = [
        nesting.energies(boxes[:, axis, 0], boxes[:, axis, 1])
        for axis, nesting in enumerate(nestings)
    ]
    found[0][empty] = 0.0
    return found


def spectrum(nestings: Sequence[Nesting], boxes: IntArray | None) -> FloatArray:
    """The mean energy of a workload in each tuple of levels; of all ranges where none is given."""
    if boxes is None:
        return outer([nesting.usual_energies() for nesting in nestings])
    energies = box_energies(nestings, boxes)
    total = np.zeros([nesting.depth + 1 for nesting in nestings])
    for start in range(0, len(boxes), _QUERIES):
        *others, last = (one[start : start + _QUERIES] for one in energies)
        leading = _products(others).reshape(len(last), -1) if others else np.ones((len(last), 1))
        total += (leading.T @ last).reshape(total.shape)
    return total / max(len(boxes), 1)


def variances(nestings: Sequence[Nesting], boxes: IntArray, precisions: FloatArray) -> FloatArray:
    """The variance of the estimate of each box."""
    energies = box_energies(nestings, boxes)
    found = np.empty(len(boxes))
    for start in range(0, len(boxes), _QUERIES):
        part = slice(start, start + _QUERIES)
        remaining = np.broadcast_to(1 / precisions, (len(found[part]), *precisions.shape))
        for one in reversed(energies):
            remaining = np.einsum("q...l,ql->q...", remaining, one[part])
        found[part] = remaining
    return found


def _products(energies: Sequence[FloatArray]) -> FloatArray:
    """The products over all axes, for each query: (queries, levels of the first axis, ...)."""
    found = energies[0]
    for one in energies[1:]:
        found = found[..., None] * one.reshape(len(one), *[1] * (found.ndim - 1), -1)
    return found


def _ends(position: FloatArray, widths: Sequence[int]) -> tuple[FloatArray, FloatArray, FloatArray]:
    width = np.array(widths, dtype=np.float64)
    whole = np.floor(position[:, None] / width)
    return width, whole, position[:, None] - whole * width


def _differences(first: tuple[FloatArray, ...], last: tuple[FloatArray, ...]) -> FloatArray:
    """|P_j (last - first)|^2 for two prefixes of an axis, given by their whole blocks and rests."""
    width, whole, part = first
    _, wholes, parts = last
    # Within one block the rests multiply; else the shorter prefix's lies in a whole block.
    common = np.where(whole == wholes, part * parts / width, part)
    squares = width * (wholes - whole) + (part**2 + parts**2) / width - 2 * common
    return np.asarray(np.maximum(np.diff(squares, axis=1, prepend=0.0), 0.0))


def _sum_of_squares(count: int, width: int) -> Fraction:
    """The sum of |B r|^2 over all ranges r of `count` cells, B for blocks of this width.

    A range is the difference of two of the count + 1 prefixes, of which `whole` blocks hold
    `width` each and the last block holds rest + 1.
    """
    whole, rest = divmod(count, width)
    blocks, squares = whole * (whole - 1) // 2, whole * (whole - 1) * (2 * whole - 1) // 6
    own = (
        width * (width * blocks + whole * (rest + 1)) * width
        + whole * _sum_of_powers(width - 1)[1]
        + _sum_of_powers(rest)[1]
    )
    # Products of two prefixes: both end in the same block, or in different ones.
    same = (
        width**3 * (width - 1) // 2 * blocks
        + width**2 * whole * (rest * (rest + 1) // 2)
        + whole * _sum_of_pairs(width - 1)
        + _sum_of_pairs(rest)
    )
    later, parts = count + 1 - width, width * (width - 1) // 2
    different = (width**2 * later - width * parts) * blocks - width**3 * squares
    different += whole * parts * later
    return Fraction(count * own - 2 * (same + width * different), width)


def _sum_of_powers(last: int) -> tuple[int, int]:
    """1 + 2 + ... + last, and the same of the squares."""
    return last * (last + 1) // 2, last * (last + 1) * (2 * last + 1) // 6


def _sum_of_pairs(last: int) -> int:
    """The sum of i j over 0 <= i < j <= last."""
    plain, squares = _sum_of_powers(last)
    return (plain**2 - squares) // 2


_FEW = 8
"""Up to this many children are added one after the other, which is faster."""


def totals(
    cells: IntArray, nestings: Sequence[Nesting], levels: Sequence[Level]
) -> dict[Level, IntArray]:
    """The counts of all blocks of some tuples of levels, finer ones first where they nest."""
    found = {tuple(nesting.depth for nesting in nestings): cells}
    for level in sorted(levels, reverse=True):
        # The coarsest array so far that is nowhere coarser than this one.
        source = min(
            (one for one in found if all(map(int.__ge__, one, level))),
            key=lambda one: found[one].size,
        )
        array = found[source]
        for axis, nesting in enumerate(nestings):
            array = gathered(
                array, nesting.widths[level[axis]] // nesting.widths[source[axis]], axis
            )
        found[level] = array
    return {level: found[level] for level in levels}


def gathered(array: NDArray[Any], fanout: int, axis: int) -> NDArray[Any]:
    """Add up neighbours along an axis, `fanout` at a time."""
    if fanout == 1:
        return array
    parts = array.reshape(*array.shape[:axis], -1, fanout, *array.shape[axis + 1 :])
    if fanout > _FEW:
        return np.asarray(parts.sum(axis=axis + 1))
    first, second, *others = np.moveaxis(parts, axis + 1, 0)
    found: NDArray[Any] = first + second
    for child in others:
        found += child
    return found


def projected(measured: Levels, nestings: Sequence[Nesting]) -> Levels:
    """The projections of a sum of arrays that are constant on the blocks of their levels."""
    for axis, nesting in enumerate(nestings):
        measured = _along(axis, measured, nesting, _split)
    return measured


def assembled(projections: Levels, nestings: Sequence[Nesting]) -> FloatArray:
    """The array of cells that has these projections; those that are absent are zero."""
    for axis, nesting in enumerate(nestings):
        projections = _along(axis, projections, nesting, _join)
    (cells,) = projections.values()
    return cells


def _along(axis: int, arrays: Levels, nesting: Nesting, step: Step) -> Levels:
    """Take a step along one axis with all arrays that agree in the levels of the others."""
    lines: dict[Level, dict[int, FloatArray]] = defaultdict(dict)
    for level, array in arrays.items():
        lines[(*level[:axis], -1, *level[axis + 1 :])][level[axis]] = array
    return {
        (*others[:axis], level, *others[axis + 1 :]): array
        for others, line in lines.items()
        for level, array in step(line, nesting, axis).items()
    }


def _split(line: Line, nesting: Nesting, axis: int) -> Line:
    """From the cells up: what a level has beyond the means of its blocks is its projection."""
    found: dict[int, FloatArray] = {}
    carried: FloatArray | None = None
    for level in range(nesting.depth, -1, -1):
        here = line.get(level)
        if carried is not None:
            here = carried if here is None else here + carried
        if here is None:
            continue
        if level == 0:
            found[0] = here
            break
        fanout = nesting.fanouts[level - 1]
        carried = gathered(here, fanout, axis) / fanout
        if fanout > 1:
            found[level] = here - np.repeat(carried, fanout, axis=axis)
    return found


def _join(line: Line, nesting: Nesting, axis: int) -> Line:
    """From the whole down: a block's value is that of its parent and its own projection."""
    array = line[0]
    for level, fanout in enumerate(nesting.fanouts, start=1):
        if fanout > 1:
            array = np.repeat(array, fanout, axis=axis)
        if level in line:
            array = array + line[level]
    return {nesting.depth: array}
