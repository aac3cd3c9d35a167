"""Maps of counts: boxes shaded by how densely they are filled, tables with one square a cell."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sfumato.errors import ParameterError
from sfumato.report.blocks import Chart, PageTable
from sfumato.report.charts import SHADES, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

DECADES = 4
"""The shades go down to one part in ten thousand of the densest box; the palest is all below."""
_LISTED = 10
_DENSITY = "Count per area"


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


def boxes_map(rectangles: Sequence[Rectangle], *, label: str, x: str, y: str) -> Chart:
    """Draw boxes shaded by density on a logarithmic scale, with the densest of them as a table.

    Noisy counts of zero and below have the palest shade, as all have if nothing is above zero.
    """
    for one in rectangles:
        if not (all(map(math.isfinite, one)) and one.left < one.right and one.bottom < one.top):
            raise ParameterError(
                "map_box_flat",
                f"A map cannot show the box {tuple(one)}: it needs finite edges, the left and "
                "bottom ones below the right and top ones.",
            )
    densest = max((one.density for one in rectangles), default=0.0)
    most = densest if densest > 0 else 1.0
    least = most / 10**DECADES
    shade = {
        "field": "density",
        "type": "quantitative",
        "title": _DENSITY,
        "scale": {"type": "log", "domain": [least, most], "range": list(SHADES)},
        "legend": {"orient": "bottom", "format": "~g", "tickCount": DECADES + 1},
    }
    spec = {
        "data": {
            "values": [
                {**one._asdict(), "density": min(max(one.density, least), most)}
                for one in rectangles
            ]
        },
        "height": 360,
        "mark": {"type": "rect", "strokeWidth": 0.5},
        "encoding": {
            "x": _edge("left", x),
            "x2": {"field": "right"},
            "y": _edge("bottom", y),
            "y2": {"field": "top"},
            "fill": shade,
            # A line of the same shade, or the ground would shine through between boxes.
            "stroke": {**shade, "legend": None},
        },
    }
    listed = sorted(rectangles, key=lambda one: -one.density)[:_LISTED]
    rows = [
        (f"{show(one.left)} to {show(one.right)}", f"{show(one.bottom)} to {show(one.top)}",
         show(one.mass), show(one.density))
        for one in listed
    ]  # fmt: skip
    return Chart(
        spec, label, PageTable(f"{label}: the densest boxes", (x, y, "Count", _DENSITY), rows)
    )


def _edge(field: str, title: str) -> dict[str, object]:
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "scale": {"zero": False, "nice": False},
        "axis": {"grid": False, "tickCount": 6},
    }


def shade_steps(largest: float) -> list[float]:
    """The values from which the shades begin: 1 or a little, then by equal factors to the top."""
    top = max(largest, len(SHADES))
    return [float(step) for step in np.geomspace(1, top, len(SHADES) + 1)[:-1]]


def draw_tile(cells: NDArray[np.float64], begins: Sequence[float]) -> str:
    """Draw one table, its first row at the bottom, as the inside of an SVG element.

    Neighbours of one shade in a row make one rectangle, and each shade is one path, so that a
    picture of thousands of cells stays small. What is below the first step stays blank.
    """
    shades = np.searchsorted(np.asarray(begins), cells[::-1], side="right")
    paths = []
    for shade, colour in enumerate(SHADES, start=1):
        runs = "".join(_rectangles_of(shades == shade))
        if runs:
            paths.append(f'<path fill="{colour}" d="{runs}"/>')
    return "".join(paths)


def shade_legend(begins: Sequence[float]) -> list[tuple[str, str]]:
    """The colour of each shade and the count from which it begins."""
    return [
        (colour, f"{show(round(one))} or more") for colour, one in zip(SHADES, begins, strict=True)
    ]


def _rectangles_of(marked: NDArray[np.bool_]) -> list[str]:
    """Rectangles that cover the marked cells of each row."""
    edges = np.diff(np.pad(marked.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    rows, starts = np.nonzero(edges == 1)
    ends = np.nonzero(edges == -1)[1]
    return [
        f"M{start} {row}h{end - start}v1h{start - end}z"
        for row, start, end in zip(rows.tolist(), starts.tolist(), ends.tolist(), strict=True)
    ]
