"""The sides of a map: columns with names or with a scale, and which way is north."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from sfumato.report.axes import ChartFrame, draw_across, draw_up, upright_room
from sfumato.report.drawing import LINE, SMALL, number
from sfumato.report.scales import Dates, Linear
from sfumato.report.text_width import text_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.report.drawing import Drawing
    from sfumato.report.scales import Scale

_HEIGHT = 320.0
_ROW = 20.0
_LONGEST = 120.0
"""Names that stand upright below a map have so many pixels."""
_UPRIGHT = 15.0
"""And each needs so many beside it."""
_LONGITUDES = frozenset(("lon", "long", "lng", "longitude", "east", "easting"))
_LATITUDES = frozenset(("lat", "latitude", "north", "northing"))
_DEGREES = "l"
"""How the names of columns in degrees begin."""


class MapSide(NamedTuple):
    """A side of a map: its column, and either names in order or the ends of a scale."""

    title: str
    names: Sequence[str] = ()
    ends: tuple[float, float] = (0.0, 1.0)
    dates: bool = False

    @property
    def scale(self) -> Scale:
        """Where values lie along the side."""
        return (Dates if self.dates else Linear)(*self.ends)


def is_longitude(column: str) -> bool:
    """Whether a column by its name counts from west to east."""
    return column.lower() in _LONGITUDES


def is_latitude(column: str) -> bool:
    """Whether a column by its name counts from south to north."""
    return column.lower() in _LATITUDES


def in_degrees(sides: tuple[MapSide, MapSide]) -> bool:
    """Whether a map is one of the earth, in degrees."""
    return is_map(sides) and all(side.title.lower().startswith(_DEGREES) for side in sides)


def is_map(sides: tuple[MapSide, MapSide]) -> bool:
    """Whether east is to the right and north is up."""
    x, y = sides
    return not (x.names or y.names) and is_longitude(x.title) and is_latitude(y.title)


def sided(drawing: Drawing, sides: tuple[MapSide, MapSide]) -> ChartFrame:
    """Draw the sides around a place for squares; a map has the shape of the land."""
    x, y = sides
    if y.names:
        widest = max(text_width(name, SMALL) for name in y.names)
        left = min(widest, 0.34 * drawing.width) + 8
    else:
        left = upright_room(y.scale, _HEIGHT)
    top = LINE + 8.0
    width = drawing.width - left - 8
    frame = ChartFrame(left, top, width, _height(sides, width), x.scale, y.scale)
    drawing.text((0, SMALL + 2), y.title, room=drawing.width)
    if y.names:
        for place, name in enumerate(y.names):
            at = frame.bottom - (place + 0.5) * frame.height / len(y.names)
            drawing.text((left - 8, at + 4), name, room=left - 8, anchor="end")
    else:
        draw_up(drawing, frame, grid=False)
    if x.names:
        drawing.height = _names_below(drawing, frame, x)
    else:
        drawing.height = draw_across(drawing, frame, x.title)
    return frame


def _height(sides: tuple[MapSide, MapSide], width: float) -> float:
    x, y = sides
    if y.names:
        return _ROW * len(y.names)
    if not is_map(sides):
        return min(_HEIGHT, width)
    (west, east), (south, north_end) = x.ends, y.ends
    wide = east - west
    if in_degrees(sides):
        # A degree of longitude is the shorter the further north it is.
        wide *= max(0.2, math.cos(math.radians((south + north_end) / 2)))
    return max(120.0, min(width, width * (north_end - south) / wide))


def _names_below(drawing: Drawing, frame: ChartFrame, side: MapSide) -> float:
    """The names of columns, upright where they have no room side by side; the new bottom."""
    each = frame.width / len(side.names)
    widest = max(text_width(name, SMALL) for name in side.names)
    upright = widest > each - 6
    room = min(widest, _LONGEST)
    step = max(1, math.ceil(_UPRIGHT / each)) if upright else 1
    for place in range(0, len(side.names), step):
        centre = frame.left + (place + 0.5) * each
        if upright:
            at = (centre + 4, frame.bottom + 8)
            drawing.text(at, side.names[place], room=room, anchor="end", upright=True)
        else:
            drawing.text((centre, frame.bottom + 16), side.names[place], anchor="middle")
    bottom = frame.bottom + (room + 12 if upright else LINE)
    middle = frame.left + frame.width / 2
    drawing.text((middle, bottom + 16), side.title, room=frame.width, anchor="middle")
    return bottom + LINE + 4


def north(drawing: Drawing, frame: ChartFrame, sides: tuple[MapSide, MapSide]) -> None:
    """Draw an arrow to the north on a map of land, outside of it."""
    if is_map(sides):
        x, y = number(frame.left + frame.width - 6), number(frame.top - 20)
        drawing.path(f"M{x} {y}l6 16l-6 -4l-6 4z", "arrow")
        drawing.text((frame.left + frame.width - 18, frame.top - 8), "N", "name", anchor="end")
