"""A column of two tables beside each other: lines where it is long, else bars for each value."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.report import charts
from sfumato.report.blocks import Folded, PageTable
from sfumato.report.charts import Bar, Point
from sfumato.report.numbers import share
from sfumato.report.text_width import cut

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.report.blocks import Block
    from sfumato.report.column_pairs import Distribution, SideBySide
    from sfumato.report.picture import Picture

_OPEN = 6
_VALUES = 8
_BARS = 12
"""Of more places than that a scale of numbers is drawn as lines, of fewer as bars."""


def side_by_side(one: SideBySide, *, label: str, series: str, note: str = "") -> Picture:
    """Draw a column of several tables, which the legend calls by the name of their `series`."""
    note = " ".join(filter(None, (one.told, note)))
    one = replace(one, labels=[*map(cut, one.labels)])
    if len(one.starts) > _BARS:
        return _stretched(one, label, series, note)
    return _listed(one, label, series, note)


def folded(pictures: Iterable[tuple[str, Picture]]) -> list[Block]:
    """The first pictures as they are, further ones each under a line of text."""
    return [
        picture if place < _OPEN else Folded(summary, [picture])
        for place, (summary, picture) in enumerate(pictures)
    ]


def _stretched(one: SideBySide, label: str, series: str, note: str) -> Picture:
    """Lines in steps, noisy ones in their band; what lies outside the scale is said below."""
    many = len(one.starts) - 1
    points = []
    for side in one.sides:
        heights = side.shares[:many].tolist()
        band = (-side.off, side.off) if side.off else ()
        points += [
            Point(side.name, start, height, *(height + end for end in band))
            for start, height in zip(one.starts, [*heights, heights[-1]], strict=True)
        ]
    outside = [
        f"{one.labels[place]}: "
        f"{', '.join(f'{_told(side, place)} ({side.name.lower()})' for side in one.sides)}."
        for place in range(many, len(one.labels))
        if any(side.shares[place] > 0 for side in one.sides)
    ]
    return charts.line(
        points,
        label=label,
        x=one.column,
        y="Share of rows",
        series=series,
        percent=True,
        steps=True,
        dates=one.dates,
        table=_table(one, label),
        note=" ".join([*outside, note]).strip(),
    )


def _told(side: Distribution, place: int) -> str:
    """A share in words; noise may have brought it below none."""
    return share(max(float(side.shares[place]), 0.0))


def _table(one: SideBySide, label: str) -> PageTable:
    rows = [
        (name, *(_cell(float(side.shares[place]), side.off) for side in one.sides))
        for place, name in enumerate(one.labels)
    ]
    headers = (one.column, *(side.name for side in one.sides))
    return PageTable(label, headers, rows, folded=True)


def _cell(height: float, off: float) -> str:
    return f"{share(height)} ± {share(off)}" if off else share(height)


def _listed(one: SideBySide, label: str, series: str, note: str) -> Picture:
    """Values as a bar for each table, the commonest of them; the others in one."""
    most = np.maximum.reduce([side.shares for side in one.sides])
    order = np.argsort(-most, kind="stable")
    order = order[most[order] > 0]
    shown, rest = sorted(order[:_VALUES].tolist()), order[_VALUES:]
    groups = [
        (one.labels[place], [_bar(side, float(side.shares[place]), 1) for side in one.sides])
        for place in shown
    ]
    if len(rest):
        bars = [_bar(side, float(side.shares[rest].sum()), len(rest)) for side in one.sides]
        groups.append((f"{len(rest):,} other values", bars))
    what = (one.column, series)
    return charts.grouped(groups, label=label, what=what, value="Rows in percent", note=note)


def _bar(side: Distribution, height: float, added: int) -> Bar:
    if not side.off:
        return Bar(side.name, round(100 * height, 2))
    off = side.off * added**0.5
    return Bar(side.name, *(round(100 * end, 2) for end in (height, height - off, height + off)))
