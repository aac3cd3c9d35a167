"""A share of people as a hundred people."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sfumato.report.blocks import PageTable
from sfumato.report.charts import Bar, check_finite
from sfumato.report.drawing import LINE, number
from sfumato.report.picture import Picture

if TYPE_CHECKING:
    from sfumato.report.drawing import Drawing


def crowd(share: float, *, label: str, inside: str, outside: str) -> Picture:
    """Draw a hundred people, of whom `share` stand out while the rest melt into the ground."""
    check_finite([Bar(label, share)])
    count = round(100 * share)
    rows = [(inside, count), (outside, 100 - count)]
    table = PageTable(label, ("Of 100 people", "Count"), rows)
    return Picture(label, table, partial(_paint_crowd, count, inside, outside))


def _paint_crowd(count: int, inside: str, outside: str, drawing: Drawing) -> None:
    each = drawing.width / 10
    size, row = 0.34 * each, 0.8 * each
    for kind, people in (("tone0", range(count)), ("faint", range(count, 100))):
        shapes = (_person((p % 10 + 0.5) * each, (p // 10 + 0.55) * row, size) for p in people)
        drawing.path("".join(shapes), kind)
    bottom = drawing.legend(10 * row + 4, [("tone0", inside)])
    drawing.height = drawing.legend(bottom, [("faint", outside)]) + LINE / 4


def _person(x: float, y: float, size: float) -> str:
    """A head above shoulders."""
    head, wide, low = 0.42 * size, 0.72 * size, 0.55 * size
    return (
        f"M{number(x)} {number(y - 1.05 * size)}a{number(head)} {number(head)} 0 1 1 -.01 0z"
        f"M{number(x - wide)} {number(y + size)}v{number(-0.5 * size)}"
        f"a{number(wide)} {number(low)} 0 0 1 {number(2 * wide)} 0v{number(0.5 * size)}z"
    )
