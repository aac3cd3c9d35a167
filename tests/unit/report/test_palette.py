"""Colours on light and dark pages."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from sfumato.report.palette import DARK_SHADES, SHADES, TONES, picture_style

LIGHT, DARK = "#faf7f2", "#1a1816"


def luminance(colour: str) -> float:
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted([luminance(one), luminance(other)], reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("tone", TONES)
@pytest.mark.parametrize("paper", [LIGHT, DARK])
def test_tones_stand_out_on_light_and_dark(tone: str, paper: str) -> None:
    assert contrast(tone, paper) >= 3


@pytest.mark.parametrize(("shades", "paper"), [(SHADES, LIGHT), (DARK_SHADES, DARK)])
def test_more_is_further_from_the_paper(shades: tuple[str, ...], paper: str) -> None:
    away = [contrast(shade, paper) for shade in shades]
    assert all(after > 1.25 * before for before, after in pairwise(away))
    assert away[0] < 1.3
    assert away[-1] > 10


def test_the_style_needs_nothing_from_outside() -> None:
    style = picture_style()
    assert "url(" not in style
    assert "@import" not in style
    assert {f"--shade{n}" for n in range(6)} <= set(re.findall(r"--shade\d", style))
