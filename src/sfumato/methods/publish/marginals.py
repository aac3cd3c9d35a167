"""Marginals: noisy tables of several sets of columns at once, consistent with each other.

The module reads the request, chooses what to measure with which noise, and estimates all tables
from it. Decision `marginals`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import comb, inf, log, prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.arguments import shown
from sfumato.data.counting.grouping import keys
from sfumato.data.schema.names import quoted, suggestion
from sfumato.data.schema.unit import Neighbours, Sensitivity
from sfumato.errors import ParameterError
from sfumato.exact_numbers import weight
from sfumato.methods import options
from sfumato.methods.publish.domain import MAX_CELLS, blank_cells, figure_name
from sfumato.methods.publish.measurement import noise_name
from sfumato.methods.publish.postprocess import caveat, postprocess, public_total
from sfumato.privacy.accounting.events import Composed
from sfumato.privacy.estimation.residuals import MarginalLattice, PrecisionLinks, ResidualEstimate
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.counting.axes import Axis
    from sfumato.data.counting.frequencies import Counter, Frequencies
    from sfumato.methods.publish.request import Request
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.mechanisms.spending import Noise, Spending
    from sfumato.privacy.noise.entropy import Entropy

    Set = tuple[int, ...]


@dataclass(frozen=True)
class Marginals:
    """Tables of several sets of columns, computed from residuals that were measured with noise.

    *Guarantee*: the price in full, epsilon or rho, for all tables together: a person is in every
    measured table, and their shares of the budget sum to 1.
    *Sensitivity*: of each measured table under the privacy unit: a person of m rows moves it by m
    in L1 and L2 (2 m and m sqrt(2) if replaced). Residuals are measured by themselves for Gaussian
    noise where people are added or removed. A residual is a table centred along every axis, times
    the number of its cells, which makes it whole: in L2 squared m^2 times the product of n (n - 1)
    over the sizes n.
    *Error*: unbiased; every cell of a table has the same variance, the sum over its subsets R of
    variance(R) product_R(1 - 1/n) / (cells of the table for every cell of R)^2, known exactly in
    advance. Of all ways to add Gaussian noise to linear queries, measuring every residual has the
    least weighted sum of variances where people are added or removed.
    *Edges*: a missing value is one more value. Columns of a single value change nothing. Two tables
    agree on all columns they share, unless they are post-processed, each by itself.
    *Reference*: Xiao, He, Zhang & Kifer 2023 (ResidualPlanner); Barak, Chaudhuri, Dwork, Kale,
    McSherry & Talwar 2007 for tables that agree.
    """

    request: Request
    sets: tuple[Set, ...]
    columns: tuple[int, ...]
    strategy: MarginalStrategy
    total: int | None = None

    @property
    def released_cells(self) -> int:
        """The number of cells of all tables together, from public facts."""
        axes = self.request.axes
        return sum(
            math.prod(axes[column].size for column in column_set) for column_set in self.sets
        )

    @property
    def event(self) -> Event:
        """The privacy cost of the release."""
        return Composed(tuple(noise.event for noise in self.strategy.noises))

    @cached_property
    def parameters(self) -> Mapping[str, Any]:
        """The released tables, the measured ones, and the share of the budget of each."""
        strategy = self.strategy
        measured = [
            table_name(self.request.axes, tuple(self.columns[column] for column in column_set))
            for column_set in strategy.measured
        ]
        chosen = {
            "marginals": [table_name(self.request.axes, column_set) for column_set in self.sets],
            "noise": noise_name(strategy.noises[0]),
            "measured": "residuals" if strategy.centred else "tables",
            "shares": dict(zip(measured, map(str, strategy.shares), strict=True)),
        }
        return chosen if self.total is None else {**chosen, "total": self.total}

    @cached_property
    def error(self) -> Mapping[str, Any]:
        """The standard deviation of the cells of each table, and over all cells together."""
        variances = [
            self.strategy.fitted.cell_variance(marginal)
            for marginal in self.strategy.lattice.marginals
        ]
        cells = [
            self.strategy.lattice.cells(marginal) for marginal in self.strategy.lattice.marginals
        ]
        names = [table_name(self.request.axes, column_set) for column_set in self.sets]
        stated: dict[str, Any] = {
            "tables": {
                name: {"cells": size, "sd": math.sqrt(variance)}
                for name, size, variance in zip(names, cells, variances, strict=True)
            },
            "all": {"cells": sum(cells), "sd": math.sqrt(np.dot(cells, variances) / sum(cells))},
        }
        steps = self.request.postprocess
        return {**stated, "note": caveat(steps)} if steps else stated

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The released tables without rows: their names and columns."""
        axes = self.request.axes
        return {
            table_name(axes, column_set): blank_cells([axes[column] for column in column_set])
            for column_set in self.sets
        }

    def release(self, counter: Counter, entropy: Entropy) -> Mapping[str, pa.Table]:
        """One table for every marginal, one row for every cell, in the order of the columns."""
        columns = [self.request.columns[column] for column in self.columns]
        residuals = self.strategy.measure(counter, columns, entropy)
        released = {}
        for column_set, marginal in zip(self.sets, self.strategy.lattice.marginals, strict=True):
            table = self._finished(self.strategy.fitted.marginal(residuals, marginal))
            axes = [self.request.axes[column] for column in column_set]
            released[table_name(self.request.axes, column_set)] = cells_table(axes, table)
        return released

    def _finished(self, table: FloatArray) -> NDArray[Any]:
        steps = self.request.postprocess
        if not steps:
            return table
        figures = postprocess(table, steps, total=self.total)
        return figures.astype(np.int64) if "integer" in steps else figures


