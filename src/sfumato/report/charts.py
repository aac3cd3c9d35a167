"""Charts in one quiet hand: figures become a Vega-Lite drawing and its words, and SVG for any page.

Colours are middle tones that stand out (3:1 and more) on a light and on a dark page alike; text
and axes take the page's own ink. A drawing has no script, no style and no outside resource.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from sfumato.errors import ParameterError
from sfumato.report.blocks import Chart, PageTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

TONES = (
    *("#a9713f", "#4d8a86", "#8d72a6", "#c05f45", "#7b8a4b"),
    *("#4f80b8", "#b3608e", "#808080"),
)
"""Sienna, verdigris, dusk, cinnabar, moss, sky, rose, lead: one for each series."""
SHADES = ("#f1e6d6", "#d9bf9d", "#bd9467", "#966a3f", "#6a4527", "#3d2616")
"""From a breath of paint to the full tone, for quantities."""


class Point(NamedTuple):
    """A point of a chart; a line's band goes from `low` to `high`."""

    series: str
    x: float
    y: float
    low: float | None = None
    high: float | None = None


def bar(
    bars: Sequence[tuple[str, float]],
    *,
    label: str,
    what: str,
    value: str,
    percent: bool = False,
    accent: str | None = None,
) -> Chart:
    """Draw horizontal bars in the given order, each under its name; one may be accented."""
    _finite(number for _, number in bars)
    width = max((number for _, number in bars), default=0.0) or 1.0
    x = {
        "field": "value",
        "type": "quantitative",
        "axis": None,
        "scale": {"domain": [0, 1 if percent else width], "nice": False},
    }
    text = {"type": "text", "baseline": "middle", "yOffset": -8}
    spec = {
        "data": {
            "values": [
                {"name": name, "value": number, "shown": show(number, percent=percent), "place": i}
                for i, (name, number) in enumerate(bars)
            ]
        },
        "height": {"step": 34},
        "encoding": {"y": {"field": "place", "type": "ordinal", "axis": None}},
        "layer": [
            {
                "mark": {"type": "bar", "height": 9, "yOffset": 7},
                "encoding": {"x": x, "color": _accented("name", accent)},
            },
            {
                "mark": text | {"align": "left", "limit": 300},
                "encoding": {"text": {"field": "name"}, "x": {"value": 0}},
            },
            {
                "mark": text | {"align": "right", "fontWeight": "bold"},
                "encoding": {"text": {"field": "shown"}, "x": {"value": "width"}},
            },
        ],
    }
    rows = [(name, show(number, percent=percent)) for name, number in bars]
    return Chart(spec, label, PageTable(label, (what, value), rows))


def skyline(
    bars: Sequence[tuple[str, str, float]],
    *,
    label: str,
    what: str,
    series: str,
    value: str,
    percent: bool = False,
) -> Chart:
    """Draw many thin bars from low to high, coloured by series; names are in the table."""
    _finite(number for *_, number in bars)
    ordered = sorted(bars, key=lambda one: one[2])
    spec = {
        "data": {
            "values": [
                {"place": place, "series": group, "value": number}
                for place, (_, group, number) in enumerate(ordered)
            ]
        },
        "height": 220,
        "mark": {"type": "bar"},
        "encoding": {
            "x": {"field": "place", "type": "ordinal", "axis": None, "scale": {"padding": 0.15}},
            "y": _axis("value", value, percent=percent, zero=True),
            "color": _series("series", series, (group for _, group, _ in bars)),
        },
    }
    rows = [(name, group, show(n, percent=percent)) for name, group, n in reversed(ordered)]
    return Chart(spec, label, PageTable(label, (what, series, value), rows))


def line(
    points: Sequence[Point],
    *,
    label: str,
    x: str,
    y: str,
    series: str,
    logarithmic: bool = False,
    logarithmic_y: bool = False,
    percent: bool = False,
    steps: bool = False,
) -> Chart:
    """Draw one line per series, with a band around it where the points have one.

    A line in steps stays at the height of a point up to the next one, and has no dots.
    """
    encoding: dict[str, Any] = {
        "x": _axis("x", x, logarithmic=logarithmic),
        "color": _series("series", series, (point.series for point in points)),
    }
    up = _axis("y", y, percent=percent, logarithmic=logarithmic_y)
    shape = {"interpolate": "step-after"} if steps else {"point": {"size": 36}}
    layers: list[dict[str, Any]] = [{"mark": {"type": "line", **shape}, "encoding": {"y": up}}]
    banded = any(point.low is not None for point in points)
    if banded:
        band = {"y": _axis("low", y, percent=percent), "y2": {"field": "high"}}
        layers.insert(0, {"mark": {"type": "area", "opacity": 0.22}, "encoding": band})
    spec = {
        "data": {"values": _points(points)},
        "height": 260,
        "encoding": encoding,
        "layer": layers,
    }
    headers = (series, x, y, *(("from", "to") if banded else ()))
    rows = [
        (
            point.series,
            show(point.x),
            *(show(n, percent=percent) for n in point[2:] if n is not None),
        )
        for point in points
    ]
    return Chart(spec, label, PageTable(label, headers, rows))


