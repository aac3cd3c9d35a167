"""The utility of synthetic trajectories: the same measures of both tables, compared.

Every figure here reads the original trajectories, so it is for their owner alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

from sfumato.methods.trajectory.cells import Squares
from sfumato.methods.trajectory.paths import Paths, dense_ranks, parse_times, to_float64
from sfumato.methods.trajectory.synthesize import declared_box, shift_to_one_day
from sfumato.report.display import Card, Shown

if TYPE_CHECKING:
    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.engines.base import Engine
    from sfumato.data.schema.schema import Points, Schema
    from sfumato.methods.trajectory.cells import Box


_QUESTIONS = 200
# Shares of paths below this count as this, where an error is set against them.
_LEAST = 0.01
_BINS = 20
_ENDS, _TOP = 6, 100
PATTERN_GRIDS = (7, 10, 15)


@dataclass(frozen=True, repr=False)
class PathUtility(Shown):
    """Five differences between original and synthetic trajectories.

    0 is best, except for `patterns`, where 1 is best.
    """

    ranges: float
    """The mean error of the share of paths that pass through a rectangle, relative to it."""
    trips: float
    """The divergence of pairs of first and last place, 6 x 6 cells."""
    travelled: float
    """The divergence of distances gone."""
    diameter: float
    """The divergence of the largest distances between points of a path."""
    patterns: float
    """The share of the 100 commonest pairs and triples of cells that are so in both.

    The mean over grids of 7, 10 and 15 cells across: a street that lies on the border of two cells
    of one grid makes patterns there that nobody sees in another.
    """

    def to_json(self) -> dict[str, float]:
        """Return all of them by name."""
        return {
            "ranges": self.ranges,
            "trips": self.trips,
            "travelled": self.travelled,
            "diameter": self.diameter,
            "patterns": self.patterns,
        }

    def _card(self) -> Card:
        facts: dict[str, Any] = {name: f"{figure:.3f}" for name, figure in self.to_json().items()}
        return Card("differences between original and synthetic trajectories", facts)


def utility(real: Paths, synthetic: Paths, box: Box) -> PathUtility:
    """Measure original and synthetic trajectories over the declared box and compare them."""
    return PathUtility(
        ranges=_ranges(real, synthetic, box),
        trips=divergence(*(_trips(paths, box) for paths in (real, synthetic))),
        travelled=divergence(*_histograms(travelled(real), travelled(synthetic))),
        diameter=divergence(*_histograms(diameters(real), diameters(synthetic))),
        patterns=float(np.mean([shared_patterns(real, synthetic, box, n) for n in PATTERN_GRIDS])),
    )


def divergence(first_counts: FloatArray, second_counts: FloatArray) -> float:
    """Return the Jensen-Shannon divergence in bits: 0 for equal shares, 1 for disjoint ones."""
    first, second = (shares / max(shares.sum(), 1e-300) for shares in (first_counts, second_counts))
    middle = (first + second) / 2
    return float((_relative(first, middle) + _relative(second, middle)) / 2)


def _relative(shares: FloatArray, to: FloatArray) -> float:
    held = shares > 0
    return float((shares[held] * np.log2(shares[held] / to[held])).sum())


def _ranges(real: Paths, synthetic: Paths, box: Box) -> float:
    """The mean relative error over fixed rectangles with sides of a tenth to half of the box."""
    number = np.arange(1, _QUESTIONS + 1)[:, None]
    # A low-discrepancy sequence in four dimensions: additive recurrences by powers of the root of
    # x^5 = x + 1, so that the rectangles cover the box evenly without a random seed.
    drawn = (number * np.array([0.8566749, 0.7338919, 0.6287067, 0.5385973])) % 1
    wide = np.array([box.east - box.west, box.north - box.south])
    side = (0.1 + 0.4 * drawn[:, :2]) * wide
    low = np.array([box.west, box.south]) + drawn[:, 2:] * (wide - side)
    shares = [_passing(paths, low, low + side) for paths in (real, synthetic)]
    return float((np.abs(shares[0] - shares[1]) / np.maximum(shares[0], _LEAST)).mean())


def _passing(paths: Paths, low: FloatArray, high: FloatArray) -> FloatArray:
    path, shares = paths.path_of, np.zeros(len(low))
    for index, (start, end) in enumerate(zip(low, high, strict=True)):
        inside = (paths.x >= start[0]) & (paths.x <= end[0])
        inside &= (paths.y >= start[1]) & (paths.y <= end[1])
        # Points lie path after path, so each change of the number is one more path.
        through = path[inside]
        path_count = int(np.count_nonzero(np.diff(through))) + bool(len(through))
        shares[index] = path_count / max(len(paths), 1)
    return shares


def _trips(paths: Paths, box: Box) -> FloatArray:
    grid = Squares.of(box, _ENDS, _ENDS)
    cells = grid.locate(paths.x, paths.y)
    pairs = cells[paths.first] * grid.size + cells[paths.first + paths.lengths - 1]
    return np.bincount(pairs, minlength=grid.size**2).astype(np.float64)


def _histograms(real: FloatArray, synthetic: FloatArray) -> tuple[FloatArray, FloatArray]:
    top = max(float(np.quantile(real, 0.99)), 1e-9) if len(real) else 1.0
    edges = np.append(np.linspace(0, top, _BINS), np.inf)
    return tuple(np.histogram(values, edges)[0].astype(np.float64) for values in (real, synthetic))  # type: ignore[return-value]


def travelled(paths: Paths) -> FloatArray:
    """Return the length of each path, from point to point."""
    steps = paths.steps
    distances = np.hypot(paths.x[steps + 1] - paths.x[steps], paths.y[steps + 1] - paths.y[steps])
    return np.asarray(np.bincount(paths.path_of[steps], distances, len(paths)), dtype=np.float64)


def diameters(paths: Paths) -> FloatArray:
    """Return the width of each path: the diagonal of the smallest rectangle around it."""
    if not len(paths):
        return np.zeros(0)
    wide = [
        np.maximum.reduceat(coordinates, paths.first)
        - np.minimum.reduceat(coordinates, paths.first)
        for coordinates in (paths.x, paths.y)
    ]
    return np.asarray(np.hypot(*wide))


def shared_patterns(real: Paths, synthetic: Paths, box: Box, cells: int) -> float:
    """Return the share of the most common patterns of `real` that `synthetic` has, too.

    Patterns are of the cells of a grid that is `cells` cells wide and high.
    """
    grid = Squares.of(box, cells, cells)
    real_patterns = _patterns(real, grid)
    return len(real_patterns & _patterns(synthetic, grid)) / max(len(real_patterns), 1)


def _patterns(paths: Paths, grid: Squares) -> set[int]:
    """Return the most common sequences of two and of three different cells, each as a number."""
    cells, path = grid.locate(paths.x, paths.y), paths.path_of
    new = np.ones(len(cells), dtype=bool)
    new[1:] = (np.diff(cells) != 0) | (np.diff(path) != 0)
    cells, path = cells[new], path[new]
    codes_by_length: list[IntArray] = []
    for length in (2, 3):
        together = path[length - 1 :] == path[: len(path) - length + 1]
        code = np.zeros(max(len(path) - length + 1, 0), dtype=np.int64)
        for offset in range(length):
            code = code * (grid.size + 1) + 1 + cells[offset : offset + len(code)]
        codes_by_length.append(code[together])
    codes, pattern_counts = np.unique(np.concatenate(codes_by_length), return_counts=True)
    return set(codes[np.lexsort((codes, -pattern_counts))[:_TOP]].tolist())


# The comparison of two tables in any engine, for the owner.


# Across and up, of a map of points.
MAP_CELLS = 16


def compare_paths(
    original: Engine, synthetic: Engine, schema: Schema, form: Points
) -> tuple[PathUtility, tuple[int, int], list[FloatArray]] | None:
    """Return the differences, the numbers of paths and a map of the points of each table.

    None if one of the tables has no readable path. The original is thinned to the median time
    between two points of the synthetic table.
    """
    real, drawn = (all_paths(engine, form) for engine in (original, synthetic))
    if not len(real) or not len(drawn):
        return None
    gaps = (drawn.times[1:] - drawn.times[:-1])[drawn.steps]
    every = float(np.median(gaps)) if len(gaps) else 0.0
    if every > 0:
        real = real.thinned(every)
    box = declared_box(schema, form)
    grid = Squares.of(box, MAP_CELLS, MAP_CELLS)
    maps = [
        np.bincount(grid.locate(paths.x, paths.y), minlength=grid.size).reshape(
            MAP_CELLS, MAP_CELLS
        )
        / len(paths.x)
        for paths in (real, drawn)
    ]
    return utility(real, drawn, box), (len(real), len(drawn)), maps


def all_paths(engine: Engine, form: Points) -> Paths:
    """Every path of a table without a bound per person. No private method may use it."""
    names = (form.path, form.time, form.x, form.y)
    present = [exp.column(name, quoted=True).is_(exp.Null()).not_() for name in names]
    query = exp.select(*(exp.column(name, quoted=True) for name in names)).from_(
        engine.table.copy()
    )
    table = engine.run(query.where(*present))
    path = dense_ranks(table.column(form.path))
    time = parse_times(table.column(form.time))
    x, y = (to_float64(table.column(name)) for name in (form.x, form.y))
    held = np.isfinite(time) & np.isfinite(x) & np.isfinite(y)
    path_numbers = path[held]
    return shift_to_one_day(Paths.of(path_numbers, path_numbers, time[held], x[held], y[held]))