def cells_table(axes: Sequence[Axis], figures: NDArray[Any]) -> pa.Table:
    """One row for every cell of some axes, the last axis fastest, with its figure."""
    arrays, before, after = [], 1, figures.size
    for axis in axes:
        after //= axis.size
        codes = np.arange(axis.size, dtype=np.int32)
        cell_codes = np.tile(np.repeat(codes, after), before)
        arrays.append(axis.decode(codes).take(pa.array(cell_codes)))
        before *= axis.size
    names = [axis.column for axis in axes]
    names.append(figure_name(axes, "count"))
    return pa.Table.from_arrays([*arrays, pa.array(figures.ravel())], names=names)


def prepare(
    request: Request,
    *,
    way: object = None,
    of: object = None,
    weights: object = None,
    total: object = None,
) -> Marginals:
    """Choose what to measure, with which noise, for the least weighted sum of variances.

    Parameters
    ----------
    request : Request
        The columns and the price.
    way : int, optional
        Release all marginals of so many columns; 2 by default.
    of : str or list, optional
        The sets of columns to release, instead of `way`.
    weights : str or list, optional
        For each marginal, how much an error in its cells matters.
    total : int, optional
        The number of rows, where it is public.
    """
    public = public_total(request, total)
    sets = read_column_sets(request.axes, way=way, of=of)
    # A column of one value changes no table, so the lattice leaves it out.
    columns = [column for column, axis in enumerate(request.axes) if axis.size > 1]
    lattice = MarginalLattice(
        tuple(request.axes[column].size for column in columns),
        tuple(
            tuple(columns.index(member) for member in column_set if member in columns)
            for column_set in sets
        ),
        _weights(weights, sets),
    )
    offers = [_best_strategy(request, lattice, spending) for spending in spendings(request.price)]
    least = min(offers, key=lambda offer: offer.total_variance)
    return Marginals(request, sets, tuple(columns), least, public)


def _best_strategy(
    request: Request, lattice: MarginalLattice, spending: Spending
) -> MarginalStrategy:
    """Return the best strategy for one way to spend the price.

    Centred residuals are better for Gaussian noise only, and not for a single table, which is best
    measured as it is. Nor are they better where people are replaced: two rows can be as far apart
    in the residual of a column as in its whole table.
    """
    added = request.unit.relation is Neighbours.ADD_REMOVE
    if spending.rho is not None and added and len(lattice.marginals) > 1:
        return measured_residuals(lattice, spending, request.sensitivity)
    return measured_tables(lattice, spending, request.sensitivity)