def crowd(share: float, *, label: str, inside: str, outside: str) -> Chart:
    """Draw a hundred people, of whom `share` stand out while the rest melt into the ground."""
    _finite([share])
    count = round(100 * share)
    people = [
        {"x": place % 10, "y": place // 10, "group": inside if place < count else outside}
        for place in range(100)
    ]
    place = {"type": "ordinal", "axis": None, "scale": {"padding": 0.1}}
    two = [inside, outside]
    spec = {
        "data": {"values": people},
        "height": 250,
        "mark": {"type": "point", "filled": True, "size": 620, "shape": _PERSON},
        "encoding": {
            "x": {"field": "x"} | place,
            "y": {"field": "y"} | place,
            "color": {
                "field": "group",
                "type": "nominal",
                "scale": {"domain": two, "range": [TONES[0], "#8f8a83"]},
                "legend": {"orient": "bottom", "title": None, "symbolSize": 200},
            },
            "opacity": {
                "field": "group",
                "type": "nominal",
                "scale": {"domain": two, "range": [1, 0.35]},
                "legend": None,
            },
        },
    }
    rows = [(inside, count), (outside, 100 - count)]
    return Chart(spec, label, PageTable(label, ("Of 100 people", "Count"), rows))


def show(number: float, *, percent: bool = False) -> str:
    """Write a number for people: thousands apart, three digits of a fraction, shares in percent."""
    if percent:
        return share(number)
    if number == int(number) or abs(number) >= 1000:
        return f"{number:,.0f}"
    return f"{number:.3g}"


def share(fraction: float) -> str:
    """Write a share in percent; only none is 0 %, only all is 100 %."""
    percent = 100 * fraction
    for edge, word in ((0.0, "< 0.1 %"), (100.0, "> 99.9 %")):
        if percent != edge and abs(percent - edge) < 0.05:
            return word
    return f"{percent:.0f} %" if percent in {0.0, 100.0} else f"{percent:.1f} %"


def _points(points: Sequence[Point]) -> list[Mapping[str, Any]]:
    _finite(number for point in points for number in point[1:] if number is not None)
    return [point._asdict() for point in points]


def _finite(numbers: Iterable[float]) -> None:
    for number in numbers:
        if not math.isfinite(number):
            raise ParameterError(
                "chart_not_finite",
                f"A chart cannot show {number}; give finite numbers and leave the others out.",
            )


def _axis(
    field: str, title: str, *, percent: bool = False, zero: bool = False, logarithmic: bool = False
) -> dict[str, Any]:
    scale = {"type": "log"} if logarithmic else {"zero": zero}
    axis = {"format": "~%"} if percent else {"format": "~g"} if logarithmic else {}
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "scale": scale,
        "axis": axis | {"tickCount": 5},
    }


def _series(field: str, title: str, names: Iterable[str]) -> dict[str, Any]:
    """One tone per series in the order given; a single series needs no legend."""
    domain = list(dict.fromkeys(names))
    return {
        "field": field,
        "type": "nominal",
        "title": title,
        "scale": {"domain": domain, "range": [TONES[i % len(TONES)] for i in range(len(domain))]},
        "legend": {"orient": "bottom", "columns": 4 if len(domain) > 6 else 6}
        if len(domain) > 1
        else None,
    }


def _accented(field: str, accent: str | None) -> dict[str, Any]:
    return {
        "condition": {"test": {"field": field, "equal": accent}, "value": TONES[3]},
        "value": TONES[0],
    }


# A head above shoulders, in the unit square that Vega scales.
_PERSON = (
    "M0,-0.9A0.38,0.38,0,1,1,-0.01,-0.9ZM-0.62,0.9L-0.62,0.45A0.62,0.5,0,0,1,0.62,0.45L0.62,0.9Z"
)


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
