"""The kind 'wavelet': noisy differences between halves of blocks, at every scale (Privelet).

Where a block has more than two children, as in the tree of a nominal column, the difference of
each child from the mean of all of them is measured instead.

Decision `workload-strategies`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.data.schema.names import quoted
from sfumato.errors import ParameterError
from sfumato.methods import options
from sfumato.methods.publish.domain import MAX_CELLS, points
from sfumato.methods.publish.measurement import ColumnNorms, noise_name
from sfumato.methods.publish.postprocess import public_total
from sfumato.methods.publish.strategy import DiagonalStrategy, MeasuredLevel, StrategyMethod
from sfumato.methods.publish.tree import checked
from sfumato.methods.publish.tree_optimizer import exact
from sfumato.privacy.estimation.blocks import Nesting, assembled, spectrum, sum_neighbours
from sfumato.privacy.mechanisms.base import widened
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.counting.axes import Axis
    from sfumato.methods.publish.request import Request
    from sfumato.privacy.estimation.blocks import Level
    from sfumato.privacy.mechanisms.spending import Spending
    from sfumato.privacy.noise.entropy import Entropy


# Every scale gets at least this fraction of the largest share: cells need all scales.
_LEAST = 1e-3


def prepare(
    request: Request, *, budget: object = None, hierarchy: object = None, total: object = None
) -> StrategyMethod:
    """Measure differences of halves at every scale, of every column.

    Parameters
    ----------
    request : Request
        The columns and the price.
    budget : str, optional
        "uniform" over the scales, as in Privelet (the default), or "optimised" for the workload.
    hierarchy : mapping, optional
        For nominal columns the groups of each value, the smallest first: {column: {value: [group,
        ...]}}. Its groups replace halves. By default that of the schema.
    total : int, optional
        The number of rows, where it is public.
    """
    public = public_total(request, total)
    budget_name = options.choice(budget or "uniform", "budget", ["uniform", "optimised"])
    shape = checked(request)
    nominal = nominal_nestings(request.axes, hierarchy or request.groups or None)
    nestings = tuple(
        nominal.get(column) or halves(points)
        for column, points in zip(request.columns, shape, strict=True)
    )
    plans = planned(request, nestings, budget_name, public)
    return min(plans, key=lambda plan: plan.workload_mse)


def halves(points: int) -> Nesting:
    """An axis halved down to single codes."""
    return Nesting(points, (2,) * max((points - 1).bit_length(), 1))


def planned(
    request: Request, nestings: tuple[Nesting, ...], budget_name: str, total: int | None
) -> list[StrategyMethod]:
    """One plan for each way to spend the price."""
    plans = []
    for spending in spendings(request.price):
        shares = (
            uniform(nestings)
            if budget_name == "uniform"
            else optimised(nestings, spectrum(nestings, request.boxes), spending)
        )
        strategy = contrasts(request, nestings, shares, spending)
        plans.append(StrategyMethod(request, strategy, {"budget": budget_name}, total))
    return plans


@dataclass(frozen=True, eq=False)
class Contrasts(DiagonalStrategy):
    """Whole-number wavelet coefficients with noise, and a share for each tuple of scales.

    *Guarantee*: the price in full, epsilon or rho, for all scales together: shares sum to 1.
    *Sensitivity*: at each scale a row is in one coefficient, sum(left) - sum(right), with weight
    1; so uniform shares over 1 + log2 n scales are Privelet's generalised sensitivity, and over
    several columns the product of those. With f > 2 children the coefficients f * child - block
    have columns of L1 norm 2 (f - 1). A replaced person may flip a sign: then L2 norms double.
    *Error*: unbiased; the variance of any range is exact and in closed form.
    *Edges*: a column is padded to a power of two with cells whose counts are zero. Cells of missing
    values are measured at every scale and averaged.
    *Reference*: Xiao, Wang & Gehrke 2010, sections IV (Haar), V (nominal) and VI (several columns).
    """

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The share of each scale."""
        return {
            "fanouts": [list(nesting.fanouts) for nesting in self.nestings],
            "scales": [[list(scale.level), str(scale.share)] for scale in self.measured],
            "noise": noise_name(self.measured[0].noise),
        }

    @cached_property
    def precisions(self) -> FloatArray:
        """1 / variance of the estimate in each projection."""
        # Projections within blocks of one child are zero, so their entries are never used.
        values = np.ones([nesting.depth + 1 for nesting in self.nestings])
        for level, _, noise in self.measured:
            values[level] = _weight(self.nestings, level) / noise.variance
        return values

    @cached_property
    def missing_precision(self) -> float:
        """1 / variance of the estimate of a cell of missing values."""
        return sum(
            self._missing_weight(scale) ** 2 / scale.noise.variance for scale in self.measured
        )

    def _missing_weight(self, scale: MeasuredLevel) -> int:
        return _columns(self.nestings, scale.level).missing_weight(scale.noise)

    def estimate(
        self, cells: IntArray, nulls: IntArray, entropy: Entropy
    ) -> tuple[FloatArray, FloatArray]:
        """Measure all scales with noise; estimate cells and missing values."""
        # Along each axis a contrast weighs a block at most by the number of its siblings.
        widest = prod(max(2, *nesting.fanouts) for nesting in self.nestings)
        coefficients = dict(_coefficients(widened(cells, widest), self.nestings, 0))
        projections: dict[Level, FloatArray] = {}
        missing_sums = np.zeros(len(nulls))
        for scale in self.measured:
            exact_values, weight = coefficients[scale.level], self._missing_weight(scale)
            missing_values = weight * widened(nulls, weight)
            noisy = scale.noise.steps(
                np.concatenate([exact_values.ravel(), missing_values]), entropy
            )
            inside, outside = np.split(noisy.astype(np.float64), [exact_values.size])
            projections[scale.level] = self._projection(
                inside.reshape(exact_values.shape), scale.level
            )
            missing_sums += outside * (weight / scale.noise.variance)
        return assembled(projections, self.nestings), missing_sums / self.missing_precision

    def _projection(self, array: FloatArray, level: Level) -> FloatArray:
        """Return the mean of each block minus that of its parent, from noisy coefficients."""
        for axis, (nesting, at) in enumerate(zip(self.nestings, level, strict=True)):
            if at == 0:
                array = array / nesting.size
                continue
            fanout = nesting.fanouts[at - 1]
            if fanout == 2:
                both = np.stack([array, -array], axis=axis + 1)
                array = both.reshape(*array.shape[:axis], -1, *array.shape[axis + 1 :])
            else:
                means = sum_neighbours(array, fanout, axis) / fanout
                array = array - np.repeat(means, fanout, axis=axis)
            array = array / nesting.widths[at - 1]
        return array


