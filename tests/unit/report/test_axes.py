"""Axes of charts and their scales."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.report.svg_reading import assert_readable, words

from sfumato.report.axes import Dates, Linear, Logarithmic, draw_frame, scale_around
from sfumato.report.drawing import Drawing

if TYPE_CHECKING:
    from sfumato.report.axes import Scale


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
    draw_frame(drawing, (scale, SCALES["millions"]), ("across " * 30, "up " * 60), height=200)
    svg = drawing.svg("")
    assert_readable(svg)
    assert len(words(svg)) >= 6


def test_values_lie_between_the_axes() -> None:
    drawing = Drawing(400)
    frame = draw_frame(drawing, (Linear(0, 10), Linear(0, 1)), ("x", "y"), height=200)
    assert frame.x([0, 10]).tolist() == [frame.left, frame.left + frame.width]
    assert frame.y([0, 1]).tolist() == [frame.bottom, frame.top]


EPOCH = date(1970, 1, 1)


def day(*parts: int) -> float:
    return float((date(*parts) - EPOCH).days)


@pytest.mark.parametrize(
    ("low", "high", "most", "words"),
    [
        (0, 100, 6, ["0", "20", "40", "60", "80", "100"]),
        (-3, 7, 5, ["−2", "0", "2", "4", "6"]),
        (0, 0.5, 5, ["0.0", "0.1", "0.2", "0.3", "0.4", "0.5"]),
        (0, 25_000, 3, ["0", "10,000", "20,000"]),
    ],
)
def test_round_numbers_are_marked(low: float, high: float, most: int, words: list[str]) -> None:
    ticks = Linear(low, high).ticks(most)
    assert [text.replace("0.0", "0.0") for _, text in ticks] == [
        "0" if one == "0.0" else one for one in words
    ]


def test_shares_are_marked_in_percent() -> None:
    assert [text for _, text in Linear(0, 1, percent=True).ticks(2)] == ["0 %", "50 %", "100 %"]
    assert [text for _, text in Linear(0, 0.01, percent=True).ticks(2)][-1] == "1.0 %"


@given(
    st.floats(-1e9, 1e9, allow_subnormal=False),
    st.floats(1e-6, 1e9, allow_subnormal=False),
    st.integers(2, 12),
)
def test_ticks_lie_within_the_ends_and_are_not_too_many(low: float, span: float, most: int) -> None:
    if span < 1e-9 * abs(low):  # no more than the noise of floating point
        return
    for scale in (Linear(low, low + span), Logarithmic(span, span + abs(low) + 1)):
        ticks = scale.ticks(most)
        assert len(ticks) <= most + 1
        slack = 1e-3 * (scale.high - scale.low)
        assert all(scale.low - slack <= at <= scale.high + slack for at, _ in ticks)


def test_a_scale_around_figures_ends_at_round_ones() -> None:
    assert scale_around(3, 97) == Linear(0, 100)
    assert scale_around(3, 97, zero=True).low == 0
    assert scale_around(-4, 9, zero=True).low < 0
    assert scale_around(5, 5) == Linear(4, 6)
    assert scale_around(0, 0) == Linear(0, 1)


def test_equal_factors_are_equally_far() -> None:
    scale = Logarithmic(0.01, 100)
    assert scale.share([0.01, 1, 100]).tolist() == pytest.approx([0, 0.5, 1])
    assert [text for _, text in scale.ticks(5)] == ["0.01", "0.1", "1", "10", "100"]
    assert [text for _, text in Logarithmic(30, 45).ticks(4)] == ["30", "35", "40", "45"]


@pytest.mark.parametrize(
    ("low", "high", "most", "words"),
    [
        ((2024, 1, 1), (2024, 12, 31), 4, ["Jan 2024", "Apr", "Jul", "Oct"]),
        ((2023, 11, 15), (2024, 3, 10), 5, ["Dec 2023", "Jan 2024", "Feb", "Mar"]),
        ((2024, 2, 27), (2024, 3, 2), 6, ["27 Feb 2024", "28 Feb", "29 Feb", "1 Mar", "2 Mar"]),
        ((1950, 6, 1), (2010, 1, 1), 4, ["1960", "1980", "2000"]),
        ((2021, 12, 31), (2024, 1, 1), 4, ["2022", "2023", "2024"]),
    ],
)
def test_dates_are_marked_as_people_say_them(
    low: tuple[int, ...], high: tuple[int, ...], most: int, words: list[str]
) -> None:
    ticks = Dates(day(*low), day(*high)).ticks(most)
    assert [text for _, text in ticks] == words


@given(st.dates(), st.integers(0, 400_000), st.integers(1, 12))
def test_dates_of_any_span_have_a_few_ticks(first: date, days: int, most: int) -> None:
    low = float((first - EPOCH).days)
    ticks = Dates(low - 0.5, low + days + 0.5).ticks(most)
    assert len(ticks) <= most + 2
    assert all(low - 0.5 <= at <= low + days + 0.5 for at, _ in ticks)
    assert [at for at, _ in ticks] == sorted({at for at, _ in ticks})


def test_weeks_begin_on_monday() -> None:
    ticks = Dates(day(2024, 2, 1), day(2024, 3, 20)).ticks(8)
    assert {date.fromordinal(EPOCH.toordinal() + int(at)).weekday() for at, _ in ticks} == {0}
