"""Trees of boxes that grow over private rows, and their release.

*Invariant*: at every moment the undivided boxes and the blocks of missing values are a partition of
all rows. A measurement is of boxes of the partition, so its sensitivity is that of a histogram.

A row with a missing value has no position in the order. Such rows are counted apart, in one block
for each combination of present and missing values: a few blocks, however fine the columns are.
Decision `spatial-trees`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato import arguments
from sfumato.data.counting.axes import Grid
from sfumato.data.schema.names import quoted
from sfumato.errors import ParameterError
from sfumato.exact_numbers import exact, plain
from sfumato.methods.publish.domain import blank_boxes, blank_figures, points
from sfumato.methods.publish.postprocess import caveat, postprocess
from sfumato.privacy.estimation.boxes import estimates, unevenness, variances
from sfumato.privacy.estimation.trees import (
    BoxTree,
    Generation,
    LeastSquares,
    distribute_down,
    in_small_families,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.data.counting.axes import Axis
    from sfumato.data.counting.frequencies import Counter
    from sfumato.methods.publish.request import Request
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.mechanisms.spending import Noise, Spending
    from sfumato.privacy.noise.entropy import Entropy

# The most leaves of a tree.
MAX_BOXES = 1 << 22


@dataclass
class Division:
    """Some boxes while they are divided, with the occupied cells in them."""

    lows: IntArray
    highs: IntArray
    origins: IntArray
    """For each part the index of its box among those that are divided."""
    codes: IntArray
    rows: IntArray
    box_of_cell: IntArray
    """The box in which each cell lies."""

    def sizes(self, axis: int) -> IntArray:
        """Return how many codes of an axis each box spans."""
        return self.highs[:, axis] - self.lows[:, axis] + 1

    def cut(self, axis: int, cuts: IntArray) -> None:
        """Cut each box in two after a code; a cut after its last code divides nothing."""
        lower_ends = self.highs.copy()
        lower_ends[:, axis] = cuts
        upper_starts = self.lows.copy()
        upper_starts[:, axis] = cuts + 1
        beyond = self.codes[:, axis] > cuts[self.box_of_cell]
        origin, half = self._divide(np.where(cuts < self.highs[:, axis], 2, 1), beyond)
        is_upper = half[:, None] == 1
        self.highs = np.where(is_upper, self.highs[origin], lower_ends[origin])
        self.lows = np.where(is_upper, upper_starts[origin], self.lows[origin])

    def evenly(self, axis: int, part_counts: IntArray) -> None:
        """Cut each box into parts whose sizes differ by at most one code."""
        sizes, starts = self.sizes(axis), self.lows[:, axis]
        part_counts = np.minimum(part_counts, sizes)
        offsets = self.codes[:, axis] - starts[self.box_of_cell]
        # Part j begins at floor(j size / parts); this inverts it for an offset.
        within = ((offsets + 1) * part_counts[self.box_of_cell] - 1) // sizes[self.box_of_cell]
        origin, part = self._divide(part_counts, within)
        self.lows, self.highs = self.lows[origin], self.highs[origin]
        self.lows[:, axis] = starts[origin] + part * sizes[origin] // part_counts[origin]
        self.highs[:, axis] = starts[origin] + (part + 1) * sizes[origin] // part_counts[origin] - 1

    def _divide(
        self, part_counts: IntArray, within: IntArray | BoolArray
    ) -> tuple[IntArray, IntArray]:
        """Move cells to their parts; return the box of each part, and its index within the box."""
        firsts = np.cumsum(part_counts) - part_counts
        origin = np.repeat(np.arange(len(part_counts)), part_counts)
        self.box_of_cell = firsts[self.box_of_cell] + within
        self.origins = self.origins[origin]
        return origin, np.arange(len(origin)) - firsts[origin]


class Growth:
    """A growing tree: its boxes, and the measurements of each of them."""

    def __init__(
        self,
        space: Space,
        codes: IntArray,
        rows: IntArray,
        missing: IntArray,
    ) -> None:
        self._codes, self._rows, self._missing = codes, rows, missing
        self._lows = np.zeros((1, len(space.shape)), dtype=np.int64)
        self._highs = np.array([space.shape], dtype=np.int64) - 1
        self._parents = np.array([-1])
        self._last = np.array([0])  # the undivided boxes
        self._newest = 0  # the first box of the last division
        self._box_of_cell = np.zeros(len(rows), dtype=np.int64)  # an index into `_last`
        self._weighted, self._precisions = np.zeros(1), np.zeros(1)
        self._missing_weighted, self._missing_precision = np.zeros(len(missing)), 0.0

    def counts(self) -> IntArray:
        """Return the exact rows in each undivided box, which are private."""
        counts: IntArray = np.zeros(len(self._last), dtype=np.int64)
        np.add.at(counts, self._box_of_cell, self._rows)
        return counts

    def sizes(self) -> IntArray:
        """Return how many codes of each axis each undivided box spans."""
        return np.asarray(self._highs[self._last] - self._lows[self._last] + 1)

    def measure(
        self,
        noise: Noise,
        entropy: Entropy,
        *,
        chosen: BoolArray | None = None,
        missing: bool = True,
    ) -> None:
        """Count the partition with noise; counts of one box are averaged by precision.

        Parameters
        ----------
        noise, entropy
            The noise of the counts.
        chosen : array of bool, optional
            The undivided boxes to measure; all by default.
        missing : bool
            Whether to measure the blocks of missing values.
        """
        nodes = self._last if chosen is None else self._last[chosen]
        counts = self.counts() if chosen is None else self.counts()[chosen]
        apart = self._missing if missing else self._missing[:0]
        figures = noise.steps(np.concatenate([counts, apart]), entropy).astype(np.float64)
        precision = 1 / noise.variance
        self._weighted[nodes] += precision * figures[: len(nodes)]
        self._precisions[nodes] += precision
        if missing:
            self._missing_weighted += precision * figures[len(nodes) :]
            self._missing_precision += precision

    def estimates(self) -> FloatArray:
        """Return the noisy estimate of each undivided box, which is no longer private."""
        return np.asarray(self._weighted[self._last] / self._precisions[self._last])

    @property
    def newest(self) -> BoolArray:
        """A mask of the undivided boxes of the last division: only these are divided further."""
        return np.asarray(self._last >= self._newest)

    def room(self, parts_per_box: int) -> int:
        """The number of undivided boxes that may still be divided into so many parts each."""
        return (MAX_BOXES - len(self._last)) // max(parts_per_box - 1, 1)

    def begin(self, chosen: BoolArray) -> Division:
        """Begin to divide the chosen boxes; other boxes are never divided again."""
        self._chosen = chosen & self.newest
        self._moving = self._chosen[self._box_of_cell]
        rank = np.cumsum(self._chosen) - 1
        nodes = self._last[self._chosen]
        return Division(
            self._lows[nodes],
            self._highs[nodes],
            np.arange(len(nodes)),
            self._codes[self._moving],
            self._rows[self._moving],
            rank[self._box_of_cell[self._moving]],
        )

    def end(self, division: Division) -> None:
        """Replace the divided boxes by their parts."""
        undivided = self._last[~self._chosen]
        added = np.arange(len(division.origins))
        rank = np.cumsum(~self._chosen) - 1
        self._box_of_cell = rank[self._box_of_cell]
        self._box_of_cell[self._moving] = len(undivided) + division.box_of_cell
        self._parents = np.append(self._parents, self._last[self._chosen][division.origins])
        self._newest = len(self._lows)
        self._last = np.append(undivided, self._newest + added)
        self._lows = np.concatenate([self._lows, division.lows])
        self._highs = np.concatenate([self._highs, division.highs])
        zeros = np.zeros(len(added))
        self._weighted = np.append(self._weighted, zeros)
        self._precisions = np.append(self._precisions, zeros)

    @property
    def tree(self) -> BoxTree:
        """The tree of all boxes."""
        return BoxTree(self._lows, self._highs, self._parents)

    @property
    def measured(self) -> tuple[FloatArray, FloatArray]:
        """The mean of the measurements of each node, and its precision: 0 without measurements."""
        known = self._precisions > 0
        means = np.divide(self._weighted, self._precisions, out=np.zeros(len(known)), where=known)
        return means, self._precisions

    @property
    def missing(self) -> tuple[FloatArray, float]:
        """The estimates of the blocks of missing values, and the precision of each."""
        return self._missing_weighted / self._missing_precision, self._missing_precision


# The most points of one column: the number of a box and a code then fit 64 bits together.
MAX_POINTS = 1 << 40
_MAX_COLUMNS = 4
_PRESENT = ("present", "missing", "not a number")


@dataclass(frozen=True)
class Space:
    """The columns of a decomposition."""

    axes: tuple[Axis, ...]

    def __post_init__(self) -> None:
        if len(self.axes) > _MAX_COLUMNS:
            raise ParameterError(
                "problem_too_large",
                f"Boxes lie in at most {_MAX_COLUMNS} columns, not {len(self.axes)}: each more "
                "doubles the parts of every box. Name fewer, or publish 'marginals'.",
            )
        for axis, size in zip(self.axes, self.shape, strict=True):
            if not 1 <= size <= MAX_POINTS:
                raise ParameterError(
                    "problem_too_large",
                    f"Column {quoted(axis.column)} has {size:,} points; boxes need from 1 to "
                    f"{MAX_POINTS:,}. Declare a coarser step.",
                )

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The points of each column."""
        return tuple(points(axis) for axis in self.axes)

    @cached_property
    def patterns(self) -> list[tuple[int, ...]]:
        """For each block of missing values the state of each column: 0 present, 1 NULL, 2 NaN."""
        kinds = [range(1 + axis.size - points(axis)) for axis in self.axes]
        return list(product(*kinds))[1:]

    def plant(self, counter: Counter) -> Growth:
        """Start a tree: one box with all rows in it."""
        counts = counter.of([axis.column for axis in self.axes])
        codes = np.stack([axis_codes.astype(np.int64) for axis_codes in counts.codes], axis=1)
        kinds = np.maximum(codes - np.array(self.shape) + 1, 0)
        inside = ~kinds.any(axis=1)
        sizes = [1 + axis.size - points(axis) for axis in self.axes]
        missing = np.zeros(int(np.prod(sizes)), dtype=np.int64)
        np.add.at(missing, np.ravel_multi_index(tuple(kinds.T), sizes), counts.counts)
        return Growth(self, codes[inside], counts.counts[inside], missing[1:])

    def table(self, tree: BoxTree, counts: FloatArray, variances: FloatArray | None) -> pa.Table:
        """One row for each box, the root first: its ends, level, parent, count and sd.

        The sd is null where variances are unknown.
        """
        columns: dict[str, pa.Array] = {}
        for index, axis in enumerate(self.axes):
            columns[f"{axis.column}_low"] = axis.decode(tree.lows[:, index])
            columns[f"{axis.column}_high"] = axis.decode(tree.highs[:, index])
        columns["level"] = pa.array(tree.depths)
        columns["parent"] = pa.array(tree.parents, mask=tree.parents < 0)
        columns["leaf"] = pa.array(tree.leaves)
        columns["count"] = pa.array(counts)
        columns["sd"] = _deviations(variances, len(counts))
        return pa.table(columns)

    def read(self, table: pa.Table) -> tuple[BoxTree, FloatArray]:
        """Return the tree and the counts of a table made by `table`."""
        lows = self._codes(table, "low")
        parents = np.asarray(table.column("parent").fill_null(-1), dtype=np.int64)
        counts = np.asarray(table.column("count"), dtype=np.float64)
        return BoxTree(lows, self._codes(table, "high"), parents), counts

    def _codes(self, table: pa.Table, end: str) -> IntArray:
        """Return the codes of the values at one end of each box."""
        codes = [_code(axis, table.column(f"{axis.column}_{end}")) for axis in self.axes]
        return np.stack(codes, axis=1)

    def missing(self, counts: FloatArray, variance: float | None) -> pa.Table:
        """One row for each combination of missing values."""
        names_of_kinds: list[Sequence[str]] = [
            [_PRESENT[kind] for kind in pattern] for pattern in self.patterns
        ]
        names = [f"{axis.column}_is" for axis in self.axes]
        arrays = [pa.array(column) for column in zip(*names_of_kinds, strict=True)]
        spread = None if variance is None else np.full(len(counts), variance)
        deviations = _deviations(spread, len(counts))
        return pa.Table.from_arrays(
            [*arrays, pa.array(counts), deviations], names=[*names, "count", "sd"]
        )


