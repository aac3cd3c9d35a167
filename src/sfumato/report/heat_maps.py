"""Heat maps: squares in shades with axes, several small maps beside each other, and maps of boxes.

Boxes are for instance the leaves of a quadtree, shaded by density.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sfumato.errors import ParameterError
from sfumato.report.axes import (
    ChartFrame,
    Dates,
    Linear,
    draw_x_axis,
    draw_y_axis,
    y_label_width,
)
from sfumato.report.drawing import LINE, SMALL, coordinate, text_width
from sfumato.report.palette import SHADES
from sfumato.report.picture import Picture
from sfumato.report.value_text import show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import BoolArray, FloatArray
    from sfumato.report.axes import Scale
    from sfumato.report.blocks import PageTable
    from sfumato.report.drawing import Drawing

    Area = tuple[float, float, float, float]  # left, top, width, height

MOST_CELLS = 10_000
"""A map with more cells is made coarser."""
COARSE_CELLS = 100
"""The most cells along each side of a map that was made coarser."""
_FACTOR = 6.0
"""If the largest count is this many times the smallest, shades change at equal ratios."""
_MOST_NAMES = 40
"""Along a side with more names, only those with the highest totals are shown."""
_HEIGHT = 320.0
_ROW_HEIGHT = 20.0
_LONGEST_NAME, _LONGEST_TILE_NAME = 120.0, 80.0
"""The most pixels for upright names below a map and below a tile."""
_NAME_HEIGHT = 15.0
"""The pixels between two names that are read in the same direction."""
_TILE_WIDTH = 132
_LONGITUDES = frozenset(("lon", "long", "lng", "longitude", "east", "easting"))
_LATITUDES = frozenset(("lat", "latitude", "north", "northing"))


class MapSide(NamedTuple):
    """A side of a map: its column, and either names in order or the ends of a scale."""

    title: str
    names: Sequence[str] = ()
    ends: tuple[float, float] = (0.0, 1.0)
    dates: bool = False

    @property
    def scale(self) -> Scale:
        """The scale along the side."""
        return (Dates if self.dates else Linear)(*self.ends)


def is_longitude(column: str) -> bool:
    """Return whether the name of a column says that it counts from west to east."""
    return column.lower() in _LONGITUDES


def is_latitude(column: str) -> bool:
    """Return whether the name of a column says that it counts from south to north."""
    return column.lower() in _LATITUDES


def is_geographic(sides: tuple[MapSide, MapSide]) -> bool:
    """Return whether east is to the right and north is up."""
    x, y = sides
    return not (x.names or y.names) and is_longitude(x.title) and is_latitude(y.title)


def is_in_degrees(sides: tuple[MapSide, MapSide]) -> bool:
    """Return whether a map shows degrees: lon and lat, but not easting and northing."""
    return is_geographic(sides) and all(side.title.lower().startswith("l") for side in sides)


def draw_heat_map(
    cells: FloatArray,
    sides: tuple[MapSide, MapSide],
    *,
    label: str,
    table: PageTable,
    value: str,
    floor: float = 0.0,
    steps: Sequence[float] | None = None,
    note: str = "",
) -> Picture:
    """Draw a table of numbers as squares in shades, with axes.

    Parameters
    ----------
    cells:
        One row for each position of the second side. The first row is drawn at the bottom; where
        the second side has names, it is drawn at the top, as names are read downwards.
    floor:
        Numbers up to this may be noise alone; they have the palest shade.
    steps:
        Where the shades change; by default the numbers themselves decide.
    """
    cells, sides, omitted = _keep_largest(cells, sides)
    if sides[1].names:
        cells = cells[::-1]
    rows, columns = cells.shape
    cells, (across, up) = coarsen(cells, named=(bool(sides[0].names), bool(sides[1].names)))
    if (across, up) != (1, 1):
        # As if the noise of cells were independent; this only decides where the palest shade ends.
        floor *= math.sqrt(across * up)
        note = f"Each square adds up {across} by {up} cells. {note}".strip()
    steps = steps or shade_steps(cells, floor)
    size = (columns / across, rows / up)
    paint = partial(_paint_heat_map, cells, size, steps, sides, value)
    return Picture(label, table, paint, f"{omitted} {note}".strip())


def draw_tiles(
    tiles: Sequence[tuple[str, FloatArray]],
    *,
    label: str,
    table: PageTable,
    value: str = "Count",
    steps: Sequence[float] | None = None,
    names: tuple[Sequence[str], Sequence[str]] = ((), ()),
) -> Picture:
    """Draw several tables of numbers beside each other in the same shades, each above its name.

    `names` are those of columns from left to right and of rows from the top down. As many are shown
    as there is room for, and none where neighbours are added up.
    """
    coarse = [(name, coarsen(cells)[0]) for name, cells in tiles]
    # The first tile decides the shades, so that a noisy one cannot make the others pale.
    steps = steps or shade_steps(coarse[0][1])
    if coarse[0][1].shape != (len(names[1]), len(names[0])):
        names = ((), ())
    return Picture(label, table, partial(_paint_tiles, coarse, steps, value, names))


def shade_steps(values: FloatArray, floor: float = 0.0) -> list[float]:
    """Return at most five round values at which shades change; up to `floor` the first shade holds.

    The steps have equal ratios if numbers differ much, so that a few large ones do not leave the
    rest pale.
    """
    visible = values[values > floor]
    if not visible.size:
        return [max(floor, 0.0) or 1.0]
    # Quantiles instead of the extremes: a single outlier must not decide the shades of all cells.
    low, high = (float(end) for end in np.quantile(visible, (0.05, 0.95)))
    largest = float(visible.max())
    # One step less than shades.
    count = len(SHADES) - 1
    if largest > _FACTOR * low:
        exact = np.geomspace(low, max(high, min(largest, _FACTOR * low)), count)
    else:
        exact = np.linspace(0, largest, count + 2)[1:-1]
    for digits in (1, 2, 3):
        # The first step is rounded down, so that rounding moves no number below it.
        unit = 10.0 ** (math.floor(math.log10(exact[0])) - digits + 1)
        first = math.floor(float(exact[0]) / unit + 1e-9) * unit
        steps = [float(f"{step:.{digits - 1}e}") for step in (first, *exact[1:])]
        if len(set(steps)) == count:
            break
    return list(dict.fromkeys(steps))


def shade_legend(steps: Sequence[float]) -> list[tuple[str, str]]:
    """Return the class of each shade, with its range of values in words."""
    labels = [
        f"below {show(steps[0])}",
        *(f"{show(low)} to {show(high)}" for low, high in pairwise(steps)),
        f"{show(steps[-1])} and more",
    ]
    return [(f"shade{shade_of(step, steps)}", text) for step, text in enumerate(labels)]


def shade_of(passed: int, steps: Sequence[float]) -> int:
    """Return the shade of a value that is above so many steps; above all it is the fullest."""
    return round(passed * (len(SHADES) - 1) / len(steps))


def coarsen(
    cells: FloatArray, named: tuple[bool, bool] = (False, False)
) -> tuple[FloatArray, tuple[int, int]]:
    """Add up neighbouring cells down to `MOST_CELLS`.

    Returns the cells, and how many make one across and up. A `named` side stays unchanged.
    """
    if cells.size <= MOST_CELLS:
        return cells, (1, 1)
    up, across = (
        1 if by_name else math.ceil(size / COARSE_CELLS)
        for size, by_name in zip(cells.shape, named[::-1], strict=True)
    )
    # Zeros fill the last, incomplete square; `_paint_cells` cuts the padding off.
    padded = np.pad(cells, [(0, -cells.shape[0] % up), (0, -cells.shape[1] % across)])
    shape = (padded.shape[0] // up, up, padded.shape[1] // across, across)
    return padded.reshape(shape).sum(axis=(1, 3)), (across, up)


def shade_paths(cells: FloatArray, steps: Sequence[float]) -> list[tuple[str, str]]:
    """Return the cells as one path for each shade, the first row at the bottom.

    Neighbours of one shade in a row make one rectangle, so that thousands of cells stay small.
    """
    # Reversed because pixels count downwards.
    passed = np.searchsorted(np.asarray(steps), cells[::-1], side="right")
    return [
        (f"shade{shade_of(step, steps)}", "".join(_row_runs(passed == step)))
        for step in range(len(steps) + 1)
    ]


def _row_runs(marked: BoolArray) -> list[str]:
    """Return rectangles that cover the marked cells of each row."""
    # A run starts where the mask rises from 0 to 1 and ends where it falls.
    edges = np.diff(np.pad(marked.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    rows, starts = np.nonzero(edges == 1)
    ends = np.nonzero(edges == -1)[1]
    return [
        f"M{start} {row}h{end - start}v1h{start - end}z"
        for row, start, end in zip(rows.tolist(), starts.tolist(), ends.tolist(), strict=True)
    ]


def _keep_largest(
    cells: FloatArray, sides: tuple[MapSide, MapSide]
) -> tuple[FloatArray, tuple[MapSide, MapSide], str]:
    """Keep the names with the highest totals, in their order; return a note about the others."""
    notes = []
    shown = list(sides)
    for index, side in enumerate(sides):
        count = len(side.names)
        if count > _MOST_NAMES:
            totals = cells.sum(axis=index)
            largest = np.sort(np.argsort(-totals, kind="stable")[:_MOST_NAMES])
            cells = np.take(cells, largest, axis=1 - index)
            shown[index] = side._replace(names=[side.names[name] for name in largest])
            notes.append(
                f"The {_MOST_NAMES} highest of {count:,} values of {side.title} are shown."
            )
    return cells, (shown[0], shown[1]), " ".join(notes)


def draw_map_frame(drawing: Drawing, sides: tuple[MapSide, MapSide]) -> ChartFrame:
    """Draw the sides of a map and return its area; a geographic map keeps the shape of the land."""
    x, y = sides
    left = _room_left(y.names, 0.34 * drawing.width) or y_label_width(y.scale, _HEIGHT)
    width = drawing.width - left - 8
    frame = ChartFrame(left, LINE + 8.0, width, _map_height(sides, width), x.scale, y.scale)
    area = (frame.left, frame.top, frame.width, frame.height)
    drawing.text((0, SMALL + 2), y.title, room=drawing.width)
    if y.names:
        _draw_names(drawing, y.names, area, left - 8, below=False)
    else:
        draw_y_axis(drawing, frame, grid=False)
    if not x.names:
        drawing.height = draw_x_axis(drawing, frame, x.title)
        return frame
    bottom = frame.bottom + _draw_names(drawing, x.names, area, _LONGEST_NAME, below=True)
    middle = frame.left + frame.width / 2
    drawing.text((middle, bottom + 16), x.title, room=frame.width, anchor="middle")
    drawing.height = bottom + LINE + 4
    return frame


def _room_left(names: Sequence[str], most: float) -> float:
    """Return the pixels that names to the left of an area take, with a gap; none without names."""
    widest = max((text_width(name, SMALL) for name in names), default=0.0)
    return min(widest, most) + 8 if names else 0.0


def _map_height(sides: tuple[MapSide, MapSide], width: float) -> float:
    x, y = sides
    if y.names:
        return _ROW_HEIGHT * len(y.names)
    if not is_geographic(sides):
        return min(_HEIGHT, width)
    (west, east), (south, north) = x.ends, y.ends
    land_width = east - west
    if is_in_degrees(sides):
        # A degree of longitude is shorter towards the poles: by the cosine of the latitude.
        land_width *= max(0.2, math.cos(math.radians((south + north) / 2)))
    return max(120.0, min(width, width * (north - south) / land_width))


def _draw_names(
    drawing: Drawing, names: Sequence[str], area: Area, room: float, *, below: bool
) -> float:
    """Draw names below an area or to its left; return the height that names below it take.

    Names below stand upright if they have no room side by side. If even upright names or those to
    the left would overlap, only every second or third is drawn.
    """
    if not names:
        return 0.0
    x, y, width, height = area
    spacing = (width if below else height) / len(names)
    widest = max(text_width(name, SMALL) for name in names)
    upright = below and widest > spacing - 6
    step = 1 if below and not upright else max(1, math.ceil(_NAME_HEIGHT / spacing))
    for index in range(0, len(names), step):
        name, middle = names[index], (index + 0.5) * spacing
        if not below:
            drawing.text((x - 8, y + middle + 4), name, room=room, anchor="end")
        elif upright:
            start = (x + middle + 4, y + height + 8)
            drawing.text(start, name, room=room, anchor="end", upright=True)
        else:
            drawing.text((x + middle, y + height + 16), name, anchor="middle")
    return min(widest, room) + 12 if upright else LINE


def finish_map(
    drawing: Drawing,
    frame: ChartFrame,
    sides: tuple[MapSide, MapSide],
    steps: Sequence[float],
    value: str,
) -> None:
    """Draw the border of a map, an arrow to the north where it is one of land, and the legend."""
    drawing.rectangle(frame.left, frame.top, frame.width, frame.height, "frame")
    if is_geographic(sides):
        x, y = coordinate(frame.right - 6), coordinate(frame.top - 20)
        drawing.path(f"M{x} {y}l6 16l-6 -4l-6 4z", "arrow")
        drawing.text((frame.right - 18, frame.top - 8), "N", "name", anchor="end")
    drawing.height = drawing.legend(drawing.height, shade_legend(steps), value)


def _paint_heat_map(
    cells: FloatArray,
    size: tuple[float, float],
    steps: Sequence[float],
    sides: tuple[MapSide, MapSide],
    value: str,
    drawing: Drawing,
) -> None:
    frame = draw_map_frame(drawing, sides)
    _paint_cells(drawing, cells, size, steps, (frame.left, frame.top, frame.width, frame.height))
    finish_map(drawing, frame, sides, steps, value)


def _paint_cells(
    drawing: Drawing,
    cells: FloatArray,
    size: tuple[float, float],
    steps: Sequence[float],
    area: Area,
) -> None:
    """Draw the squares over an area; padding from coarsening, beyond `size`, is cut off."""
    x, y, width, height = map(coordinate, area)
    across, up = size
    # A nested SVG in units of cells: crisp edges, and paths of small whole numbers.
    drawing.add(
        f'<svg x="{x}" y="{y}" width="{width}" height="{height}" preserveAspectRatio="none" '
        f'viewBox="0 {len(cells) - up:.6g} {across:.6g} {up:.6g}" shape-rendering="crispEdges">'
    )
    for kind, shape in shade_paths(cells, steps):
        drawing.path(shape, kind)
    drawing.add("</svg>")


def _paint_tiles(
    tiles: Sequence[tuple[str, FloatArray]],
    steps: Sequence[float],
    value: str,
    names: tuple[Sequence[str], Sequence[str]],
    drawing: Drawing,
) -> None:
    columns = max(1, min(len(tiles), int(drawing.width / _TILE_WIDTH)))
    left = _room_left(names[1], 0.2 * drawing.width)
    room = (drawing.width - left) / columns
    width = room - 12
    top = SMALL / 2 if left else 0.0
    for start in range(0, len(tiles), columns):
        tile_row = tiles[start : start + columns]
        bottom = top + max(width * len(cells) / cells.shape[1] for _, cells in tile_row)
        below = 0.0
        for position, (name, cells) in enumerate(tile_row):
            height = width * len(cells) / cells.shape[1]
            area = (left + position * room, top, width, height)
            _paint_cells(drawing, cells, cells.shape[::-1], steps, area)
            drawing.rectangle(*area, "frame")
            if position == 0:
                _draw_names(drawing, names[1], area, left - 8, below=False)
            below = _draw_names(drawing, names[0], area, _LONGEST_TILE_NAME, below=True)
            drawing.text((area[0], bottom + below + 16), name, "name", room=width)
        top = bottom + below + LINE + 10
    drawing.height = drawing.legend(top, shade_legend(steps), value)


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
    # Density, not the count: a large box with many rows may be empty land.
    density = counts / ((right - left) * (top - bottom))
    steps = shade_steps(density)
    paint = partial(_paint_boxes, edges[:4], density, steps, sides, f"Count per {unit}")
    return Picture(label, table, paint, note)


def _spread_over_grid(boxes: Sequence[MapBox], sides: tuple[MapSide, MapSide]) -> Sequence[MapBox]:
    """Return a grid of squares, each with its share of every box that it overlaps."""
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
    """Return the share of each stretch that lies between each two neighbouring edges."""
    # The overlap of two intervals; negative if they are apart.
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
