"""Published statistics as pictures: counts along a line, over a map, in boxes or as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from sfumato.data.schema.names import untaken
from sfumato.report.bars import NOISE_ALONE, Bins, draw_bars, draw_histogram
from sfumato.report.blocks import Folded, Heading, PageTable
from sfumato.report.column_charts import (
    COUNT,
    LISTED,
    RANK,
    RUNNING,
    GroupedNumbers,
    cell_text,
    choose_chart,
    draw_largest_bars,
    half_step,
    has_positions,
    is_date,
    numbers_table,
    positions_of,
)
from sfumato.report.heat_maps import MapBox, MapSide, draw_box_map, is_latitude, is_longitude
from sfumato.report.points import Point, draw_lines, thin
from sfumato.report.value_text import show

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from sfumato.arrays import FloatArray
    from sfumato.release.release import Release
    from sfumato.report.blocks import Block
    from sfumato.report.picture import Picture

_MOST_VERDICTS = 40
# Fewer numbers need no histogram, and a curve of fewer points no logarithmic axis.
_FEW_POINTS = 40
# The first tables of a release are shown; each further one is folded under its name.
_UNFOLDED = 6
# Further tables have no picture, or the page would be too large.
_MOST_PICTURES = 60
_NUMBER_COLUMNS = {"count": COUNT, "running": RUNNING, "rank": RANK}
# The endings of column names for the ends of boxes, and for those of answered ranges.
_RANGE_ENDS = (("low", "high"), ("from", "to"))
# Tables of graphs drawn as a curve of the second column over the first: title and axes.
_CURVES = {
    ("rank_of_node", "degree"): ("Degrees of the nodes, largest first", "Node", "Degree"),
    ("ties_at_least", "count"): ("People with at least this many ties", "Ties", "People"),
}
# This many standard deviations contain 95 % of Laplace noise: ln(20) / sqrt(2) = 2.118.
#
# Gaussian noise needs fewer (1.96), so the bound holds for both.
STDDEVS_FOR_95_PERCENT = 2.12
_UNKNOWN_ERROR = "The error of single numbers depends on the data and is not known."


def published_pictures(release: Release) -> list[Picture]:
    """Return the pictures of a publication, table by table, as on its page."""
    columns = release.provenance.parameters.get("columns", ())
    pictures = (
        _draw_table(columns, name, table, release.error or {})
        for name, table in release.tables.items()
    )
    return [picture for picture in pictures if picture is not None]


def table_blocks(
    columns: Sequence[str], tables: Mapping[str, pa.Table], error: Mapping[str, Any] | None = None
) -> list[Block]:
    """Show a picture of every table that one suits, and its first rows; fold most of many.

    Tables may be empty: the forecast of a release has a page too.
    """
    sizes = [(name, f"{table.num_rows:,}") for name, table in tables.items()]
    contents = PageTable("Released tables", ("Table", "Rows"), sizes, folded=len(sizes) > LISTED)
    blocks: list[Block] = [contents] if len(sizes) > 1 else []
    for index, (name, table) in enumerate(tables.items()):
        picture = _draw_table(columns, name, table, error or {}) if index < _MOST_PICTURES else None
        rows = [tuple(map(cell_text, row.values())) for row in table.slice(0, LISTED).to_pylist()]
        caption = f"The first rows of {name}, of {table.num_rows:,}"
        first_rows = PageTable(caption, table.column_names, rows, folded=True)
        shown: list[Block] = [first_rows] if picture is None else [picture, first_rows]
        if index >= _UNFOLDED:
            blocks.append(Folded(f"{name}: {table.num_rows:,} rows", shown))
        else:
            blocks += [Heading(name, level=3), *shown] if len(tables) > 1 else shown
    return blocks


def _draw_table(
    columns: Sequence[str], name: str, table: pa.Table, error: Mapping[str, Any]
) -> Picture | None:
    """Return the picture of a table, by the columns that it has; None where none would help."""
    curve = _CURVES.get(tuple(table.column_names))
    if curve is not None:
        return _draw_curve(table, *curve)
    if "leaf" in table.column_names:
        table = table.filter(table.column("leaf"))
    for ends in _RANGE_ENDS:
        range_columns = [f"{column}_{end}" for column in columns for end in ends]
        if {*range_columns, "count"} <= {*table.column_names}:
            return _draw_boxes(
                columns, _group_numbers(table, range_columns, ("count", COUNT), name, error)
            )
        if {*range_columns, "above"} <= {*table.column_names}:
            return _draw_verdicts(columns, table, range_columns, error)
    present = [
        name
        for column in columns
        for name in (column, f"{column}_is")
        if name in table.column_names
    ]
    # A column of the data may itself be called "count"; then the number has another name.
    number_columns = {untaken(name, present): label for name, label in _NUMBER_COLUMNS.items()}
    number = next((name for name in number_columns if name in table.column_names), None)
    if number is None:
        return None
    if not present:
        return _draw_spread(name, table.column(number))
    data = _group_numbers(table, present, (number, number_columns[number]), name, error)
    return choose_chart(data) if len(data.numbers) else None


def _draw_curve(table: pa.Table, label: str, x: str, y: str) -> Picture | None:
    """A falling curve; with many points the first ranks show more on a logarithmic axis."""
    ranks, heights = (column.to_pylist() for column in table.columns)
    points = [Point("released", rank, height) for rank, height in zip(ranks, heights, strict=True)]
    if not points:
        return None
    logarithmic = len(points) > _FEW_POINTS
    return draw_lines(thin(points), label=label, x=x, y=y, series="What", logarithmic=logarithmic)


def _group_numbers(
    table: pa.Table,
    group_columns: Sequence[str],
    number: tuple[str, str],
    name: str,
    error: Mapping[str, Any],
) -> GroupedNumbers:
    """Return the numbers of a table by their groups, without rows where a group is NULL or NaN.

    `number` is the column of the numbers and what people call them.
    """
    errors, note = _errors_95(table, name, number, error)
    complete = np.ones(table.num_rows, dtype=bool)
    for column in group_columns:
        missing = pc.is_null(table.column(column), nan_is_null=True)
        complete &= ~np.asarray(missing, dtype=bool)
    numbers = np.asarray(table.column(number[0]), dtype=np.float64)
    data = GroupedNumbers(table.select(list(group_columns)), number[1], numbers, errors, note)
    if complete.all():
        return data
    missing_note = f"Not shown: {show(float(numbers[~complete].sum()))} in rows of missing values."
    data = data._replace(note=f"{missing_note} {note}".strip())
    return data.select(np.flatnonzero(complete))


def _errors_95(
    table: pa.Table, name: str, number: tuple[str, str], error: Mapping[str, Any]
) -> tuple[FloatArray | None, str]:
    """A 95 % bound of the error of each number, if known, and a note about it."""
    if number[1] == RANK:
        return None, ""
    note = NOISE_ALONE if error.get("note") else ""
    stddev_column = untaken("sd", [number[0]])
    if stddev_column in table.column_names and number[0] == "count":
        stddevs = np.asarray(table.column(stddev_column), dtype=np.float64)
        if np.isnan(stddevs).all():
            return None, _UNKNOWN_ERROR
        return STDDEVS_FOR_95_PERCENT * stddevs, note
    of_tables = error.get("tables") or {}
    candidates = (of_tables.get(name), *map(error.get, (name, "cell", "cells", number[0])))
    stated: Mapping[str, Any] = next((facts for facts in candidates if facts), {})
    bound = stated.get("bound95") or stated.get("largest95")
    if bound is None and stated.get("sd") is not None:
        bound = STDDEVS_FOR_95_PERCENT * stated["sd"]
    if bound is None:
        return None, _UNKNOWN_ERROR if error else ""
    return np.full(table.num_rows, float(bound)), note


def _draw_boxes(columns: Sequence[str], data: GroupedNumbers) -> Picture | None:
    """Counts of boxes: along a line, over a map, or as bars."""
    if not len(data.numbers):
        return None
    is_partition = data.columns[0].endswith("_low")
    if is_partition and len(columns) <= 2 and all(map(has_positions, data.groups.columns)):
        draw = _draw_line_of_boxes if len(columns) == 1 else _draw_map_of_boxes
        return draw(columns, data)
    return draw_largest_bars(data, columns_per_range=2)


def _draw_line_of_boxes(columns: Sequence[str], data: GroupedNumbers) -> Picture:
    """Boxes of one column, each as high as its count per unit."""
    [column] = columns
    data = data.select(np.argsort(positions_of(data.groups.column(0)), kind="stable"))
    lows, highs = (positions_of(values) for values in data.groups.columns)
    half = half_step(lows, highs)
    lows, highs = lows - half, highs + half
    widths = highs - lows
    errors = None if data.errors is None else data.errors / widths
    dates = is_date(data.groups.column(0).type)
    bins = Bins(lows, highs, data.numbers / widths, errors)
    return draw_histogram(
        bins, label=f"Density of rows over {column}",
        table=_densest_table(columns, data, bins.heights),
        x=column, y=f"Count per {'day' if dates else f'unit of {column}'}", dates=dates,
        note=data.note,
    )  # fmt: skip


def _draw_map_of_boxes(columns: Sequence[str], data: GroupedNumbers) -> Picture:
    """Boxes of two ordered columns; longitudes go across."""
    ends = [positions_of(values) for values in data.groups.columns]
    x_half, y_half = half_step(ends[0], ends[1]), half_step(ends[2], ends[3])
    edges = [ends[0] - x_half, ends[1] + x_half, ends[2] - y_half, ends[3] + y_half]
    areas = (edges[1] - edges[0]) * (edges[3] - edges[2])
    table = _densest_table(columns, data, data.numbers / areas)
    sides = [
        MapSide(
            column,
            ends=(float(edges[2 * index].min()), float(edges[2 * index + 1].max())),
            dates=is_date(data.groups.column(2 * index).type),
        )
        for index, column in enumerate(columns)
    ]
    if is_latitude(columns[0]) and is_longitude(columns[1]):
        sides, edges = sides[::-1], [*edges[2:], *edges[:2]]
    corners = (edge.tolist() for edge in edges)
    boxes = [MapBox(*box) for box in zip(*corners, data.numbers.tolist(), strict=True)]
    note = ""
    if data.errors is not None:
        error = show(float(np.nanmax(data.errors)))
        note = f"The noisy count of a box is within ± {error} of the true count in 95 % of cases."
    label = f"Density of rows over {columns[0]} and {columns[1]}"
    return draw_box_map(boxes, (sides[0], sides[1]), label=label, table=table, note=note)


def _densest_table(columns: Sequence[str], data: GroupedNumbers, density: FloatArray) -> PageTable:
    """The densest boxes with their counts and the error of each."""
    densest = data.select(np.argsort(-density, kind="stable")[:LISTED])
    names = [_range_texts(list(row.values())) for row in densest.groups.to_pylist()]
    return numbers_table(densest, names, columns, f"The densest boxes of {len(density):,}")


def _range_texts(ends: Sequence[object]) -> list[str]:
    texts = [cell_text(end) for end in ends]
    return [f"{low} to {high}" for low, high in zip(texts[::2], texts[1::2], strict=True)]


def _draw_verdicts(
    columns: Sequence[str],
    table: pa.Table,
    range_columns: Sequence[str],
    error: Mapping[str, Any],
) -> Picture | None:
    """Return which ranges exceed a threshold (sparse vector): a full bar for each that does."""
    judged = table.filter(pc.is_valid(table.column("above")))
    if not judged.num_rows:
        return None
    ranges = zip(*(judged.column(name).to_pylist() for name in range_columns), strict=True)
    verdicts = judged.column("above").to_pylist()
    bars = [
        (", ".join(_range_texts(ends)), float(above))
        for ends, above in zip(ranges, verdicts, strict=True)
    ]
    bound = (error.get("verdicts") or {}).get("bound95")
    notes = []
    if bound:
        notes.append(f"A range within {show(bound)} rows of the threshold may be misjudged.")
    if table.num_rows > judged.num_rows:
        notes.append(f"{table.num_rows - judged.num_rows:,} more ranges were not judged.")
    return draw_bars(
        bars[:_MOST_VERDICTS], label="Which ranges hold more rows than the threshold",
        category=" and ".join(columns), value="Threshold", percent=True,
        texts_beside=["above" if above else "below" for above in verdicts[:_MOST_VERDICTS]],
        note=" ".join(notes),
    )  # fmt: skip


def _draw_spread(name: str, numbers: pa.ChunkedArray) -> Picture | None:
    """Draw the size of numbers that belong to no value of the data, such as those of a sketch."""
    values = np.asarray(numbers, dtype=np.float64)
    if len(values) < _FEW_POINTS:
        return None
    counts, edges = np.histogram(values, bins=_FEW_POINTS)
    label = f"Sizes of the {len(values):,} numbers of {name}"
    rows = [
        (f"{show(low)} to {show(high)}", int(count))
        for low, high, count in zip(edges[:-1].tolist(), edges[1:].tolist(), counts, strict=True)
    ]
    table = PageTable(label, ("Number", "How many"), rows)
    bins = Bins(edges[:-1], edges[1:], counts.astype(np.float64))
    return draw_histogram(bins, label=label, table=table, x="Number", y="How many")
