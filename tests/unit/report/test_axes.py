"""Axes around a chart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.report.svg_reading import assert_readable, words

from sfumato.report.axes import framed
from sfumato.report.drawing import Drawing
from sfumato.report.scales import Dates, Linear, Logarithmic

if TYPE_CHECKING:
    from sfumato.report.scales import Scale

SCALES: dict[str, Scale] = {
    "numbers": Linear(0, 98_765),
    "millions": Linear(0, 98_765_432),
    "shares": Linear(0, 1, percent=True),
    "days": Dates(19_700, 19_720),
    "year": Dates(19_700, 20_066),
    "century": Dates(-20_000, 20_066),
    "factors": Logarithmic(0.001, 1e6),
}


@pytest.mark.parametrize("width", [260, 354, 764])
@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
def test_no_label_is_cut_or_lies_on_another(scale: Scale, width: float) -> None:
    drawing = Drawing(width)
    framed(drawing, (scale, SCALES["millions"]), ("across " * 30, "up " * 60), height=200)
    svg = drawing.svg("")
    assert_readable(svg)
    assert len(words(svg)) >= 6


def test_values_lie_between_the_axes() -> None:
    drawing = Drawing(400)
    frame = framed(drawing, (Linear(0, 10), Linear(0, 1)), ("x", "y"), height=200)
    assert frame.across([0, 10]).tolist() == [frame.left, frame.left + frame.width]
    assert frame.up([0, 1]).tolist() == [frame.bottom, frame.top]
