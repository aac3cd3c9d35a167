"""Maps of counted boxes: rectangles shaded by how densely they are filled."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from sfumato.errors import ParameterError
from sfumato.report.blocks import Chart, Table
from sfumato.report.charts import SHADES, show

if TYPE_CHECKING:
    from collections.abc import Sequence

DECADES = 4
"""The shades go down to one part in ten thousand of the densest box; the palest is all below."""
_LISTED = 10


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
    rectangles: Sequence[Rectangle], *, label: str, x: str, y: str, value: str = "Count per area"
) -> Chart:
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
        "title": value,
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
    return Chart(spec, label, Table(f"{label}: the densest boxes", (x, y, "Count", value), rows))


def _edge(field: str, title: str) -> dict[str, object]:
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "scale": {"zero": False, "nice": False},
        "axis": {"grid": False, "tickCount": 6},
    }
