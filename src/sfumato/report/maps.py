"""Maps of boxes, shaded by how densely each is filled."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sfumato.errors import ParameterError
from sfumato.report.map_axes import in_degrees, north, sided
from sfumato.report.picture import Picture
from sfumato.report.shading import ALONG, MOST_MARKS, shade_legend, shade_of, shade_steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import FloatArray
    from sfumato.report.blocks import PageTable
    from sfumato.report.drawing import Drawing
    from sfumato.report.map_axes import MapSide


class Rectangle(NamedTuple):
    """A box of a map, from edge to edge, and how many are counted in it (its mass)."""

    left: float
    right: float
    bottom: float
    top: float
    mass: float

    @property
    def density(self) -> float:
        """The count for one unit of area."""
        return self.mass / ((self.right - self.left) * (self.top - self.bottom))


def boxes_map(
    rectangles: Sequence[Rectangle],
    sides: tuple[MapSide, MapSide],
    *,
    label: str,
    table: PageTable,
    note: str = "",
) -> Picture:
    """Draw boxes shaded by density.

    Noisy counts of zero and below have the palest shade, as all have if nothing is above zero.
    """
    for one in rectangles:
        if not (all(map(math.isfinite, one)) and one.left < one.right and one.bottom < one.top):
            raise ParameterError(
                "map_box_flat",
                f"A map cannot show the box {tuple(one)}: it needs finite edges, the left and "
                "bottom ones below the right and top ones.",
            )
    x, y = (side.title for side in sides)
    per_area = "Count per square degree" if in_degrees(sides) else f"Count per unit of {x} and {y}"
    drawn, together = _squared(rectangles, sides)
    steps = shade_steps(np.array([one.density for one in drawn]))
    paint = partial(_paint_boxes, drawn, steps, sides, per_area)
    return Picture(label, table, paint, f"{together} {note}".strip())


def _squared(
    rectangles: Sequence[Rectangle], sides: tuple[MapSide, MapSide]
) -> tuple[Sequence[Rectangle], str]:
    """The boxes, or squares with their shares of them where they are too many for a picture."""
    if len(rectangles) <= MOST_MARKS:
        return rectangles, ""
    left, right, bottom, top, mass = np.array(rectangles, dtype=np.float64).T
    edges = [np.linspace(*side.ends, ALONG + 1) for side in sides]
    cells = np.zeros((ALONG, ALONG))
    for start in range(0, len(mass), MOST_MARKS):
        part = slice(start, start + MOST_MARKS)
        across = _overlap(left[part], right[part], edges[0])
        up = _overlap(bottom[part], top[part], edges[1])
        cells += across.T @ (up * mass[part, None])
    x, y = (one.tolist() for one in edges)
    squares = [
        Rectangle(x[i], x[i + 1], y[j], y[j + 1], float(cells[i, j]))
        for i in range(ALONG)
        for j in range(ALONG)
    ]
    return squares, f"The {len(rectangles):,} boxes are drawn as {ALONG} by {ALONG} squares."


def _overlap(lows: FloatArray, highs: FloatArray, edges: FloatArray) -> FloatArray:
    """The share of each stretch that lies between each two edges."""
    inside = np.minimum(highs[:, None], edges[1:]) - np.maximum(lows[:, None], edges[:-1])
    return np.asarray(np.clip(inside, 0, None) / (highs - lows)[:, None])


def _paint_boxes(
    rectangles: Sequence[Rectangle],
    steps: Sequence[float],
    sides: tuple[MapSide, MapSide],
    value: str,
    drawing: Drawing,
) -> None:
    frame = sided(drawing, sides)
    left, right, bottom, top, mass = np.array(rectangles, dtype=np.float64).T
    density = mass / ((right - left) * (top - bottom))
    passed = np.searchsorted(np.asarray(steps), density, side="right")
    # Whole pixels, as on the screen: neighbours meet, and nothing shines through between them.
    x1, x2 = (np.rint(frame.across(one)) for one in (left, right))
    y1, y2 = (np.rint(frame.up(one)) for one in (top, bottom))
    # The smallest boxes are the densest: each is seen, and drawn over the paler ones.
    widths, heights = np.maximum(x2 - x1, 1), np.maximum(y2 - y1, 1)
    for step in range(len(steps) + 1):
        shape = [
            f"M{x:.0f} {y:.0f}h{width:.0f}v{height:.0f}h{-width:.0f}z"
            for x, y, width, height in zip(
                *(one[passed == step].tolist() for one in (x1, y1, widths, heights)),
                strict=True,
            )
        ]
        drawing.path("".join(shape), f"shade{shade_of(step, steps)}")
    drawing.rectangle(frame.left, frame.top, frame.width, frame.height, "frame")
    north(drawing, frame, sides)
    drawing.height = drawing.legend(drawing.height, shade_legend(steps), value)
