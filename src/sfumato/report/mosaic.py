"""Tables of counts as pictures: one square a cell, in shades that all pictures of a row share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.report.charts import SHADES, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def steps(largest: float) -> list[float]:
    """The values from which the shades begin: 1 or a little, then by equal factors to the top."""
    top = max(largest, len(SHADES))
    return [float(step) for step in np.geomspace(1, top, len(SHADES) + 1)[:-1]]


def draw(cells: NDArray[np.float64], begins: Sequence[float]) -> str:
    """Draw one table, its first row at the bottom, as the inside of an SVG element.

    Neighbours of one shade in a row make one rectangle, and each shade is one path, so that a
    picture of thousands of cells stays small. What is below the first step stays blank.
    """
    shades = np.searchsorted(np.asarray(begins), cells[::-1], side="right")
    paths = []
    for shade, colour in enumerate(SHADES, start=1):
        runs = "".join(_runs(shades == shade))
        if runs:
            paths.append(f'<path fill="{colour}" d="{runs}"/>')
    return "".join(paths)


def legend(begins: Sequence[float]) -> list[tuple[str, str]]:
    """The colour of each shade and the count from which it begins."""
    return [
        (colour, f"{show(round(one))} or more") for colour, one in zip(SHADES, begins, strict=True)
    ]


def _runs(marked: NDArray[np.bool_]) -> list[str]:
    """Rectangles that cover the marked cells of each row."""
    edges = np.diff(np.pad(marked.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    rows, starts = np.nonzero(edges == 1)
    ends = np.nonzero(edges == -1)[1]
    return [
        f"M{start} {row}h{end - start}v1h{start - end}z"
        for row, start, end in zip(rows.tolist(), starts.tolist(), ends.tolist(), strict=True)
    ]
