"""From cells to blocks and back: least squares over a grid of ladders in linear time.

Along one axis an array of values of blocks is split into the projections P_0, P_1, ... of its
ladder by means of blocks, and put together again by repetition. Axes are taken one by one, so an
estimate over several axes is the same few lines for each of them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.publish.tree.ladder import Ladder

    Level = tuple[int, ...]
    Line = Mapping[int, NDArray[np.float64]]
    Levels = Mapping[Level, NDArray[np.float64]]
    Step = Callable[[Line, Ladder, int], Line]

_FEW = 8
"""Up to this many children are added one after the other, which is faster."""


def totals(
    cells: NDArray[np.int64], ladders: Sequence[Ladder], levels: Sequence[Level]
) -> dict[Level, NDArray[np.int64]]:
    """The counts of all blocks of some tuples of levels, finer ones first where they nest."""
    found = {tuple(ladder.depth for ladder in ladders): cells}
    for level in sorted(levels, reverse=True):
        # The coarsest array so far that is nowhere coarser than this one.
        source = min(
            (one for one in found if all(map(int.__ge__, one, level))),
            key=lambda one: found[one].size,
        )
        array = found[source]
        for axis, ladder in enumerate(ladders):
            array = gathered(array, ladder.widths[level[axis]] // ladder.widths[source[axis]], axis)
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


def projected(measured: Levels, ladders: Sequence[Ladder]) -> Levels:
    """The projections of a sum of arrays that are constant on the blocks of their levels."""
    for axis, ladder in enumerate(ladders):
        measured = _along(axis, measured, ladder, _split)
    return measured


def assembled(projections: Levels, ladders: Sequence[Ladder]) -> NDArray[np.float64]:
    """The array of cells that has these projections; those that are absent are zero."""
    for axis, ladder in enumerate(ladders):
        projections = _along(axis, projections, ladder, _join)
    (cells,) = projections.values()
    return cells


def _along(axis: int, arrays: Levels, ladder: Ladder, step: Step) -> Levels:
    """Take a step along one axis with all arrays that agree in the levels of the others."""
    lines: dict[Level, dict[int, NDArray[np.float64]]] = defaultdict(dict)
    for level, array in arrays.items():
        lines[(*level[:axis], -1, *level[axis + 1 :])][level[axis]] = array
    return {
        (*others[:axis], level, *others[axis + 1 :]): array
        for others, line in lines.items()
        for level, array in step(line, ladder, axis).items()
    }


def _split(line: Line, ladder: Ladder, axis: int) -> Line:
    """From the cells up: what a level has beyond the means of its blocks is its projection."""
    found: dict[int, NDArray[np.float64]] = {}
    carried: NDArray[np.float64] | None = None
    for level in range(ladder.depth, -1, -1):
        here = line.get(level)
        if carried is not None:
            here = carried if here is None else here + carried
        if here is None:
            continue
        if level == 0:
            found[0] = here
            break
        fanout = ladder.fanouts[level - 1]
        carried = gathered(here, fanout, axis) / fanout
        if fanout > 1:
            found[level] = here - np.repeat(carried, fanout, axis=axis)
    return found


def _join(line: Line, ladder: Ladder, axis: int) -> Line:
    """From the whole down: a block's value is that of its parent and its own projection."""
    array = line[0]
    for level, fanout in enumerate(ladder.fanouts, start=1):
        if fanout > 1:
            array = np.repeat(array, fanout, axis=axis)
        if level in line:
            array = array + line[level]
    return {ladder.depth: array}
