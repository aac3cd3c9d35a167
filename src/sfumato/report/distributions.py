"""Columns of several tables beside each other: as lines where they are long, else as bars."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.report.bars import Bar, draw_bar_groups
from sfumato.report.blocks import Folded, PageTable
from sfumato.report.drawing import cut
from sfumato.report.points import Point, draw_lines
from sfumato.report.value_text import share

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sfumato.arrays import FloatArray
    from sfumato.report.blocks import Block
    from sfumato.report.picture import Picture

_UNFOLDED = 6
_MOST_VALUES = 8
_MOST_BARS = 12
"""A scale of numbers with more bins than this is drawn as lines, a shorter one as bars."""


@dataclass(frozen=True, eq=False)
class Distribution:
    """The share of rows with each value, in one table; `error` bounds the noise of a share."""

    name: str
    shares: FloatArray
    error: float = 0.0


@dataclass(frozen=True, eq=False)
class ColumnComparison:
    """One column in several tables: the label of each value, and its share in each table.

    On a scale of numbers or days, `starts` has the start of each bin and the end of the last; any
    labels after these bins lie outside the scale, such as missing values. `note` says what a reader
    must know about the column.
    """

    column: str
    labels: Sequence[str]
    sides: Sequence[Distribution]
    starts: Sequence[float] = ()
    dates: bool = False
    note: str = ""

    @property
    def distance(self) -> float:
        """The total variation distance between the shares of two tables."""
        first, second = (side.shares for side in self.sides)
        return float(np.abs(first - second).sum() / 2)


def draw_comparison(
    comparison: ColumnComparison, *, label: str, series: str, note: str = ""
) -> Picture:
    """Draw a column of several tables; `series` titles the tables in the legend."""
    note = " ".join(filter(None, (comparison.note, note)))
    comparison = replace(comparison, labels=[*map(cut, comparison.labels)])
    draw = _draw_steps if len(comparison.starts) > _MOST_BARS else _draw_values
    return draw(comparison, label, series, note)


def fold(pictures: Iterable[tuple[str, Picture]]) -> list[Block]:
    """Return the first pictures as they are, each further one folded under its line of text."""
    return [
        picture if index < _UNFOLDED else Folded(summary, [picture])
        for index, (summary, picture) in enumerate(pictures)
    ]


def _draw_steps(comparison: ColumnComparison, label: str, series: str, note: str) -> Picture:
    """Draw lines in steps, noisy ones with a band; the note lists shares outside the scale."""
    bins = len(comparison.starts) - 1
    points = []
    for side in comparison.sides:
        heights = side.shares[:bins].tolist()
        ends = (-side.error, side.error) if side.error else ()
        points += [
            Point(side.name, start, height, *(height + end for end in ends))
            for start, height in zip(comparison.starts, [*heights, heights[-1]], strict=True)
        ]
    outside = []
    for index, name in list(enumerate(comparison.labels))[bins:]:
        if any(side.shares[index] > 0 for side in comparison.sides):
            # Noise may have moved a share below zero.
            shares = (
                f"{share(max(float(side.shares[index]), 0.0))} ({side.name.lower()})"
                for side in comparison.sides
            )
            outside.append(f"{name}: {', '.join(shares)}.")
    rows = [
        (name, *(_share_text(float(side.shares[index]), side.error) for side in comparison.sides))
        for index, name in enumerate(comparison.labels)
    ]
    headers = (comparison.column, *(side.name for side in comparison.sides))
    return draw_lines(
        points,
        label=label,
        x=comparison.column,
        y="Share of rows",
        series=series,
        percent=True,
        steps=True,
        dates=comparison.dates,
        table=PageTable(label, headers, rows, folded=True),
        note=" ".join([*outside, note]).strip(),
    )


def _share_text(value: float, error: float) -> str:
    return f"{share(value)} ± {share(error)}" if error else share(value)


def _draw_values(comparison: ColumnComparison, label: str, series: str, note: str) -> Picture:
    """Draw a bar for each table below each common value, and one group for all others."""
    sides = comparison.sides
    # Common in any table: a value that only the synthetic table has must be seen.
    largest = np.maximum.reduce([side.shares for side in sides])
    order = np.argsort(-largest, kind="stable")
    order = order[largest[order] > 0]
    common, uncommon = sorted(order[:_MOST_VALUES].tolist()), order[_MOST_VALUES:]
    groups = [
        (comparison.labels[index], [_bar(side, float(side.shares[index]), 1) for side in sides])
        for index in common
    ]
    if len(uncommon):
        bars = [_bar(side, float(side.shares[uncommon].sum()), len(uncommon)) for side in sides]
        groups.append((f"{len(uncommon):,} other values", bars))
    titles = (comparison.column, series)
    return draw_bar_groups(
        groups, label=label, category=titles, value="Rows in percent", unit=" %", note=note
    )


def _bar(side: Distribution, height: float, summed: int) -> Bar:
    """A share in percent; the noise of a sum grows with the root of the number of terms."""
    if not side.error:
        return Bar(side.name, round(100 * height, 2))
    error = side.error * summed**0.5
    ends = (height, height - error, height + error)
    return Bar(side.name, *(round(100 * end, 2) for end in ends))