def contrasts(
    request: Request,
    nestings: tuple[Nesting, ...],
    shares: Mapping[Level, Fraction],
    spending: Spending,
) -> Contrasts:
    """Measure each scale with the noise that its share of a price pays for."""
    return Contrasts.shared(
        nestings, shares, spending, lambda level: _columns(nestings, level).sensitivity(request)
    )


def uniform(nestings: Sequence[Nesting]) -> Mapping[Level, Fraction]:
    """The same share for every tuple of scales."""
    scales = _scales(nestings)
    return dict.fromkeys(scales, Fraction(1, len(scales)))


def optimised(
    nestings: Sequence[Nesting], energies: FloatArray, spending: Spending
) -> Mapping[Level, Fraction]:
    """Return the shares of least error for a workload: by Lagrange, because scales are independent.

    The variance of a scale falls with the square of its share of epsilon, or with its share of rho.
    """
    energy_costs = np.zeros(energies.shape)
    for level in _scales(nestings):
        columns = _columns(nestings, level)
        size = columns.l1**2 if spending.rho is None else columns.l2_squared
        energy_costs[level] = energies[level] * size / _weight(nestings, level)
    shares = energy_costs ** (1 / 3 if spending.rho is None else 1 / 2)
    for level in _scales(nestings):
        shares[level] = max(shares[level], _LEAST * shares.max())
    return exact(shares / shares.sum())


