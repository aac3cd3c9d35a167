"""Maps of boxes, such as the leaves of a quadtree, shaded by how densely each is filled."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sfumato.errors import ParameterError
from sfumato.report.heat_maps import (
    COARSE_CELLS,
    MOST_CELLS,
    draw_map_frame,
    finish_map,
    is_in_degrees,
    shade_of,
    shade_steps,
)
from sfumato.report.picture import Picture

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import FloatArray
    from sfumato.report.blocks import PageTable
    from sfumato.report.drawing import Drawing
    from sfumato.report.heat_maps import MapSide


class MapBox(NamedTuple):
    """A box of a map by its edges, and the number of rows counted in it."""

    left: float
    right: float
    bottom: float
    top: float
    rows: float


def draw_box_map(
    boxes: Sequence[MapBox],
    sides: tuple[MapSide, MapSide],
    *,
    label: str,
    table: PageTable,
    note: str = "",
) -> Picture:
    """Draw boxes shaded by density, the count per unit of area.

    Noisy counts of zero and below have the palest shade.
    """
    for box in boxes:
        if not (all(map(math.isfinite, box)) and box.left < box.right and box.bottom < box.top):
            raise ParameterError(
                "array_invalid",
                f"A map cannot show the box {tuple(box)}. Pass finite edges, with left below right "
                "and bottom below top.",
            )
    x, y = (side.title for side in sides)
    unit = "square degree" if is_in_degrees(sides) else f"unit of {x} and {y}"
    if len(boxes) > MOST_CELLS:
        size = COARSE_CELLS
        note = f"The {len(boxes):,} boxes are drawn as {size} by {size} squares. {note}".strip()
        boxes = _spread_over_grid(boxes, sides)
    edges = np.array(boxes, dtype=np.float64).T
    left, right, bottom, top, counts = edges
    density = counts / ((right - left) * (top - bottom))
    steps = shade_steps(density)
    paint = partial(_paint_boxes, edges[:4], density, steps, sides, f"Count per {unit}")
    return Picture(label, table, paint, note)


def _spread_over_grid(boxes: Sequence[MapBox], sides: tuple[MapSide, MapSide]) -> Sequence[MapBox]:
    """A grid of squares, each with its share of every box that it overlaps."""
    left, right, bottom, top, counts = np.array(boxes, dtype=np.float64).T
    x_edges, y_edges = (np.linspace(*side.ends, COARSE_CELLS + 1) for side in sides)
    cells = np.zeros((COARSE_CELLS, COARSE_CELLS))
    for start in range(0, len(counts), MOST_CELLS):  # in parts, to bound the memory
        batch = slice(start, start + MOST_CELLS)
        across = _overlap_shares(left[batch], right[batch], x_edges)
        up = _overlap_shares(bottom[batch], top[batch], y_edges)
        cells += across.T @ (up * counts[batch, None])
    x, y = x_edges.tolist(), y_edges.tolist()
    return [
        MapBox(x[i], x[i + 1], y[j], y[j + 1], float(cells[i, j]))
        for i in range(COARSE_CELLS)
        for j in range(COARSE_CELLS)
    ]


def _overlap_shares(lows: FloatArray, highs: FloatArray, edges: FloatArray) -> FloatArray:
    """The share of each stretch that lies between each two neighbouring edges."""
    inside = np.minimum(highs[:, None], edges[1:]) - np.maximum(lows[:, None], edges[:-1])
    return np.asarray(np.clip(inside, 0, None) / (highs - lows)[:, None])


def _paint_boxes(
    edges: FloatArray,
    density: FloatArray,
    steps: Sequence[float],
    sides: tuple[MapSide, MapSide],
    value: str,
    drawing: Drawing,
) -> None:
    frame = draw_map_frame(drawing, sides)
    left, right, bottom, top = edges
    passed = np.searchsorted(np.asarray(steps), density, side="right")
    # Whole pixels, so that neighbours meet and the background does not shine through.
    x1, x2 = np.rint(frame.x(left)), np.rint(frame.x(right))
    y1, y2 = np.rint(frame.y(top)), np.rint(frame.y(bottom))
    # The smallest boxes are the densest: each keeps a pixel and is drawn over the paler ones.
    widths, heights = np.maximum(x2 - x1, 1), np.maximum(y2 - y1, 1)
    for step in range(len(steps) + 1):
        chosen = (values[passed == step].tolist() for values in (x1, y1, widths, heights))
        shape = (
            f"M{x:.0f} {y:.0f}h{width:.0f}v{height:.0f}h{-width:.0f}z"
            for x, y, width, height in zip(*chosen, strict=True)
        )
        drawing.path("".join(shape), f"shade{shade_of(step, steps)}")
    finish_map(drawing, frame, sides, steps, value)