def _weights(weights: object, sets: tuple[Set, ...]) -> tuple[float, ...]:
    if weights is None:
        return (1.0,) * len(sets)
    values = weights.split(",") if isinstance(weights, str) else weights
    if not isinstance(values, list | tuple) or len(values) != len(sets):
        raise ParameterError(
            "array_invalid",
            f"weights must list {len(sets):,} numbers above 0, one for each marginal.",
        )
    return tuple(float(weight(value, "weights")) for value in values)


# The most marginals of one release.
MAX_MARGINALS = 4096

# The most subsets of all sets of columns together: seconds of planning.
_MAX_SUBSETS = 1 << 16


def read_column_sets(axes: Sequence[Axis], *, way: object, of: object) -> tuple[Set, ...]:
    """Read the requested marginals: all of `way` columns (2 by default), or the list `of`.

    `of` is a text such as "age*sex,age*race", a list of texts such as "age*sex", or a list of
    lists of names. The positions within a set are in the order of the columns.
    """
    if way is not None and of is not None:
        raise ParameterError(
            "options_conflict",
            "Give either way, for all marginals of so many columns, or of, for a list of them; "
            "not both.",
        )
    if of is None:
        most = len(axes)
        columns = min(2, most) if way is None else options.whole(way, "way", least=1, most=most)
        _check_count(comb(most, columns))
        sets = tuple(combinations(range(most), columns))
    else:
        sets = _read_list([axis.column for axis in axes], of)
        _check_count(len(sets))
    _check(axes, sets)
    return sets


def table_name(axes: Sequence[Axis], column_set: Set) -> str:
    """Return the name of a marginal: its columns with commas between them."""
    return ",".join(axes[column].column for column in column_set)


def _read_list(columns: Sequence[str], of: object) -> tuple[Set, ...]:
    entries = of.split(",") if isinstance(of, str) else of
    if not isinstance(entries, list | tuple) or not entries:
        raise _not_column_sets(of)
    return tuple(_read_set(columns, entry) for entry in entries)


def _read_set(columns: Sequence[str], entry: object) -> Set:
    names = [piece.strip() for piece in entry.split("*")] if isinstance(entry, str) else entry
    if (
        not isinstance(names, list | tuple)
        or not names
        or not all(isinstance(name, str) for name in names)
    ):
        raise _not_column_sets(entry)
    for name in names:
        if name not in columns:
            raise ParameterError(
                "column_unknown",
                f"A marginal names {quoted(name)}, which is not among the columns to publish; "
                + suggestion(name, columns),
            )
    return tuple(sorted({columns.index(name) for name in names}))


def _not_column_sets(value: object) -> ParameterError:
    return ParameterError(
        "workload_invalid",
        "of must list sets of columns, such as 'age*sex,age*race' or [['age', 'sex']], not "
        f"{shown(value)}.",
    )


def _check_count(count: int) -> None:
    if count > MAX_MARGINALS:
        raise ParameterError(
            "problem_too_large",
            f"The request has {count:,} marginals; at most {MAX_MARGINALS:,} can be released at "
            "once. Take fewer columns or a lower way.",
        )


def _check(axes: Sequence[Axis], sets: Sequence[Set]) -> None:
    """Refuse tables of equal names, too many subsets to plan for, and too many cells."""
    names = [table_name(axes, column_set) for column_set in sets]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ParameterError(
            "workload_invalid",
            f"Two of the marginals would be named {quoted(twice)}. Name each set of columns once.",
        )
    subsets = sum(1 << len(column_set) for column_set in sets)
    if subsets > _MAX_SUBSETS:
        raise ParameterError(
            "problem_too_large",
            f"The marginals have {subsets:,} subsets of columns; at most {_MAX_SUBSETS:,} can be "
            "planned for. Take fewer or narrower ones; a single wide table is a 'histogram'.",
        )
    cells = sum(prod(axes[column].size for column in column_set) for column_set in sets)
    if cells > MAX_CELLS:
        raise ParameterError(
            "problem_too_large",
            f"The marginals have {cells:,} cells together; at most {MAX_CELLS:,} can be released. "
            "Take fewer columns, a lower way or a coarser step.",
        )


