"""A share of people, drawn as a hundred people."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sfumato.report.bars import check_finite
from sfumato.report.blocks import PageTable
from sfumato.report.drawing import LINE, coordinate
from sfumato.report.picture import Picture

if TYPE_CHECKING:
    from sfumato.report.drawing import Drawing


def draw_people(share: float, *, label: str, inside: str, outside: str) -> Picture:
    """Draw a hundred people, a `share` of them in full tone and the rest faint."""
    check_finite([(label, share)])
    count = round(100 * share)
    rows = [(inside, count), (outside, 100 - count)]
    table = PageTable(label, ("Of 100 people", "Count"), rows)
    return Picture(label, table, partial(_paint_people, count, inside, outside))


def _paint_people(count: int, inside: str, outside: str, drawing: Drawing) -> None:
    column = drawing.width / 10
    size, row = 0.34 * column, 0.8 * column
    for kind, people in (("tone0", range(count)), ("faint", range(count, 100))):
        shapes = (
            _person((index % 10 + 0.5) * column, (index // 10 + 0.55) * row, size)
            for index in people
        )
        drawing.path("".join(shapes), kind)
    bottom = drawing.legend(10 * row + 4, [("tone0", inside)])
    drawing.height = drawing.legend(bottom, [("faint", outside)]) + LINE / 4


def _person(x: float, y: float, size: float) -> str:
    """A head above shoulders."""
    half_width = 0.72 * size
    head, radius_x, radius_y = map(coordinate, (0.42 * size, half_width, 0.55 * size))
    up, down, width = map(coordinate, (-0.5 * size, 0.5 * size, 2 * half_width))
    return (
        f"M{coordinate(x)} {coordinate(y - 1.05 * size)}a{head} {head} 0 1 1 -.01 0z"
        f"M{coordinate(x - half_width)} {coordinate(y + size)}v{up}"
        f"a{radius_x} {radius_y} 0 0 1 {width} 0v{down}z"
    )