def _deviations(variances: FloatArray | None, size: int) -> pa.Array:
    return pa.nulls(size, pa.float64()) if variances is None else pa.array(np.sqrt(variances))


def _code(axis: Axis, values: pa.ChunkedArray) -> IntArray:
    if not isinstance(axis, Grid):
        return np.asarray(pc.index_in(values, value_set=axis.values), dtype=np.int64)
    ends = values.combine_chunks()
    first = axis.decode(np.zeros(1, dtype=np.int64))
    if pa.types.is_date(ends.type):
        ends, first = ends.cast(pa.int32()), first.cast(pa.int32())
    step = float(axis.bounds.grid_step or 1)
    # Fewer than 2^40 points, so the nearest whole number is the code.
    codes: IntArray = np.rint((np.asarray(ends) - np.asarray(first)) / step).astype(np.int64)
    return codes


# Weights of levels are rounded to multiples of 1 / _GRAIN.
_GRAIN = 1 << 20
_LEAST_SHARE = Fraction(1, 10**6)
# Most rows end in leaves of about this depth.
USUAL_HEIGHT = 8


def price_share(value: object, name: str, *, default: Fraction) -> Fraction:
    """Read the share of the price that is spent on the shape of a tree."""
    share = default if value is None else exact(value, name)
    if not _LEAST_SHARE <= share <= 1 - _LEAST_SHARE:
        raise ParameterError(
            "parameter_out_of_range",
            f"{name} must be a share of the price from {plain(_LEAST_SHARE)} to "
            f"{plain(1 - _LEAST_SHARE)}, not {arguments.shown(value)}.",
            parameter=name,
            given=arguments.shown(value),
        )
    return share


