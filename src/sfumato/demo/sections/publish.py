"""Publish statistics: a map at four epsilons, and the error of each method."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.demo.draws import below
from sfumato.demo.registers import HOMES, MAP_SIDE, homes_table
from sfumato.demo.town import MAX_VISITS, schema_of
from sfumato.privacy.estimation.boxes import box_sums
from sfumato.release.open_table import read
from sfumato.report.blocks import Heading, Note, PageTable, Paragraph
from sfumato.report.heat_maps import draw_tiles
from sfumato.report.points import Point, draw_lines
from sfumato.vault.protection import protect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray
    from sfumato.demo.town import Town
    from sfumato.release.open_table import Table as Opened
    from sfumato.report.blocks import Block
    from sfumato.report.picture import Picture

EPSILONS = ("1", "0.1", "0.01", "0.001")
_ON_THE_MAP = {
    "every cell": "histogram",
    "tree": "auto",
    "quadtree": "quadtree",
    "wavelet": "wavelet",
    "private medians": "kdtree",
    "adaptive grid": "adaptive-grid",
    "PrivTree": "privtree",
    "multiplicative weights": "mwem",
}
_OVER_THE_YEAR = {
    "every day": "histogram",
    "tree": "auto",
    "wavelet": "wavelet",
    "running counts": "continual",
    "Fourier": "fourier",
    "DAWA": "dawa",
    "multiplicative weights": "mwem",
}
"""The name of each kind of publication on the page, and in the library."""
_QUERIES = 400
_COLUMNS = ("east", "north")


def section(town: Town) -> list[Block]:
    """Publish where people live and when they see a doctor, with every method."""
    return [
        Heading("Publish statistics"),
        Paragraph(
            "A table of counts can be published once and for all, with noise in every cell that "
            f"hides any one person. The map shows in which of {MAP_SIDE**2:,} cells people live. A "
            "smaller epsilon hides them better and adds more noise."
        ),
        *_homes(town.people.num_rows),
        *_days(town.visits),
        Note(
            "Choose the method from public facts, before spending any budget. Trying all of them, "
            "as this page does with made-up people, would cost the budget of each."
        ),
    ]


def _homes(people: int) -> list[Block]:
    """The map at four epsilons, and the error of each method for counts in rectangles."""
    table, truth = homes(people)
    # Two sorted corners on each axis; both ends are inclusive.
    ends = below("rectangles", np.arange(4 * _QUERIES, dtype=np.uint64), MAP_SIDE)
    queries = np.sort(ends.reshape(_QUERIES, 2, 2), axis=2)
    with read(table, HOMES) as opened:
        return [
            homes_map(opened, truth),
            Heading("One map, many methods", level=3),
            Paragraph(
                "A count in a rectangle of the map adds up many cells and their noise. Methods "
                "that also count larger regions, or first find out where people live, do better "
                "on fine maps and at small epsilon. Each point is the typical error of one release "
                f"over {_QUERIES} random rectangles."
            ),
            _errors(opened, _COLUMNS, _ON_THE_MAP, queries, box_sums(truth, queries), "homes"),
        ]


def homes(people: int) -> tuple[pa.Table, FloatArray]:
    """Where people live, and the number of people in each cell of the map."""
    table = homes_table(people)
    truth = np.zeros((MAP_SIDE, MAP_SIDE))
    np.add.at(truth, (table["east"].to_numpy(), table["north"].to_numpy()), 1)
    return table, truth


def _days(visits: pa.Table) -> list[Block]:
    """The error of each method for counts in ranges of days."""
    days = visits["day"].combine_chunks().cast(pa.int32()).to_numpy()
    first, last = int(days.min()), int(days.max())
    truth = np.bincount(days - first).astype(np.float64)
    ends = below("stretches", np.arange(2 * _QUERIES, dtype=np.uint64), last - first + 1)
    ranges = np.sort(ends.reshape(_QUERIES, 1, 2), axis=2)
    exact = box_sums(truth, ranges)
    queries = (ranges + first).astype("datetime64[D]")
    with read(visits, schema_of("visits")) as visited:
        # Twelve, so that nobody's visits are left out of any day.
        unit: Any = visited.schema.unit
        everyday = replace(visited.schema, unit=replace(unit, max_groups=MAX_VISITS))
        opened = replace(visited, schema=everyday)
        return [
            Heading("One year, many methods", level=3),
            Paragraph(
                "This chart shows the errors for visits to the clinic in random ranges of days. "
                "The noise hides a person with all their visits, at most twelve."
            ),
            _errors(opened, ("day",), _OVER_THE_YEAR, queries, exact, "visits"),
        ]


def homes_map(opened: Opened, truth: FloatArray, epsilons: Sequence[str] = EPSILONS) -> Picture:
    """The true counts of every cell beside noisy ones."""
    tiles = [("the truth", truth.T)]
    rows = []
    for epsilon in epsilons:
        private = protect(opened, epsilon=epsilon)
        release = private.publish("histogram", columns=_COLUMNS, epsilon=epsilon)
        cells = release.table["count"].to_numpy().reshape(truth.shape).astype(np.float64)
        tiles.append((f"epsilon {epsilon}", cells.T))  # east goes across, north goes up
        off = np.abs(cells - truth)
        rows.append((epsilon, f"{off.mean():,.2f}", f"{off.max():,.0f}"))
    label = "Homes in each cell of the map: the truth, and what can be published"
    headers = ("Epsilon", "Average error of a cell", "Largest")
    return draw_tiles(tiles, label=label, table=PageTable(label, headers, rows), value="Homes")


def _errors(
    opened: Opened,
    columns: Sequence[str],
    methods: Mapping[str, str],
    queries: NDArray[np.generic],
    exact: FloatArray,
    counted: str,
) -> Picture:
    """The root mean squared error of range counts, by every method and epsilon."""
    points = []
    for name, kind in methods.items():
        for epsilon in EPSILONS:
            # A new budget for each method: here the rows are made up, so nothing is spent twice.
            private = protect(opened, epsilon=epsilon)
            release = private.publish(kind, columns=columns, epsilon=epsilon, workload=queries)
            off = np.sqrt(np.mean((release.ranges(queries) - exact) ** 2))
            points.append(Point(name, float(epsilon), float(off)))
    return draw_lines(
        points,
        label=f"Typical error of the number of {counted} in a range",
        x="Epsilon",
        y=counted.capitalize(),
        series="Method",
        logarithmic=True,
        logarithmic_y=True,
    )
