"""Sheets of SVG."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from tests.unit.report.svg_reading import assert_readable, marks, words

from sfumato.report.drawing import Drawing, coordinate, fit, text_width, wrapped


@pytest.mark.parametrize(
    ("value", "text"), [(1.0, "1"), (-0.04, "0"), (2.449, "2.4"), (1e6, "1000000")]
)
def test_coordinates_are_short(value: float, text: str) -> None:
    assert coordinate(value) == text


def test_text_is_escaped_and_never_breaks_the_file() -> None:
    drawing = Drawing(200)
    drawing.height = 20
    drawing.text((0, 12), "a < b & \x00\x1b \ud800 c")
    (word,) = words(drawing.svg(""))
    assert word.text == "a < b & \ufffd\ufffd \ufffd c"


def test_words_without_room_are_told_whole_on_a_touch() -> None:
    drawing = Drawing(200)
    drawing.text((0, 12), "a very long name of a category", room=60)
    svg = drawing.svg("")
    (word,) = words(svg)
    assert word.text.endswith("…")
    (title,) = [one for one in ET.fromstring(svg).iter() if one.tag.endswith("title")]
    assert title.text == "a very long name of a category"


def test_a_legend_takes_as_many_lines_as_it_needs() -> None:
    drawing = Drawing(300)
    entries = [("tone0", f"a series called {n}") for n in range(9)] + [("tone1", "long " * 40)]
    drawing.height = drawing.legend(0, entries, "Series")
    svg = drawing.svg("")
    assert_readable(svg)
    assert len(marks(svg, "swatch")) == 10


def test_a_rectangle_without_area_is_left_out() -> None:
    drawing = Drawing(10)
    drawing.rectangle(0, 0, 0, 5, "tone0")
    drawing.rectangle(0, 0, 5, 5, "tone0")
    assert len(marks(drawing.svg(""), "tone0")) == 1


def test_error_bars_go_from_end_to_end() -> None:
    drawing = Drawing(100)
    drawing.whiskers([(50, 10, 30)], across=True)
    drawing.whiskers([(50, 10, 30)], across=False)
    across, up = (one.attrib["d"] for one in marks(drawing.svg(""), "whisker"))
    assert "M10 50h20" in across
    assert "M50 10v20" in up


def test_wide_letters_take_more_room() -> None:
    assert text_width("iii", 10) < text_width("nnn", 10) < text_width("WWW", 10)
    assert text_width("語", 10) > text_width("n", 10)
    assert text_width("ä", 10) == text_width("a", 10)
    assert text_width("e\u0301", 10) == text_width("e", 10)


@pytest.mark.parametrize("room", [10, 40, 80, 200])
def test_what_is_cut_fits_and_says_so(room: float) -> None:
    text = "Transport-moving and warehousing"
    shown = fit(text, room, 12)
    assert text_width(shown, 12) <= max(room, text_width("…", 12))
    assert shown == text or (shown.endswith("…") and text.startswith(shown[:-1]))


def test_what_fits_is_left_alone() -> None:
    assert fit("short", 500, 12) == "short"
    assert fit("", 0, 12) == ""


def test_lines_are_broken_between_words() -> None:
    text = "the truth is within the pale band in most cases"
    lines = wrapped(text, 100, 12)
    assert len(lines) > 2
    assert " ".join(lines) == text
    assert all(text_width(line, 12) <= 100 for line in lines)
    assert wrapped("", 100, 12) == []
