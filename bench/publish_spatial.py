"""Relative error of ranges on maps, at epsilon 0.5: trees of boxes against flat grids."""

from __future__ import annotations

import csv
import time
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.data.counting.axes import Grid
from sfumato.data.counting.frequencies import Frequencies
from sfumato.data.counting.grouping import group
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.unit import Rows
from sfumato.methods.publish import adaptive_grid, kdtree, privtree
from sfumato.methods.publish.request import Request
from sfumato.privacy.accounting.price import price
from sfumato.privacy.noise.discrete import discrete_laplace
from sfumato.privacy.noise.entropy import SystemEntropy

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.methods.publish.spatial_tree import Decomposition

    Ask = Callable[[NDArray[np.int64]], NDArray[np.float64]]

ZIPCODES = Path(__file__).parents[2] / "shared" / "data" / "geo" / "us_zipcodes.csv"
AREA = (("longitude", "-125", "-66"), ("latitude", "24", "50"))
STEP = "0.01"
SHAPES = ((1.0, 1.0), (5.0, 5.0), (10.0, 10.0), (15.0, 0.2))
"""Degrees of longitude and latitude, as in Cormode et al. 2012."""
QUERIES, REPEATS, EPSILON = 600, 2, "0.5"
FLAT, COARSE, FINEST = "flat grid, declared cells", "flat grid, 256 x 256", 256
"""The second has as many cells as the trees have leaves at most."""


def rows() -> list[dict[str, object]]:
    """The error of each way on each map and shape beside that of the flat grid, and times."""
    found: list[dict[str, object]] = []
    for where, counts in maps().items():
        errors = relative_errors(counts, EPSILON)
        for (way, shape), error in errors.items():
            if way != FLAT:
                found.append(
                    {
                        "name": f"spatial: {where}, {shape} degrees, {way}",
                        "unit": "% off",
                        "value": 100 * error,
                        "peer": FLAT,
                        "peer_value": 100 * errors[FLAT, shape],
                        "wanted": "much below flat" if way in {"kd-hybrid", "quadtree"} else None,
                    }
                )
    return found + _times()


def _times() -> list[dict[str, object]]:
    """Seconds of CPU for one tree of height 8."""
    found: list[dict[str, object]] = []
    for size, wanted in ((40_000, "under 1"), (1_000_000, "under 5")):
        counts = of_points(clusters(size))
        tree = kdtree.prepare(_request("1"), height=8, prune=0)
        started = time.process_time()
        tree.release(counts, SystemEntropy())
        spent = time.process_time() - started
        what = f"spatial: kd-tree of height 8 over {size:,} points"
        found.append({"name": what, "unit": "s of CPU", "value": spent, "wanted": wanted})
    return found


def axes() -> tuple[Grid, Grid]:
    """The contiguous United States, to about a kilometre."""
    first, second = (
        Grid(name, Kind.REAL, Bounds(Decimal(low), Decimal(high), Decimal(STEP)), nullable=False)
        for name, low, high in AREA
    )
    return first, second


def of_points(points: NDArray[np.float64]) -> Frequencies:
    """Count points of (longitude, latitude); those outside are left out."""
    both = axes()
    lows = np.array([float(low) for _, low, _ in AREA])
    codes = np.rint((points - lows) / float(STEP)).astype(np.int64)
    sizes = [axis.size for axis in both]
    codes = codes[((codes >= 0) & (codes < sizes)).all(axis=1)]
    merged = group(tuple(codes.T), sizes, np.ones(len(codes), dtype=np.int64))
    return Frequencies(both, tuple(codes[merged.representatives].T), merged.counts)


@cache
def maps() -> dict[str, Frequencies]:
    """The places of ZIP codes, where the file is at hand, and points made up in clusters."""
    found = {"clusters": of_points(clusters(200_000))}
    if ZIPCODES.exists():
        with ZIPCODES.open(encoding="utf-8") as stream:
            places = [(row["lon"], row["lat"]) for row in csv.DictReader(stream) if row["lon"]]
        found["ZIP codes"] = of_points(np.array(places, dtype=np.float64))
    return found


def clusters(count: int) -> NDArray[np.float64]:
    """Points around 300 towns of very unequal size."""
    generator = np.random.default_rng(12)
    towns = generator.uniform([-120, 28], [-70, 48], size=(300, 2))
    sizes = generator.pareto(1.2, size=300) + 1
    chosen = generator.choice(300, size=count, p=sizes / sizes.sum())
    return np.asarray(generator.normal(towns[chosen], 0.15))