# *Shares*: a measurement with the share s of the budget has the variance unit / s^power in each
# cell. The power is 1 for Gaussian noise, whose rho adds up, and 2 for Laplace noise, whose epsilon
# adds up.
#
# *Merging*: every measured table takes a share of the budget, and the variance of Laplace noise
# grows with the square of 1 / share. So one table over more columns, from which several released
# ones are summed, often beats measuring each of them. If T is measured for released tables of total
# weight W, their cells have a total variance of W times the cells of T. At the best shares the sum
# over all measured tables is the (1 + p)-th power of the sum of (W x cells)^(1 / (1 + p)), with p
# the power of 1 / share.

_MAX_ROUNDS = 1000
# Relative improvement of the error below which the shares have converged.
_CONVERGED = 1e-12
# Shares are exact multiples of 1 / _SHARE_UNITS.
_SHARE_UNITS = 1 << 30


def divide(
    links: PrecisionLinks,
    importance: FloatArray,
    units: FloatArray,
    *,
    power: int,
    rounds: int = _MAX_ROUNDS,
) -> tuple[FloatArray, float]:
    """Return the best shares, which sum to 1, and the sum of importance x variance over residuals.

    With fixed weights the variance of a weighted mean is a sum with one term for each measurement,
    for which the best shares are known. With fixed shares the best weights are known. Alternating
    improves the sum in every round. The limit is the optimum for Gaussian noise, where the problem
    is convex, and a local optimum for Laplace noise.
    """
    shares = np.full(len(units), 1 / len(units))
    previous_error = np.inf
    for _ in range(rounds):
        measured = shares**power / units
        variances = 1 / links.precisions(measured, len(importance))
        total_error = float(importance @ variances)
        if total_error >= previous_error * (1 - _CONVERGED):
            break
        previous_error = total_error
        weighted_errors = links.factor * (importance * variances**2)[links.residual]
        terms = np.bincount(links.measured, weights=weighted_errors, minlength=len(units))
        shares = (terms * measured**2 * units) ** (1 / (1 + power))
        shares /= shares.sum()
    return shares, previous_error


def exact(shares: FloatArray) -> list[Fraction]:
    """Shares as fractions above 0 that sum to exactly 1."""
    units = np.maximum((shares * _SHARE_UNITS).astype(np.int64), 1)
    units[np.argmax(units)] += _SHARE_UNITS - units.sum()
    return [Fraction(int(unit_count), _SHARE_UNITS) for unit_count in units]


# Tables of more cells are not formed by merging.
_MAX_LOG_CELLS = log(1 << 22)
# A family is ranked only after it has shrunk by this factor since the last ranked one.
_FAMILY_SHRINKAGE = 0.95


def families(lattice: MarginalLattice, *, power: int) -> Iterator[tuple[Set, ...]]:
    """Families of tables to measure: the released ones, then ever fewer, merged pair by pair."""
    merging = _Merging(lattice, power)
    yield merging.family
    last_count = len(merging.matter)
    for table_count in merging.steps():
        if table_count <= _FAMILY_SHRINKAGE * last_count:
            last_count = table_count
            yield merging.family


