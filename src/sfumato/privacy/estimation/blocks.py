"""Axes divided into nested blocks: energies of ranges per level, and least squares in linear time.

Level 0 is the whole axis; every block of a level falls into equally many blocks of the next; a
block of the last level is one cell. Cells behind the last declared one are public zeros.

With B_j the matrix that replaces a cell by the mean of its block of level j, the differences
P_0 = B_0, P_j = B_j - B_(j-1) are orthogonal projections that sum to the identity. Counts of
blocks and contrasts between the children of blocks are both diagonal in them, so the variance of
a range r is the sum over levels of |P_j r|^2 / precision_j, its *energies* over precisions.

An estimate is split into these projections by block means, and assembled again by repetition. Both
work along one axis at a time, so several axes need no code of their own.

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

from sfumato.privacy.estimation.trees import GROUP_SIZE, MAX_FAMILY

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
"""Queries per batch: it bounds the memory of the (queries, levels, levels, ...) products."""


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
        """The number of cells."""
        return self.points if self.cuts is None else len(self.cuts) - 1

    @property
    def depth(self) -> int:
        """The last level, whose blocks are cells."""
        return len(self.fanouts)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """The number of cells in a block of each level."""
        return tuple(math.prod(self.fanouts[level:]) for level in range(self.depth + 1))

    @property
    def size(self) -> int:
        """The number of cells including the padding behind the last declared one."""
        return self.widths[0]

    def energies(self, low: NDArray[np.integer], high: NDArray[np.integer]) -> FloatArray:
        """The squared length of each range of codes in each level: (queries, levels).

        Where cells have several codes, a range may end within a cell; the cell then counts in part.
        """
        first, last = self._positions(low), self._positions(np.maximum(high + 1, low))
        return _difference_energies(
            *(_prefix_blocks(position, self.widths) for position in (first, last))
        )

    def usual_energies(self) -> FloatArray:
        """The mean energies over all ranges of cells, each counted once."""
        squares = [_sum_of_squares(self.cells, width) for width in self.widths]
        ranges = self.cells * (self.cells + 1) // 2
        energies: FloatArray = np.diff([0.0, *(float(square / ranges) for square in squares)])
        return energies

    def _positions(self, codes: NDArray[np.integer]) -> FloatArray:
        """The position of each code's left edge, in cells."""
        if self.cuts is None:
            return codes.astype(np.float64)
        return np.asarray(np.interp(codes, self.cuts, np.arange(len(self.cuts))))

    def merged(self, array: IntArray, axis: int) -> IntArray:
        """Add up the codes of each cell, and pad with public zeros to the full size."""
        if self.cuts is not None:
            array = np.add.reduceat(array, self.cuts[:-1], axis=axis)
        padding = [(0, 0)] * array.ndim
        padding[axis] = (0, self.size - self.cells)
        return np.pad(array, padding) if self.size > self.cells else array

    def without_padding(self, array: FloatArray, axis: int) -> FloatArray:
        """The cells without the zeros that `merged` appended."""
        return array[(slice(None),) * axis + (slice(self.cells),)]

    def line(self) -> list[IntArray]:
        """The parent of each block that holds a cell, one array per generation from the root down.

        A block with more than `MAX_FAMILY` children gets intermediate generations.
        """
        generations = []
        blocks = self.cells
        for fanout in reversed(self.fanouts):
            while fanout > MAX_FAMILY:
                block_indices, fewer = np.arange(blocks), -(-fanout // GROUP_SIZE)
                generations.append(
                    block_indices // fanout * fewer + block_indices % fanout // GROUP_SIZE
                )
                fanout, blocks = fewer, int(generations[-1][-1]) + 1
            generations.append(np.arange(blocks) // fanout)
            blocks = int(generations[-1][-1]) + 1
        return generations[::-1]

    def held(self, low: int, high: int) -> FloatArray:
        """The share of each cell that lies in a range of codes."""
        cuts = np.arange(self.points + 1) if self.cuts is None else self.cuts
        inside = np.minimum(cuts[1:], high + 1) - np.maximum(cuts[:-1], low)
        return np.asarray(np.maximum(inside, 0) / np.diff(cuts))

    def spread(self, array: FloatArray, axis: int) -> FloatArray:
        """Distribute each cell evenly over its codes."""
        if self.cuts is None:
            return array
        lengths = np.diff(self.cuts)
        shape = [1] * array.ndim
        shape[axis] = len(lengths)
        return np.repeat(array / lengths.reshape(shape), lengths, axis=axis)


def balanced(cells: int, depth: int) -> tuple[int, ...]:
    """Nearly equal fan-outs for a nesting of this depth, with few more cells than needed."""
    fanout = max(int(cells ** (1 / depth)) - 1, 1)
    # The root of a float may be off by one either way, so start below it and count up.
    while fanout**depth < cells:
        fanout += 1
    fanouts = [fanout] * depth
    # Lower the fan-outs one by one as long as the cells still fit.
    for level in range(depth):
        fanouts[level] -= 1
        if math.prod(fanouts) < cells:
            fanouts[level] += 1
            break
    return tuple(fanouts)


def outer(sides: Sequence[FloatArray]) -> FloatArray:
    """The outer product of several vectors, one axis for each."""
    product = np.ones(1)
    for side in sides:
        product = np.multiply.outer(product, side)
    return np.asarray(product[0])


def box_energies(nestings: Sequence[Nesting], boxes: IntArray) -> list[FloatArray]:
    """The energies of boxes along every axis.

    A box that is empty along any axis gets energy 0 along the first, so that its product is 0.
    """
    empty = (boxes[:, :, 1] < boxes[:, :, 0]).any(axis=1)
    energies = [
        nesting.energies(boxes[:, axis, 0], boxes[:, axis, 1])
        for axis, nesting in enumerate(nestings)
    ]
    energies[0][empty] = 0.0
    return energies


def spectrum(nestings: Sequence[Nesting], boxes: IntArray | None) -> FloatArray:
    """The mean energy of a workload in each tuple of levels; without boxes, of all ranges."""
    if boxes is None:
        return outer([nesting.usual_energies() for nesting in nestings])
    energies = box_energies(nestings, boxes)
    total = np.zeros([nesting.depth + 1 for nesting in nestings])
    for start in range(0, len(boxes), _QUERIES):
        *leading_energies, last = (
            axis_energies[start : start + _QUERIES] for axis_energies in energies
        )
        leading = (
            _products(leading_energies).reshape(len(last), -1)
            if leading_energies
            else np.ones((len(last), 1))
        )
        total += (leading.T @ last).reshape(total.shape)
    return total / max(len(boxes), 1)


def variances(nestings: Sequence[Nesting], boxes: IntArray, precisions: FloatArray) -> FloatArray:
    """The variance of the estimate of each box."""
    energies = box_energies(nestings, boxes)
    result = np.empty(len(boxes))
    for start in range(0, len(boxes), _QUERIES):
        batch = slice(start, start + _QUERIES)
        remaining = np.broadcast_to(1 / precisions, (len(result[batch]), *precisions.shape))
        for axis_energies in reversed(energies):
            remaining = np.einsum("q...l,ql->q...", remaining, axis_energies[batch])
        result[batch] = remaining
    return result


def _products(energies: Sequence[FloatArray]) -> FloatArray:
    """The products over all axes, for each query: (queries, levels of the first axis, ...)."""
    products = energies[0]
    for axis_energies in energies[1:]:
        products = products[..., None] * axis_energies.reshape(
            len(axis_energies), *[1] * (products.ndim - 1), -1
        )
    return products


def _prefix_blocks(
    position: FloatArray, widths: Sequence[int]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    width = np.array(widths, dtype=np.float64)
    full_blocks = np.floor(position[:, None] / width)
    return width, full_blocks, position[:, None] - full_blocks * width


def _difference_energies(first: tuple[FloatArray, ...], last: tuple[FloatArray, ...]) -> FloatArray:
    """|P_j (last - first)|^2 for two prefixes of an axis, by their full blocks and rests."""
    width, first_blocks, first_rest = first
    _, last_blocks, last_rest = last
    # |B prefix|^2 = width * blocks + rest^2 / width, and <B last, B first> = width * first_blocks
    # + common: two rests in one block, or the rest of `first` within a full block of `last`.
    common = np.where(first_blocks == last_blocks, first_rest * last_rest / width, first_rest)
    squares = (
        width * (last_blocks - first_blocks) + (first_rest**2 + last_rest**2) / width - 2 * common
    )
    return np.asarray(np.maximum(np.diff(squares, axis=1, prepend=0.0), 0.0))


def _sum_of_squares(count: int, width: int) -> Fraction:
    """The sum of |B r|^2 over all ranges r of `count` cells, B for blocks of this width.

    A range is the difference of two of the count + 1 prefixes: `full_blocks` blocks hold `width`
    prefixes each, and the last block holds remainder + 1.
    """
    full_blocks, remainder = divmod(count, width)
    blocks, squares = (
        full_blocks * (full_blocks - 1) // 2,
        full_blocks * (full_blocks - 1) * (2 * full_blocks - 1) // 6,
    )
    own = (
        width * (width * blocks + full_blocks * (remainder + 1)) * width
        + full_blocks * _sum_of_powers(width - 1)[1]
        + _sum_of_powers(remainder)[1]
    )
    # Inner products of two prefixes that end in the same block, then of those that do not.
    same_block = (
        width**3 * (width - 1) // 2 * blocks
        + width**2 * full_blocks * (remainder * (remainder + 1) // 2)
        + full_blocks * _sum_of_pairs(width - 1)
        + _sum_of_pairs(remainder)
    )
    later, offsets = count + 1 - width, width * (width - 1) // 2
    different_blocks = (width**2 * later - width * offsets) * blocks - width**3 * squares
    different_blocks += full_blocks * offsets * later
    return Fraction(count * own - 2 * (same_block + width * different_blocks), width)


def _sum_of_powers(last: int) -> tuple[int, int]:
    """1 + 2 + ... + last, and 1 + 4 + ... + last^2."""
    return last * (last + 1) // 2, last * (last + 1) * (2 * last + 1) // 6


def _sum_of_pairs(last: int) -> int:
    """The sum of i j over 0 <= i < j <= last."""
    plain, squares = _sum_of_powers(last)
    return (plain**2 - squares) // 2


_LOOP_CHILDREN = 8
"""Up to this many children, adding slices in a loop is faster than one sum over an axis."""


def totals(
    cells: IntArray, nestings: Sequence[Nesting], levels: Sequence[Level]
) -> dict[Level, IntArray]:
    """The counts of all blocks for each tuple of levels.

    Each is summed from the smallest array computed so far that is nowhere coarser.
    """
    counts_by_level = {tuple(nesting.depth for nesting in nestings): cells}
    for level in sorted(levels, reverse=True):
        source = min(
            (
                finer_level
                for finer_level in counts_by_level
                if all(map(int.__ge__, finer_level, level))
            ),
            key=lambda finer_level: counts_by_level[finer_level].size,
        )
        array = counts_by_level[source]
        for axis, nesting in enumerate(nestings):
            array = sum_neighbours(
                array, nesting.widths[level[axis]] // nesting.widths[source[axis]], axis
            )
        counts_by_level[level] = array
    return {level: counts_by_level[level] for level in levels}


def sum_neighbours(array: NDArray[Any], fanout: int, axis: int) -> NDArray[Any]:
    """Add up groups of `fanout` neighbours along an axis."""
    if fanout == 1:
        return array
    groups = array.reshape(*array.shape[:axis], -1, fanout, *array.shape[axis + 1 :])
    if fanout > _LOOP_CHILDREN:
        return np.asarray(groups.sum(axis=axis + 1))
    first, second, *remaining_children = np.moveaxis(groups, axis + 1, 0)
    sums: NDArray[Any] = first + second
    for child in remaining_children:
        sums += child
    return sums


def projected(measured: Levels, nestings: Sequence[Nesting]) -> Levels:
    """The projections of a sum of arrays that are constant on the blocks of their levels."""
    for axis, nesting in enumerate(nestings):
        measured = _along(axis, measured, nesting, _split)
    return measured


def assembled(projections: Levels, nestings: Sequence[Nesting]) -> FloatArray:
    """The array of cells with these projections; an absent projection is zero."""
    for axis, nesting in enumerate(nestings):
        projections = _along(axis, projections, nesting, _join)
    (cells,) = projections.values()
    return cells


def _along(axis: int, arrays: Levels, nesting: Nesting, step: Step) -> Levels:
    """Apply a step along one axis, to each group of arrays with equal levels on the other axes."""
    lines: dict[Level, dict[int, FloatArray]] = defaultdict(dict)
    for level, array in arrays.items():
        lines[(*level[:axis], -1, *level[axis + 1 :])][level[axis]] = array
    return {
        (*other_levels[:axis], level, *other_levels[axis + 1 :]): array
        for other_levels, line in lines.items()
        for level, array in step(line, nesting, axis).items()
    }


def _split(line: Line, nesting: Nesting, axis: int) -> Line:
    """Project from the cells up: a level's projection is its values less their parents' means."""
    projections: dict[int, FloatArray] = {}
    carried: FloatArray | None = None
    for level in range(nesting.depth, -1, -1):
        values = line.get(level)
        if carried is not None:
            values = carried if values is None else values + carried
        if values is None:
            continue
        if level == 0:
            projections[0] = values
            break
        fanout = nesting.fanouts[level - 1]
        carried = sum_neighbours(values, fanout, axis) / fanout
        if fanout > 1:
            projections[level] = values - np.repeat(carried, fanout, axis=axis)
    return projections


def _join(line: Line, nesting: Nesting, axis: int) -> Line:
    """Assemble from the root down: a block's value is its parent's plus its own projection."""
    array = line[0]
    for level, fanout in enumerate(nesting.fanouts, start=1):
        if fanout > 1:
            array = np.repeat(array, fanout, axis=axis)
        if level in line:
            array = array + line[level]
    return {nesting.depth: array}