def level_shares(height: int, dimensions: int, spending: Spending) -> list[Fraction]:
    """Return the shares of the levels of a tree, the root's first, of least error on ranges.

    They grow down to depth 8. All n levels below that have together as much as sqrt(n) levels,
    because a tree is that deep in few boxes only, where many rows are.

    A range crosses about 2^((k-1) i) nodes of depth i in k dimensions. The sum of crossings times
    variances is least for shares that grow as the cube root of the crossings under Laplace noise,
    of variance 1 / share^2, and as their square root under Gaussian noise, of variance 1 / share
    (Cormode et al. 2012, Lemma 3).
    """
    growth = 2 ** ((dimensions - 1) / (2 if spending.epsilon is None else 3))
    most = growth ** min(height, USUAL_HEIGHT)
    further = max(height - USUAL_HEIGHT, 1) ** 0.5
    weights = [
        Fraction(round((growth**depth if depth <= USUAL_HEIGHT else most / further) * _GRAIN))
        for depth in range(height + 1)
    ]
    return [weight / sum(weights) for weight in weights]


_SPREAD = (
    "The noise alone. Inside a smallest box rows are taken to lie evenly; a range that ends within "
    "one may be off by its rows besides, which `ranges_unevenness` of the release bounds."
)


@dataclass(frozen=True, kw_only=True)
class Decomposition(ABC):
    """A tree of boxes with noisy counts, made consistent; kinds differ in its growth."""

    space: Space
    noises: tuple[Noise, ...]
    """The noise of each measurement of the whole partition, in order."""
    steps: tuple[str, ...] = ()

    @property
    @abstractmethod
    def event(self) -> Event:
        """The privacy cost of the release."""

    @property
    @abstractmethod
    def parameters(self) -> Mapping[str, Any]:
        """The choices made, in JSON form."""

    @abstractmethod
    def grow(self, growth: Growth, entropy: Entropy) -> None:
        """Divide boxes and measure them, with each of the noises once."""

    def precisions(self, tree: BoxTree) -> FloatArray:
        """1 / variance of all measurements of each node of a released tree.

        The first noise measures the root, and each further noise all undivided boxes. So an inner
        node is measured once, and a leaf with every noise from its own level on.
        """
        level_precisions = np.array([1 / noise.variance for noise in self.noises])
        onward = np.cumsum(level_precisions[::-1])[::-1]
        return np.where(tree.leaves, onward[tree.depths], level_precisions[tree.depths])

    @property
    def error(self) -> Mapping[str, Any]:
        """The largest sd of a smallest box, with notes on other errors."""
        stated = {"box": {"sd": self.noises[-1].stddev}, "note": _SPREAD}
        return {**stated, "postprocess": caveat(self.steps)} if self.steps else stated

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The released tables without rows, with their main columns."""
        blank = {"boxes": blank_boxes(self.space.axes)}
        return {**blank, "missing": blank_figures("count")} if self.space.patterns else blank

    def release(self, counter: Counter, entropy: Entropy) -> Mapping[str, pa.Table]:
        """A table of all boxes and, where values can be missing, a table of those rows."""
        growth = self.space.plant(counter)
        self.grow(growth, entropy)
        tree, (values, precisions) = growth.tree, growth.measured
        fitted = LeastSquares(tree, precisions)
        counts = fitted.solve(values)
        missing, precision = growth.missing
        if self.steps:
            counts = self._postprocessed(fitted, counts)
            missing = postprocess(missing, self.steps)
        # After post-processing no variance is known.
        has_variances = not self.steps
        tables = {
            "boxes": self.space.table(tree, counts, fitted.variances if has_variances else None)
        }
        if self.space.patterns:
            tables["missing"] = self.space.missing(
                missing, 1 / precision if has_variances else None
            )
        return tables

    def _postprocessed(self, fitted: LeastSquares, counts: FloatArray) -> FloatArray:
        """Project the counts from the root down, family by family."""
        tree = fitted.tree
        nonnegative, integer = "nonnegative" in self.steps, "integer" in self.steps
        goals = np.maximum(counts[:1], 0.0) if nonnegative else counts[:1]
        processed = [np.rint(goals) if integer else goals]
        for above, nodes in pairwise(tree.generations):
            parents = tree.parents[nodes] - above.start
            below = in_small_families(Generation(counts[nodes], fitted.variances[nodes], parents))
            processed.append(
                distribute_down(below, processed[-1], nonnegative=nonnegative, integer=integer)
            )
        return np.concatenate(processed)

    def ranges(self, tables: Mapping[str, pa.Table], boxes: IntArray) -> FloatArray:
        """Estimate the rows in each range; rows are taken to lie evenly inside leaves."""
        return estimates(*self.space.read(tables["boxes"]), boxes)

    def ranges_unevenness(self, tables: Mapping[str, pa.Table], boxes: IntArray) -> FloatArray:
        """Bound the error of each estimate from rows that lie unevenly inside leaves."""
        return unevenness(*self.space.read(tables["boxes"]), boxes)

    def ranges_variance_of(self, tables: Mapping[str, pa.Table], boxes: IntArray) -> FloatArray:
        """Return the variance that noise gives each estimate, for the released tree."""
        tree, _ = self.space.read(tables["boxes"])
        return variances(LeastSquares(tree, self.precisions(tree)), boxes)


def middle(request: Request, space: Space) -> IntArray:
    """The workload by which noise is chosen: the ranges of the request, else the middle half."""
    if request.boxes is not None and len(request.boxes):
        return request.boxes
    return np.array([[[size // 4, size - 1 - size // 4] for size in space.shape]])