def _request(epsilon: str) -> Request:
    return Request(dataset="map", axes=axes(), unit=Rows(), price=price(epsilon=epsilon))


def methods(epsilon: str) -> dict[str, Decomposition]:
    """Every decomposition at one price, as it is without options; the quadtree is a kd-tree's."""
    request = _request(epsilon)
    return {
        "kd-hybrid": kdtree.prepare_hybrid(request),
        "quadtree": kdtree.prepare(request, hybrid=0),
        "privtree": privtree.prepare(request),
        "adaptive grid": adaptive_grid.prepare(request),
    }


def relative_errors(counts: Frequencies, epsilon: str) -> dict[tuple[str, str], float]:
    """By way and shape: the median over ranges of |answer - truth| / truth, a mean of releases."""
    dense = counts.dense()
    truth = _flat(dense.astype(np.float64), dense.shape)
    generator = np.random.default_rng(5)
    asked = {f"{x:g} x {y:g}": _ranges((x, y), dense.shape, truth, generator) for x, y in SHAPES}
    found: dict[tuple[str, str], float] = {}
    for _ in range(REPEATS):
        for way, ask in _releases(counts, dense, epsilon):
            for shape, boxes in asked.items():
                true = truth(boxes)
                error = float(np.median(np.abs(ask(boxes) - true) / true))
                found[way, shape] = found.get((way, shape), 0.0) + error / REPEATS
    return found


def _releases(counts: Frequencies, dense: NDArray[np.int64], epsilon: str) -> list[tuple[str, Ask]]:
    """One release of each way, as what answers ranges."""
    made: list[tuple[str, Ask]] = []
    for name, parts in ((FLAT, dense.shape), (COARSE, (FINEST, FINEST))):
        coarse = dense
        for axis, part in enumerate(parts):
            starts = np.arange(part) * dense.shape[axis] // part
            coarse = np.add.reduceat(coarse, starts, axis=axis)
        noise = discrete_laplace(1 / Fraction(epsilon), coarse.size, SystemEntropy())
        made.append((name, _flat(coarse + noise.reshape(coarse.shape), dense.shape)))
    for name, method in methods(epsilon).items():
        tables = method.release(counts, SystemEntropy())
        made.append((name, lambda boxes, m=method, t=tables: m.ranges(t, boxes)))  # type: ignore[misc]
    return made


def _flat(cells: NDArray[Any], shape: tuple[int, ...]) -> Ask:
    """Answer ranges from even cells, inside which rows lie evenly: running sums interpolated."""
    sums = np.pad(cells.astype(np.float64), [(1, 0), (1, 0)]).cumsum(axis=0).cumsum(axis=1)
    edges = [
        np.arange(part + 1) * size // part for part, size in zip(cells.shape, shape, strict=True)
    ]

    def before(x: NDArray[np.int64], y: NDArray[np.int64]) -> NDArray[np.float64]:
        (i, u), (j, v) = (_place(edge, at) for edge, at in zip(edges, (x, y), strict=True))
        left = sums[i, j] * (1 - v) + sums[i, j + 1] * v
        return np.asarray(left * (1 - u) + (sums[i + 1, j] * (1 - v) + sums[i + 1, j + 1] * v) * u)

    def ask(boxes: NDArray[np.int64]) -> NDArray[np.float64]:
        (x0, x1), (y0, y1) = boxes[:, 0].T, boxes[:, 1].T
        x1, y1 = x1 + 1, y1 + 1
        return np.asarray(before(x1, y1) - before(x0, y1) - before(x1, y0) + before(x0, y0))

    return ask


def _place(
    edges: NDArray[np.int64], at: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The cell in which a corner lies, and how far into it."""
    cell = np.clip(np.searchsorted(edges, at, side="right") - 1, 0, len(edges) - 2)
    return cell, (at - edges[cell]) / (edges[cell + 1] - edges[cell])


def _ranges(
    degrees: tuple[float, float],
    shape: tuple[int, ...],
    truth: Ask,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """Boxes of one size at random places, none of them empty."""
    spans = np.rint(np.array(degrees) / float(STEP)).astype(np.int64)
    found = np.empty((0, 2, 2), dtype=np.int64)
    while len(found) < QUERIES:
        lows = generator.integers(0, np.array(shape) - spans + 1, size=(QUERIES, 2))
        boxes = np.stack([lows, lows + spans - 1], axis=2)
        found = np.concatenate([found, boxes[truth(boxes) > 0.5]])
    return found[:QUERIES]