class _Merging:
    """Greedy merging of tables: in each step the pair with the largest gain becomes one table.

    The gain of a table with its best mate is an upper bound once the mate has been merged itself.
    It is computed anew only where the bound is the largest of all.
    """

    def __init__(self, lattice: MarginalLattice, power: int) -> None:
        weights = dict.fromkeys(lattice.marginals, 0.0)
        for marginal, importance in zip(lattice.marginals, lattice.weights, strict=True):
            weights[marginal] += importance
        self.logs = np.log(np.array(lattice.sizes))
        self.members = lattice.membership(tuple(weights)).astype(np.float64)
        self.matter = np.array(list(weights.values()))
        self.cells = self.members @ self.logs
        self.root = 1 / (1 + power)
        self.alive = np.ones(len(weights), dtype=bool)

    @property
    def family(self) -> tuple[Set, ...]:
        """The present tables."""
        rows = self.members[self.alive]
        return tuple(dict.fromkeys(tuple(np.flatnonzero(row).tolist()) for row in rows))

    def steps(self) -> Iterator[int]:
        """Merge the best pair, and yield the number of remaining tables."""
        gains = np.empty(len(self.matter))
        mates, merged, known = np.zeros((3, len(gains)), dtype=np.int64)
        for table in range(len(gains)):
            row = self._gains(table)
            gains[table], mates[table] = row.max(), row.argmax()
        while gains.max() > -inf:
            first = int(gains.argmax())
            second = mates[first]
            if self.alive[second] and merged[second] == known[first]:
                self._merge(first, second)
                gains[second] = -inf
                merged[first] += 1
                better = (row := self._gains(first)) > gains
                gains[better], mates[better], known[better] = row[better], first, merged[first]
                yield int(self.alive.sum())
            else:
                row = self._gains(first)
            gains[first], mates[first] = row.max(), row.argmax()
            known[first] = merged[mates[first]]

    def _merge(self, first: int, second: int) -> None:
        self.members[first] = np.maximum(self.members[first], self.members[second])
        self.cells[first] = self.members[first] @ self.logs
        self.matter[first] += self.matter[second]
        self.alive[second] = False

    def _gains(self, table: int) -> FloatArray:
        """How much merging with each table lowers the sum of roots."""
        union = self.cells[table] + self.cells - self.members @ (self.members[table] * self.logs)
        separate = self._roots(self.cells[table], self.matter[table])
        separate = separate + self._roots(self.cells, self.matter)
        gain = separate - self._roots(union, self.matter[table] + self.matter)
        possible = self.alive & (union <= _MAX_LOG_CELLS)
        possible[table] = False
        return np.where(possible, gain, -inf)

    def _roots(self, cells: FloatArray, weights: FloatArray) -> FloatArray:
        return np.asarray(np.exp(self.root * (cells + np.log(weights))))


# A table with a smaller share is dropped, unless no wider table can replace it.
_NEGLIGIBLE_SHARE = 2.0**-20
# Rounds of `divide` that rank a family; the chosen family gets all rounds.
_RANKING_ROUNDS = 50
# The most cells of a table from which several measured ones are summed: one pass over the data.
_MAX_COVER_CELLS = 1 << 20


@dataclass(frozen=True)
class MarginalStrategy:
    """Tables measured with independent noise in each cell: as they are, or centred.

    A centred table is a residual times the number of its cells, which makes it whole.
    """

    lattice: MarginalLattice
    measured: tuple[Set, ...]
    shares: tuple[Fraction, ...]
    noises: tuple[Noise, ...]
    centred: bool

    @cached_property
    def scales(self) -> FloatArray:
        """The divisors of the measured whole numbers."""
        cells = [float(self.lattice.cells(table)) for table in self.measured]
        return np.array(cells) if self.centred else np.ones(len(cells))

    @cached_property
    def precisions(self) -> FloatArray:
        """1 / variance of each measurement, in counts."""
        return np.array([1 / noise.variance for noise in self.noises]) * self.scales**2

    @cached_property
    def fitted(self) -> ResidualEstimate:
        """The least squares over all measurements."""
        return ResidualEstimate(self.lattice, self.measured, self.precisions, self.centred)

    @cached_property
    def total_variance(self) -> float:
        """The sum of the variances of all released cells, each times the weight of its table."""
        return float(self.lattice.importance @ self.fitted.variances)

    def measure(
        self, counter: Counter, columns: Sequence[str], entropy: Entropy
    ) -> dict[Set, FloatArray]:
        """Count with noise and estimate every residual; `columns` names the lattice's columns."""
        return self.fitted.residuals(self._noisy(counter, columns, entropy))

    def _noisy(
        self, counter: Counter, columns: Sequence[str], entropy: Entropy
    ) -> Iterator[FloatArray]:
        """The measured tables with noise, in order. Small ones are counted from a common cover."""
        covers = _covers(self.lattice, self.measured)
        counted: tuple[Set, Frequencies] | None = None
        for index, (column_set, noise) in enumerate(zip(self.measured, self.noises, strict=True)):
            if counted is None or counted[0] != covers[index]:
                cover = covers[index]
                counted = cover, counter.of([columns[axis] for axis in cover])
            counts = _table(counted[1], [counted[0].index(axis) for axis in column_set])
            measured = _centred_whole(counts) if self.centred else counts
            yield noise.steps(measured, entropy).astype(np.float64) / self.scales[index]