def _scales(nestings: Sequence[Nesting]) -> list[Level]:
    """Return the tuples of levels at which blocks can differ from their parents."""
    lines = [
        [0, *(at for at, fanout in enumerate(nesting.fanouts, start=1) if fanout > 1)]
        for nesting in nestings
    ]
    return list(product(*lines))


def _coefficients(
    cells: IntArray, nestings: Sequence[Nesting], axis: int
) -> Iterator[tuple[Level, IntArray]]:
    """Yield the coefficients of all scales along this axis and those after it."""
    if axis == len(nestings):
        yield (), cells
        return
    nesting, blocks = nestings[axis], cells
    for at in range(nesting.depth, -1, -1):
        fanout = nesting.fanouts[at - 1] if at else 0
        if fanout == 1:
            continue
        contrasts = _contrasts(blocks, fanout, axis) if fanout else blocks
        for later_levels, array in _coefficients(contrasts, nestings, axis + 1):
            yield (at, *later_levels), array
        blocks = sum_neighbours(blocks, fanout, axis) if fanout else blocks


def _contrasts(blocks: IntArray, fanout: int, axis: int) -> IntArray:
    """Left minus right; for more than two children, each times their number minus their sum."""
    parents = sum_neighbours(blocks, fanout, axis)
    if fanout > 2:
        return np.asarray(fanout * blocks - np.repeat(parents, fanout, axis=axis))
    lefts = blocks[(slice(None),) * axis + (slice(None, None, 2),)]
    return np.asarray(2 * lefts - parents)


def _columns(nestings: Sequence[Nesting], level: Level) -> ColumnNorms:
    """Return the norms of the change of one row in the coefficients of a tuple of scales."""
    fanouts = [
        nesting.fanouts[at - 1] for nesting, at in zip(nestings, level, strict=True) if at > 0
    ]
    return ColumnNorms(
        l1=prod(2 * (fanout - 1) for fanout in fanouts if fanout > 2),
        l2_squared=prod(fanout * (fanout - 1) for fanout in fanouts if fanout > 2),
        signed=bool(fanouts),
    )


def _weight(nestings: Sequence[Nesting], level: Level) -> float:
    """Return the precision in a projection of coefficients of variance 1."""
    weight = 1.0
    for nesting, at in zip(nestings, level, strict=True):
        fanout = nesting.fanouts[at - 1] if at else 1
        weight *= nesting.widths[max(at - 1, 0)] * (fanout if fanout > 2 else 1)
    return weight


