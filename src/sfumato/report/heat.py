"""Tables of counts as squares in shades: one with axes, or several beside each other."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from sfumato.report.drawing import LINE, SMALL, number
from sfumato.report.map_axes import MapSide, north, sided
from sfumato.report.picture import Picture
from sfumato.report.shading import coarser, shade_legend, shade_paths, shade_steps
from sfumato.report.text_width import text_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import FloatArray
    from sfumato.report.blocks import PageTable
    from sfumato.report.drawing import Drawing

_NAMES = 40
"""So many names have room along a side; of more, those with the highest counts are shown."""
_TILE = 132
_BELOW = 80.0
"""So many pixels have upright names below a tile."""
_GAP = 6


def heat(
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
    """Draw a table of counts, a row for each place of the second side, the first at the bottom.

    Names are read from the top down. Counts of at most `floor`, which may be noise alone, have the
    palest shade. Shades change at `steps`, or where the counts themselves say.
    """
    if sides[1].names:
        cells = cells[::-1]
        sides = (sides[0], sides[1]._replace(names=sides[1].names[::-1]))
    cells, sides, left_out = _largest(cells, sides)
    up, across = cells.shape
    cells, added = coarser(cells, named=(bool(sides[0].names), bool(sides[1].names)))
    if added != (1, 1):
        # As if the noise of cells were independent: it only decides where the palest shade ends.
        floor *= math.sqrt(added[0] * added[1])
        note = f"Each square adds up {added[0]} by {added[1]} cells. {note}".strip()
    steps = steps or shade_steps(cells, floor)
    size = (across / added[0], up / added[1])
    paint = partial(_paint_heat, cells, size, steps, sides, value)
    return Picture(label, table, paint, f"{left_out} {note}".strip())


def mosaic(
    tiles: Sequence[tuple[str, FloatArray]],
    *,
    label: str,
    table: PageTable,
    value: str = "Count",
    steps: Sequence[float] | None = None,
    names: tuple[Sequence[str], Sequence[str]] = ((), ()),
) -> Picture:
    """Draw several tables beside each other in the same shades, each above its name.

    `names` are those of columns from left to right and of rows from the top down; as many are shown
    as there is room for, and none where neighbours are added up.
    """
    drawn = [(name, coarser(cells)[0]) for name, cells in tiles]
    # By the first picture, so that a noisy one cannot make the others pale.
    steps = steps or shade_steps(drawn[0][1])
    if drawn[0][1].shape != (len(names[1]), len(names[0])):
        names = ((), ())
    return Picture(label, table, partial(_paint_tiles, drawn, steps, value, names))


def _largest(
    cells: FloatArray, sides: tuple[MapSide, MapSide]
) -> tuple[FloatArray, tuple[MapSide, MapSide], str]:
    """Of very many names those with the highest counts, in their order, and what was left out."""
    said = []
    kept = list(sides)
    for place, side in enumerate(sides):
        count = len(side.names)
        if count > _NAMES:
            totals = cells.sum(axis=place)
            chosen = np.sort(np.argsort(-totals, kind="stable")[:_NAMES])
            cells = np.take(cells, chosen, axis=1 - place)
            kept[place] = side._replace(names=[side.names[one] for one in chosen])
            said.append(f"Of {count:,} values of {side.title} the {_NAMES} highest are shown.")
    return cells, (kept[0], kept[1]), " ".join(said)


def _paint_heat(
    cells: FloatArray,
    size: tuple[float, float],
    steps: Sequence[float],
    sides: tuple[MapSide, MapSide],
    value: str,
    drawing: Drawing,
) -> None:
    frame = sided(drawing, sides)
    _paint_cells(drawing, cells, size, steps, (frame.left, frame.top, frame.width, frame.height))
    drawing.rectangle(frame.left, frame.top, frame.width, frame.height, "frame")
    north(drawing, frame, sides)
    drawing.height = drawing.legend(drawing.height, shade_legend(steps), value)


def _paint_cells(
    drawing: Drawing,
    cells: FloatArray,
    size: tuple[float, float],
    steps: Sequence[float],
    place: tuple[float, float, float, float],
) -> None:
    """The squares, stretched over a place; what is put together beyond the ends is cut off."""
    x, y, width, height = map(number, place)
    across, up = size
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
    columns = max(1, min(len(tiles), int(drawing.width / _TILE)))
    left = _room(names[1], 0.2 * drawing.width)
    below = _room(names[0], _BELOW)
    room = (drawing.width - left) / columns
    wide = room - 12
    top = SMALL / 2 if left else 0.0
    for start in range(0, len(tiles), columns):
        row = tiles[start : start + columns]
        high = max(wide * len(cells) / cells.shape[1] for _, cells in row)
        for place, (name, cells) in enumerate(row):
            at = (left + place * room, top, wide, wide * len(cells) / cells.shape[1])
            _paint_cells(drawing, cells, cells.shape[::-1], steps, at)
            drawing.rectangle(*at, "frame")
            _name_sides(drawing, at, (names[0], names[1] if place == 0 else ()), (below, left))
            drawing.text((at[0], top + high + below + 16), name, "name", room=wide)
        top += high + below + LINE + 10
    drawing.height = drawing.legend(top, shade_legend(steps), value)


def _room(names: Sequence[str], most: float) -> int:
    """The pixels that names take, with a gap; none where there are none."""
    widest = max((text_width(name, SMALL) for name in names), default=0.0)
    return math.ceil(min(widest, most)) + _GAP if names else 0


def _name_sides(
    drawing: Drawing,
    place: tuple[float, float, float, float],
    names: tuple[Sequence[str], Sequence[str]],
    rooms: tuple[int, int],
) -> None:
    """Names upright below a tile and to its left, as many as do not lie on each other."""
    x, y, width, height = place
    for at, name in _spread(names[0], width):
        below = (x + at + SMALL / 3, y + height + _GAP)
        drawing.text(below, name, room=rooms[0] - _GAP, anchor="end", upright=True)
    for at, name in _spread(names[1], height):
        drawing.text((x - _GAP, y + at + SMALL / 3), name, room=rooms[1] - _GAP, anchor="end")


def _spread(names: Sequence[str], length: float) -> list[tuple[float, str]]:
    """Names with their places along a side, every so many where there is not room for all."""
    if not names:
        return []
    each = length / len(names)
    step = max(1, math.ceil(LINE / each))
    return [((place + 0.5) * each, names[place]) for place in range(0, len(names), step)]