def measured_tables(
    lattice: MarginalLattice, spending: Spending, sensitivity: Sensitivity
) -> MarginalStrategy:
    """Measure tables as they are: the family and the shares of least error."""
    power = 1 if spending.epsilon is None else 2

    def shared(family: tuple[Set, ...], rounds: int) -> tuple[FloatArray, float]:
        units, links = np.ones(len(family)), lattice.links(family)
        return divide(links, lattice.importance, units, power=power, rounds=rounds)

    family = min(
        families(lattice, power=power), key=lambda family: shared(family, _RANKING_ROUNDS)[1]
    )
    useful = shared(family, 1000)[0] >= _NEGLIGIBLE_SHARE
    measured = tuple(
        table
        for table, needed in zip(family, useful, strict=True)
        if needed or not any(set(table) < set(wider) for wider in family)
    )
    shares = exact(shared(measured, 1000)[0])
    noises = tuple(spending.noise(sensitivity, share) for share in shares)
    return MarginalStrategy(lattice, measured, tuple(shares), noises, centred=False)


def measured_residuals(
    lattice: MarginalLattice, spending: Spending, sensitivity: Sensitivity
) -> MarginalStrategy:
    """Measure every residual once, which is optimal for Gaussian noise.

    Only where people are added or removed: a histogram then moves by a person's rows, and most if
    all of them are in one cell. A row moves a centred table, times its cells, by the product of
    n - 1 for each column that agrees with the row and of -1 for each other column.
    """
    sensitivities = [
        Sensitivity(
            l1=sensitivity.l1 * 2 ** len(residual) * lattice.freedom(residual),
            l2_squared=sensitivity.l2_squared * lattice.cells(residual) * lattice.freedom(residual),
        )
        for residual in lattice.residuals
    ]
    cells = np.array([float(lattice.cells(residual)) for residual in lattice.residuals])
    units = (
        np.array(
            [float(sensitivity_of_residual.l2_squared) for sensitivity_of_residual in sensitivities]
        )
        / cells**2
    )
    shares = exact(divide(PrecisionLinks.own(len(cells)), lattice.importance, units, power=1)[0])
    noises = [
        spending.noise(sensitivity_of_residual, share)
        for sensitivity_of_residual, share in zip(sensitivities, shares, strict=True)
    ]
    return MarginalStrategy(lattice, lattice.residuals, tuple(shares), tuple(noises), centred=True)


def _covers(lattice: MarginalLattice, measured: Sequence[Set]) -> list[Set]:
    """For each measured set a superset to count, which it may share with its neighbours."""
    covers: list[Set] = []
    for column_set in reversed(measured):
        union = tuple(sorted({*column_set, *covers[-1]})) if covers else column_set
        covers.append(union if lattice.cells(union) <= _MAX_COVER_CELLS else column_set)
    last: Set = ()
    for index in range(len(covers) - 1, -1, -1):
        last = last if set(covers[index]) <= set(last) else covers[index]
        covers[index] = last
    return covers[::-1]


def _table(counts: Frequencies, axes: Sequence[int]) -> IntArray:
    """Return the dense table of some columns."""
    sizes = [counts.sizes[axis] for axis in axes]
    table = np.zeros(sizes, dtype=np.int64)
    if axes:
        key, _ = keys([counts.codes[axis] for axis in axes], sizes)
        np.add.at(table.reshape(-1), key, counts.counts)
    else:
        table[...] = counts.total
    return table


def _centred_whole(table: IntArray) -> NDArray[Any]:
    """A table centred along every axis, times the number of its cells.

    A step multiplies a number at most by the length of its axis, so counts below 2^62 / cells stay
    within 64 bits. Larger counts are clamped, which does not increase the sensitivity.
    """
    scaled = np.minimum(table, (1 << 62) // table.size)
    for axis, size in enumerate(table.shape):
        scaled = size * scaled - scaled.sum(axis=axis, keepdims=True)
    return scaled
