"""Widths of text."""

from __future__ import annotations

import pytest

from sfumato.report.drawing import fit, text_width, wrapped


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
