"""Published statistics as pictures: counts along a line, over a map, in boxes or as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from sfumato.data.schema.names import untaken
from sfumato.report import charts, positions
from sfumato.report.blocks import Folded, Heading, PageTable
from sfumato.report.charts import NOISE_ALONE
from sfumato.report.figures import COUNT, RANK, RUNNING, Figures, bars_of, picture_of, table_of
from sfumato.report.histograms import Stretches, histogram
from sfumato.report.map_axes import MapSide, is_latitude, is_longitude
from sfumato.report.maps import Rectangle, boxes_map
from sfumato.report.numbers import show

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from sfumato.arrays import FloatArray
    from sfumato.release.release import Release
    from sfumato.report.blocks import Block
    from sfumato.report.picture import Picture

_LISTED = 20
_VERDICTS = 40
_SPREAD = 40
_OPEN = 6
"""So many tables lie open; the others of a release of many are folded, each under its name."""
_DRAWN = 60
"""So many tables have pictures, or a page would weigh too much; all have their figures."""
_FIGURES = {"count": COUNT, "running": RUNNING, "rank": RANK}
_ENDS = (("low", "high"), ("from", "to"))
"""How the ends of boxes and those of answered ranges are called behind the name of a column."""
_CURVES = {
    ("rank_of_node", "degree"): ("Degrees of the nodes, from the largest on", "Node", "Degree"),
    ("ties_at_least", "count"): ("People with at least so many ties", "Ties", "People"),
}
"""What is drawn as a curve of its second column along its first: of graphs."""
_DEVIATIONS = 2.12
"""So many standard deviations hold 95 % of a Laplace noise, and more of a rounder one."""
_NOT_KNOWN = "How far off single figures are depends on the data, and is not known."


def published_pictures(release: Release) -> list[Picture]:
    """The pictures of a publication, table by table, as its page has them."""
    columns = release.provenance.parameters.get("columns", ())
    drawn = (
        _drawn(columns, name, table, release.error or {}) for name, table in release.tables.items()
    )
    return [picture for picture in drawn if picture is not None]


def pictures(
    columns: Sequence[str], tables: Mapping[str, pa.Table], error: Mapping[str, Any] | None = None
) -> list[Block]:
    """Every table in a picture, where there is one, and in figures; of many, most are folded.

    Whatever a release holds has a page: that of tables without a row is what it will be like.
    """
    named = [(name, f"{table.num_rows:,}") for name, table in tables.items()]
    listed = PageTable("The released tables", ("Table", "Rows"), named, folded=len(named) > _LISTED)
    blocks: list[Block] = [listed] if len(named) > 1 else []
    for place, (name, table) in enumerate(tables.items()):
        picture = _drawn(columns, name, table, error or {}) if place < _DRAWN else None
        shown: list[Block] = [] if picture is None else [picture]
        shown.append(_first_rows(name, table))
        if len(tables) > _OPEN and place >= _OPEN:
            blocks.append(Folded(f"{name}: {table.num_rows:,} rows", shown))
        else:
            blocks += [Heading(name, level=3), *shown] if len(tables) > 1 else shown
    return blocks


def _curve(table: pa.Table, label: str, across: str, up: str) -> Picture | None:
    """A falling curve, the more of which is seen where ranks are drawn by their size."""
    places, heights = (column.to_pylist() for column in table.columns)
    points = [charts.Point("released", x, y) for x, y in zip(places, heights, strict=True)]
    many = len(points) > _SPREAD
    drawn = charts.thinned(points)
    return (
        charts.line(drawn, label=label, x=across, y=up, series="What", logarithmic=many)
        if points
        else None
    )


def _first_rows(name: str, table: pa.Table) -> PageTable:
    rows = [
        tuple(map(positions.in_words, row.values())) for row in table.slice(0, _LISTED).to_pylist()
    ]
    caption = f"The first rows of {name}, of {table.num_rows:,}"
    return PageTable(caption, table.column_names, rows, folded=True)


def _drawn(
    columns: Sequence[str], name: str, table: pa.Table, error: Mapping[str, Any]
) -> Picture | None:
    """A picture of figures by the columns that the table has; nothing where none would help."""
    curve = _CURVES.get(tuple(table.column_names))
    if curve is not None:
        return _curve(table, *curve)
    if "leaf" in table.column_names:
        table = table.filter(table.column("leaf"))
    for ends in _ENDS:
        named = [f"{column}_{end}" for column in columns for end in ends]
        if {*named, "count"} <= {*table.column_names}:
            return _boxes(columns, _figures(table, named, ("count", COUNT), name, error))
        if {*named, "above"} <= {*table.column_names}:
            return _verdicts(columns, table, named, error)
    present = [
        name
        for column in columns
        for name in (column, f"{column}_is")
        if name in table.column_names
    ]
    figures = {untaken(one, present): words for one, words in _FIGURES.items()}
    figure = next((one for one in figures if one in table.column_names), None)
    if figure is None:
        return None
    if not present:
        return _spread(name, table.column(figure))
    # Under its own name: a column of the data may have it too.
    shown = _figures(table, present, (figure, figures[figure]), name, error)
    return picture_of(shown) if len(shown.numbers) else None


def _figures(
    table: pa.Table,
    named: Sequence[str],
    figure: tuple[str, str],
    name: str,
    error: Mapping[str, Any],
) -> Figures:
    """The rows in which no column is missing, as neither NULL nor, among reals, NaN is a place."""
    off, note = _off(table, name, figure, error)
    whole = np.ones(table.num_rows, dtype=bool)
    for column in named:
        missing = pc.is_null(table.column(column), nan_is_null=True)
        whole &= ~np.asarray(missing, dtype=bool)
    numbers = np.asarray(table.column(figure[0]), dtype=np.float64)
    lost = numbers[~whole]
    if len(lost):
        missing_words = f"Not shown: {show(float(lost.sum()))} in rows of missing values."
        note = f"{missing_words} {note}".strip()
    shown = Figures(table.select(list(named)), figure[1], numbers, off, note)
    return shown.take(np.flatnonzero(whole)) if len(lost) else shown


def _off(
    table: pa.Table, name: str, figure: tuple[str, str], error: Mapping[str, Any]
) -> tuple[FloatArray | None, str]:
    """How far figures are off at most in 95 % of cases, if that is known, and what to add to it."""
    if figure[1] == RANK:
        return None, ""
    note = NOISE_ALONE if error.get("note") else ""
    deviation = untaken("sd", [figure[0]])
    if deviation in table.column_names and figure[0] == "count":
        each = _DEVIATIONS * np.asarray(table.column(deviation), dtype=np.float64)
        return (None, _NOT_KNOWN) if np.isnan(each).all() else (each, note)
    of_tables = error.get("tables") or {}
    keys = (name, "cell", "cells", figure[0])
    stated: Mapping[str, Any] = next(
        (one for one in (of_tables.get(name), *map(error.get, keys)) if one), {}
    )
    bound = stated.get("bound95") or stated.get("largest95")
    if bound is None and stated.get("sd") is not None:
        bound = _DEVIATIONS * stated["sd"]
    if bound is None:
        return None, _NOT_KNOWN if error else ""
    return np.full(table.num_rows, float(bound)), note


def _boxes(columns: Sequence[str], shown: Figures) -> Picture | None:
    """Boxes that were not divided further: along a line, over a map, or as bars."""
    if not len(shown.numbers):
        return None
    first: str = shown.columns[0]
    fills = first.endswith("_low") and all(map(positions.are_placed, shown.values.columns))
    if fills and len(columns) == 1:
        return _steps(columns[0], shown)
    if fills and len(columns) == 2:
        return _rectangles(columns, shown)
    return bars_of(shown, each=2)


def _steps(column: str, shown: Figures) -> Picture:
    """Boxes of one column: how many are counted for one unit of it."""
    order = np.argsort(positions.numbers_of(shown.values.column(0)), kind="stable")
    shown = shown.take(order)
    lows, highs = (positions.numbers_of(one) for one in shown.values.columns)
    half = positions.half_step(lows, highs)
    lows, highs = lows - half, highs + half
    off = None if shown.off is None else shown.off / (highs - lows)
    dates = positions.is_dated(shown.values.column(0).type)
    unit = "day" if dates else f"unit of {column}"
    stretches = Stretches(lows, highs, shown.numbers / (highs - lows), off)
    label = f"Density of rows over {column}"
    return histogram(
        stretches, label=label, table=_densest([column], shown, stretches.heights), x=column,
        y=f"Count per {unit}", dates=dates, note=shown.note,
    )  # fmt: skip


def _rectangles(columns: Sequence[str], shown: Figures) -> Picture:
    """Boxes of two ordered columns; what counts from west to east goes across."""
    ends = [positions.numbers_of(one) for one in shown.values.columns]
    halves = [positions.half_step(*ends[:2]), positions.half_step(*ends[2:])]
    edges = [
        one + sign * halves[place // 2]
        for place, (one, sign) in enumerate(zip(ends, (-1, 1, -1, 1), strict=True))
    ]
    areas = (edges[1] - edges[0]) * (edges[3] - edges[2])
    table = _densest(columns, shown, shown.numbers / areas)
    sides = [
        MapSide(
            column,
            ends=(float(edges[2 * place].min()), float(edges[2 * place + 1].max())),
            dates=positions.is_dated(shown.values.column(2 * place).type),
        )
        for place, column in enumerate(columns)
    ]
    if is_latitude(columns[0]) and is_longitude(columns[1]):
        sides, edges = sides[::-1], [*edges[2:], *edges[:2]]
    rectangles = [
        Rectangle(*one)
        for one in zip(*(edge.tolist() for edge in edges), shown.numbers.tolist(), strict=True)
    ]
    label = f"Density of rows over {columns[0]} and {columns[1]}"
    note = "" if shown.off is None else _of_boxes(float(np.nanmax(shown.off)))
    return boxes_map(rectangles, (sides[0], sides[1]), label=label, table=table, note=note)


def _of_boxes(off: float) -> str:
    return f"By noise, the count of a box is within ± {show(off)} of the truth in 95 % of cases."


def _densest(columns: Sequence[str], shown: Figures, density: FloatArray) -> PageTable:
    """The densest boxes as a table, with what each counts and how far off that is."""
    kept = shown.take(np.argsort(-density, kind="stable")[:_LISTED])
    named = [_ranges(list(row.values())) for row in kept.values.to_pylist()]
    return table_of(kept, named, columns, f"The densest boxes of {len(density):,}")


def _ranges(ends: Sequence[object]) -> list[str]:
    words = [positions.in_words(one) for one in ends]
    return [f"{low} to {high}" for low, high in zip(words[::2], words[1::2], strict=True)]


def _verdicts(
    columns: Sequence[str], table: pa.Table, named: Sequence[str], error: Mapping[str, Any]
) -> Picture | None:
    """Which ranges are above a threshold: a full bar for each that is, none for each below."""
    judged = table.filter(pc.is_valid(table.column("above")))
    if not judged.num_rows:
        return None
    rows = zip(*(judged.column(one).to_pylist() for one in named), strict=True)
    bars = [
        (", ".join(_ranges(row)), float(above))
        for row, above in zip(rows, judged.column("above").to_pylist(), strict=True)
    ]
    bound = (error.get("verdicts") or {}).get("bound95")
    far = f"A range within {show(bound)} rows of the threshold may be misjudged." if bound else ""
    left = table.num_rows - judged.num_rows
    unjudged = f"{left:,} more ranges were not judged." if left else ""
    words = ["above" if one else "below" for _, one in bars]
    return charts.bar(
        bars[:_VERDICTS], label="Which ranges hold more rows than the threshold",
        what=" and ".join(columns), value="Threshold", percent=True, words=words[:_VERDICTS],
        note=f"{far} {unjudged}".strip(),
    )  # fmt: skip


def _spread(name: str, numbers: pa.ChunkedArray) -> Picture | None:
    """Figures that belong to no value of the data, such as a sketch's: how large they are."""
    figures = np.asarray(numbers, dtype=np.float64)
    if len(figures) < _SPREAD:
        return None
    counts, edges = np.histogram(figures, bins=_SPREAD)
    label = f"How large the {len(figures):,} figures of {name} are"
    rows = [
        (f"{show(low)} to {show(high)}", int(count))
        for low, high, count in zip(edges[:-1].tolist(), edges[1:].tolist(), counts, strict=True)
    ]
    table = PageTable(label, ("Figure", "How many"), rows)
    heights = Stretches(edges[:-1], edges[1:], counts.astype(np.float64))
    return histogram(heights, label=label, table=table, x="Figure", y="How many")
