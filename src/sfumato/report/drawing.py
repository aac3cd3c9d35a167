"""From a chart to SVG that can stand inside any page: no script, no style, no outside resource."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_CONFIG: dict[str, Any] = {
    "aria": False,
    "font": "sans-serif",
    "view": {"stroke": None},
    "axis": {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "grid": True},
    "axisX": {"grid": False, "labelAngle": 0, "labelOverlap": True},
    "axisY": {"domain": False, "ticks": False},
    "legend": {
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "symbolOpacity": 1,
    },
    "text": {"fontSize": 13},
}
# Names that drawings use inside themselves; two drawings in one page must not share them.
_NAME = re.compile(r'(\bid="|url\(#)')


def draw(spec: Mapping[str, Any], *, width: int, name: str) -> str:
    """Draw a specification `width` pixels wide; `name` must be used once in a page."""
    import vl_convert

    whole = {
        **spec,
        "width": width,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "padding": 2,
        "background": None,
        "config": _CONFIG,
    }
    svg: str = vl_convert.vegalite_to_svg(whole, allowed_base_urls=[])
    return _NAME.sub(rf"\g<1>{name}-", svg)
