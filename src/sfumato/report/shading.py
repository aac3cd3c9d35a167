"""Shades of quantities: where they change, what they stand for, and tables of squares in them.

Decision 0234.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from sfumato.report.numbers import show
from sfumato.report.palette import SHADES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import BoolArray, FloatArray

MOST_MARKS = 10_000
"""No map is made of more squares than that."""
ALONG = 100
"""And if there are more, it has at most so many along each side."""
_SPREAD = 6.0
"""Counts whose largest is so many times the smallest have shades by equal factors."""


def shade_steps(values: FloatArray, floor: float = 0.0) -> list[float]:
    """Round values at which the shades change, five at most; all at or below `floor` has the first.

    By equal factors where counts differ much, so that the few largest do not leave the rest pale.
    """
    seen = values[values > floor]
    if not seen.size:
        return [max(floor, 0.0) or 1.0]
    least, most = (float(one) for one in np.quantile(seen, (0.05, 0.95)))
    largest = float(seen.max())
    count = len(SHADES) - 1
    if largest > _SPREAD * least:
        raw = np.geomspace(least, max(most, min(largest, _SPREAD * least)), count)
    else:
        raw = np.linspace(0, largest, count + 2)[1:-1]
    for digits in (1, 2, 3):
        # The first is rounded down, so that no more fall below it.
        steps = [_rounded_down(float(raw[0]), digits)]
        steps += [float(f"{one:.{digits - 1}e}") for one in raw[1:]]
        if len(set(steps)) == count:
            break
    return list(dict.fromkeys(steps))


def _rounded_down(value: float, digits: int) -> float:
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return float(f"{math.floor(value / unit + 1e-9) * unit:.{digits - 1}e}")


def shade_legend(steps: Sequence[float]) -> list[tuple[str, str]]:
    """The class of each shade, and the values it stands for in words."""
    words = [
        f"below {show(steps[0])}",
        *(f"{show(low)} to {show(high)}" for low, high in pairwise(steps)),
        f"{show(steps[-1])} and more",
    ]
    return [(f"shade{shade_of(place, steps)}", one) for place, one in enumerate(words)]


def shade_of(step: int, steps: Sequence[float]) -> int:
    """The shade of what passed so many of the steps: the last of them always has the fullest."""
    return round(step * (len(SHADES) - 1) / len(steps))


def coarser(
    cells: FloatArray, named: tuple[bool, bool] = (False, False)
) -> tuple[FloatArray, tuple[int, int]]:
    """Neighbours added up until there are not too many, and how many, across and up.

    Names have no neighbours.
    """
    if cells.size <= MOST_MARKS:
        return cells, (1, 1)
    up, across = (
        1 if by_name else math.ceil(size / ALONG)
        for size, by_name in zip(cells.shape, named[::-1], strict=True)
    )
    padded = np.pad(cells, [(0, -cells.shape[0] % up), (0, -cells.shape[1] % across)])
    shape = (padded.shape[0] // up, up, padded.shape[1] // across, across)
    return padded.reshape(shape).sum(axis=(1, 3)), (across, up)


def shade_paths(cells: FloatArray, steps: Sequence[float]) -> list[tuple[str, str]]:
    """The squares of a table as one shape for each shade, the first row at the bottom.

    Neighbours of one shade in a row make one rectangle, so that a picture of thousands of cells
    stays small.
    """
    passed = np.searchsorted(np.asarray(steps), cells[::-1], side="right")
    return [
        (f"shade{shade_of(step, steps)}", "".join(_runs(passed == step)))
        for step in range(len(steps) + 1)
    ]


def _runs(marked: BoolArray) -> list[str]:
    """Rectangles that cover the marked cells of each row."""
    edges = np.diff(np.pad(marked.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    rows, starts = np.nonzero(edges == 1)
    ends = np.nonzero(edges == -1)[1]
    return [
        f"M{start} {row}h{end - start}v1h{start - end}z"
        for row, start, end in zip(rows.tolist(), starts.tolist(), ends.tolist(), strict=True)
    ]
