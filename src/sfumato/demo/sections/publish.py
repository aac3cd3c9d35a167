"""Publish statistics: a map at four prices, and how far off each method is."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np

from sfumato.demo import homes
from sfumato.demo.draws import below
from sfumato.report import charts
from sfumato.report.blocks import Heading, Mosaic, Note, Paragraph, Table
from sfumato.vault.private import protect
from sfumato.vault.table import read

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.demo.context import Town
    from sfumato.report.blocks import Block
    from sfumato.vault.table import Table as Opened

EPSILONS = ("1", "0.1", "0.01", "0.001")
_METHODS = {
    "every cell": "histogram",
    "tree": "auto",
    "quadtree": "quadtree",
    "wavelet": "wavelet",
    "private medians": "kdtree",
    "adaptive grid": "adaptive-grid",
    "PrivTree": "privtree",
    "multiplicative weights": "mwem",
}
_QUERIES = 400
_COLUMNS = ("east", "north")


def section(town: Town) -> list[Block]:
    """Publish where the people of the town live, at four prices and by every method."""
    table = homes.table(town.people.num_rows)
    with closing(read(table, homes.SCHEMA)) as opened:
        truth = np.zeros((homes.SIDE, homes.SIDE))
        np.add.at(truth, (table["north"].to_numpy(), table["east"].to_numpy()), 1)
        return [
            Heading("Publish statistics"),
            Paragraph(
                "A table of counts can be published once and for all, with noise in every cell "
                "that hides any one person. The map shows in which of "
                f"{homes.SIDE * homes.SIDE:,} cells people live. The smaller epsilon, the better "
                "they are hidden and the more noise there is."
            ),
            _map(opened, truth),
            *_methods(opened, truth),
        ]


def _map(opened: Opened, truth: NDArray[np.float64]) -> Mosaic:
    """The truth beside noisy counts of every cell."""
    tiles = [("the truth", truth)]
    rows = []
    for epsilon in EPSILONS:
        private = protect(opened, epsilon=epsilon)
        release = private.publish("histogram", columns=_COLUMNS, epsilon=epsilon)
        cells = release.table["count"].to_numpy().reshape(truth.shape).T.astype(np.float64)
        tiles.append((f"epsilon {epsilon}", cells))
        off = np.abs(cells - truth)
        rows.append((epsilon, f"{off.mean():,.2f}", f"{off.max():,.0f}"))
    label = "Homes in each cell of the map: the truth, and what may be published"
    headers = ("Epsilon", "Average error of a cell", "Largest")
    return Mosaic(label, tiles, Table(label, headers, rows))


def _methods(opened: Opened, truth: NDArray[np.float64]) -> list[Block]:
    """The error of random rectangles by every method at every price."""
    ends = below("rectangles", np.arange(4 * _QUERIES, dtype=np.uint64), homes.SIDE)
    queries = np.sort(ends.reshape(_QUERIES, 2, 2), axis=2)
    exact = _sums(truth, queries)
    points = []
    for name, kind in _METHODS.items():
        for epsilon in EPSILONS:
            private = protect(opened, epsilon=epsilon)
            release = private.publish(kind, columns=_COLUMNS, epsilon=epsilon, workload=queries)
            off = np.sqrt(np.mean((release.ranges(queries) - exact) ** 2))
            points.append(charts.Point(name, float(epsilon), float(off)))
    return [
        Heading("One map, many ways", level=3),
        Paragraph(
            "Who asks for rectangles of the map, not for cells, gets far better answers from "
            "methods that count larger regions too, or that find out where people live before "
            f"they count. Each point is the typical error over {_QUERIES} random rectangles in one "
            "release."
        ),
        charts.line(
            points,
            label="Typical error of the number of homes in a rectangle",
            x="Epsilon",
            y="Homes",
            series="Method",
            logarithmic=True,
            logarithmic_y=True,
        ),
        Note(
            "Which method is best must be chosen from what is public, before anything is spent: "
            "trying them all, as this page does with made-up people, would cost the price of each."
        ),
    ]


def _sums(cells: NDArray[np.float64], queries: NDArray[np.int64]) -> NDArray[np.float64]:
    """The rows in each rectangle, (east, north) ends included."""
    sums = np.pad(cells.cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    (west, east), (south, north) = queries[:, 0].T, queries[:, 1].T
    upper = sums[north + 1, east + 1] - sums[north + 1, west]
    return np.asarray(upper - (sums[south, east + 1] - sums[south, west]))
