"""The colours of every picture, and the style sheet that gives them to its marks by class.

Series have middle tones that stand out (3:1 and more) on a light and on a dark page alike. Shades
of quantities go away from the paper in both: darker is more on a light page,
brighter on a dark one.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

TONES = (
    *("#a9713f", "#4d8a86", "#8d72a6", "#c05f45", "#7b8a4b"),
    *("#4f80b8", "#b3608e", "#808080"),
)
"""Sienna, verdigris, dusk, cinnabar, moss, sky, rose, lead: one for each series."""
SHADES = ("#f1e6d6", "#d9bf9d", "#bd9467", "#966a3f", "#6a4527", "#3d2616")
"""From a breath of paint to the full tone, for quantities on a light page."""
DARK_SHADES = ("#2e2822", "#5a4129", "#8a5f35", "#b98347", "#dcae72", "#f9e6c6")
"""The same on a dark page: from the ground to the light."""


@cache
def picture_style() -> str:
    """The style sheet of pictures: what a page puts behind its own, and what a lone one carries."""
    tones = "".join(
        f".picture .tone{place}{{fill:{tone}}}.picture .stroke{place}{{stroke:{tone}}}"
        for place, tone in enumerate(TONES)
    )
    rules = "".join(
        f".picture .shade{place}{{fill:var(--shade{place})}}" for place in range(len(SHADES))
    )
    light, dark = map(_shades, (SHADES, DARK_SHADES))
    # On paper the page is light, whatever the screen is.
    shades = (
        f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}{rules}"
    )
    return f"{sheet('tokens.css')}{sheet('picture.css')}{tones}{shades}\n"


def sheet(name: str) -> str:
    """A style sheet among the templates."""
    return files("sfumato.report").joinpath("templates", name).read_text(encoding="utf-8")


def _shades(colours: tuple[str, ...]) -> str:
    return ";".join(f"--shade{place}:{colour}" for place, colour in enumerate(colours))