@dataclass(frozen=True, eq=False)
class NominalNesting(Nesting):
    """The tree of a nominal column, padded so that all nodes of a level have equal fan-outs."""

    leaves: IntArray | None = None
    """The leaf of the padded tree of each code."""

    def energies(self, low: NDArray[np.integer], high: NDArray[np.integer]) -> FloatArray:
        """Return the squared length of each range of codes in each level: (queries, levels)."""
        last = np.maximum(high + 1, low)
        squares = [
            ((counts[last] - counts[low]) ** 2).sum(axis=1) / width
            for counts, width in zip(self._prefixes(), self.widths, strict=True)
        ]
        return np.asarray(np.diff(np.stack(squares, axis=1), axis=1, prepend=0.0))

    def usual_energies(self) -> FloatArray:
        """Return the mean energies over all ranges of codes."""
        ranges = self.points * (self.points + 1) / 2
        # Over all pairs of n prefixes, |a - b|^2 sums to n sum |a|^2 - |sum a|^2.
        squares = [
            ((self.points + 1) * (counts**2).sum() - (counts.sum(axis=0) ** 2).sum()) / width
            for counts, width in zip(self._prefixes(), self.widths, strict=True)
        ]
        return np.asarray(np.diff(np.array(squares) / ranges, prepend=0.0))

    def _prefixes(self) -> list[FloatArray]:
        """For each level the number of the first codes in each block: (codes + 1, blocks)."""
        prefixes = []
        for width in self.widths:
            inside = np.zeros((self.points + 1, self.size // width))
            inside[np.arange(self.points) + 1, self._leaf_codes // width] = 1.0
            prefixes.append(np.cumsum(inside, axis=0))
        return prefixes

    def line(self) -> list[IntArray]:
        """Return the parent of each block that holds a code, level by level from the root down."""
        parents_by_level, blocks = [], self._leaf_codes
        for width, wider in zip(self.widths[:0:-1], self.widths[-2::-1], strict=True):
            above, parents = np.unique(blocks * width // wider, return_inverse=True)
            parents_by_level.append(parents)
            blocks = above
        return parents_by_level[::-1]

    @property
    def _leaf_codes(self) -> IntArray:
        assert self.leaves is not None
        return self.leaves

    def merged(self, array: IntArray, axis: int) -> IntArray:
        """Put each code at its leaf, zeros elsewhere."""
        shape = list(array.shape)
        shape[axis] = self.size
        filled = np.zeros(shape, dtype=array.dtype)
        filled[(slice(None),) * axis + (self._leaf_codes,)] = array
        return filled

    def without_padding(self, array: FloatArray, axis: int) -> FloatArray:
        """Return the cells of codes, in the order of codes."""
        return array.take(self._leaf_codes, axis=axis)


def nominal_nestings(axes: Sequence[Axis], hierarchy: object) -> dict[str, NominalNesting]:
    """Return the nestings of the columns for which a hierarchy is given."""
    if hierarchy is None:
        return {}
    known = {axis.column: axis for axis in axes}
    if not isinstance(hierarchy, Mapping) or not hierarchy.keys() <= known.keys():
        raise ParameterError(
            "hierarchy_invalid",
            "hierarchy must be {column: {value: [group, ...]}} for columns that are published: "
            f"{', '.join(map(quoted, known))}.",
        )
    return {column: _nesting(known[column], groups) for column, groups in hierarchy.items()}


def _nesting(axis: Axis, groups: object) -> NominalNesting:
    values = axis.decode(np.arange(points(axis))).to_pylist()
    covers_all = isinstance(groups, Mapping) and all(value in groups for value in values)
    paths = [list(groups[value]) for value in values] if covers_all else []  # type: ignore[index]
    if not paths or len({len(path) for path in paths}) > 1:
        raise ParameterError(
            "hierarchy_invalid",
            f"The hierarchy of column {quoted(axis.column)} must list for every declared value its "
            "groups, equally many, from the smallest to the largest.",
        )
    chains = [(*path[::-1], code) for code, path in enumerate(paths)]
    child_numbers = np.array(_child_numbers(chains), dtype=np.int64)
    fanouts = tuple(int(largest) + 1 for largest in child_numbers.max(axis=0))
    if prod(fanouts) > MAX_CELLS:
        raise ParameterError(
            "problem_too_large",
            f"The hierarchy of column {quoted(axis.column)}, filled up to a complete tree, has "
            f"{prod(fanouts):,} leaves; at most {MAX_CELLS:,} are possible. Take fewer levels.",
        )
    leaves = np.ravel_multi_index(tuple(child_numbers.T), fanouts)
    return NominalNesting(len(values), fanouts, None, np.asarray(leaves, dtype=np.int64))


def _child_numbers(chains: Sequence[tuple[object, ...]]) -> list[list[int]]:
    """For each path from the root, the index of each node among its siblings."""
    children: dict[tuple[object, ...], dict[object, int]] = {}
    paths = []
    for chain in chains:
        numbers = []
        for depth, label in enumerate(chain):
            known = children.setdefault(chain[:depth], {})
            numbers.append(known.setdefault(label, len(known)))
        paths.append(numbers)
    return paths
