"""The colours of pictures, and the style sheet that gives them to marks by class.

Series have middle tones that stand out from a light and from a dark page alike (contrast 3:1 or
more). Shades of quantities move away from the background: darker means more on a light page,
brighter means more on a dark one.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

TONES = (
    *("#a9713f", "#4d8a86", "#8d72a6", "#c05f45", "#7b8a4b"),
    *("#4f80b8", "#b3608e", "#808080"),
)
"""Sienna, verdigris, dusk, cinnabar, moss, sky, rose, lead: one for each series."""
SHADES = ("#f1e6d6", "#d9bf9d", "#bd9467", "#966a3f", "#6a4527", "#3d2616")
"""From almost nothing to the most, on a light page."""
DARK_SHADES = ("#2e2822", "#5a4129", "#8a5f35", "#b98347", "#dcae72", "#f9e6c6")
"""The same on a dark page."""


def series_tones(series: Iterable[str]) -> dict[str, int]:
    """Return the number of a tone for each series, in the order in which the series come."""
    # Tones repeat after the last; charts with more series than tones also list them in a table.
    return {name: index % len(TONES) for index, name in enumerate(dict.fromkeys(series))}


@cache
def picture_style() -> str:
    """The style sheet of pictures: a page puts it before its own, a picture file carries it."""
    tones = "".join(
        f".picture .tone{index}{{fill:{tone}}}.picture .stroke{index}{{stroke:{tone}}}"
        for index, tone in enumerate(TONES)
    )
    rules = "".join(
        f".picture .shade{index}{{fill:var(--shade{index})}}" for index in range(len(SHADES))
    )
    light, dark = map(_shade_variables, (SHADES, DARK_SHADES))
    # A printed page is light, whatever the screen is.
    shades = (
        f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}{rules}"
    )
    return f"{sheet('tokens.css')}{sheet('picture.css')}{tones}{shades}\n"


def sheet(name: str) -> str:
    """Return the text of a file among the templates, such as a style sheet."""
    return files("sfumato.report").joinpath("templates", name).read_text(encoding="utf-8")


def _shade_variables(colours: tuple[str, ...]) -> str:
    return ";".join(f"--shade{index}:{colour}" for index, colour in enumerate(colours))
