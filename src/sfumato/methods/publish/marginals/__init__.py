"""Marginals: noisy tables of several sets of columns at once, consistent with each other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.data.schema.unit import Neighbours
from sfumato.errors import ParameterError
from sfumato.exact_numbers import weight
from sfumato.methods.publish.domain import blank_cells, figure_name
from sfumato.methods.publish.marginals.column_sets import read_column_sets, table_name
from sfumato.methods.publish.marginals.strategy import measured_residuals, measured_tables
from sfumato.methods.publish.measurement import noise_name
from sfumato.methods.publish.postprocess import caveat, postprocess, public_total
from sfumato.privacy.accounting.events import Composed
from sfumato.privacy.estimation.residuals import MarginalLattice
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray
    from sfumato.data.counting.axes import Axis
    from sfumato.data.counting.frequencies import Counter
    from sfumato.methods.publish.marginals.column_sets import Set
    from sfumato.methods.publish.marginals.strategy import MarginalStrategy
    from sfumato.methods.publish.request import Request
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.mechanisms.spending import Spending
    from sfumato.privacy.noise.entropy import Entropy


@dataclass(frozen=True)
class Marginals:
    """Tables of several sets of columns, put together from residuals that were measured with noise.

    *Guarantee*: the price in full, epsilon or rho, for all tables together: a person is in every
    measured table, and their shares of the budget sum to 1.
    *Sensitivity*: of each measured table under the privacy unit: a person of m rows moves it by m
    in L1 and L2 (2 m and m sqrt(2) if replaced). A residual measured by itself, which is done for
    Gaussian noise where people are added or removed, is a table centred along every axis, times
    its cells to make it whole: in L2 squared m^2 times the product of n (n - 1) over the sizes n.
    *Error*: unbiased; every cell of a table has the same variance, the sum over its subsets R of
    variance(R) product_R(1 - 1/n) / (cells of the table for every cell of R)^2, known exactly
    before. Of all ways to add Gaussian noise to linear queries, measuring every residual has the
    least weighted sum of variances where people are added or removed.
    *Edges*: a missing value is one more value. Columns of a single value change nothing. Two tables
    agree on all columns they share, unless post-processing treats each by itself.
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
        """How many cells all tables have together, from public facts."""
        axes = self.request.axes
        return sum(
            math.prod(axes[column].size for column in column_set) for column_set in self.sets
        )

    @property
    def event(self) -> Event:
        """What it costs."""
        return Composed(tuple(noise.event for noise in self.strategy.noises))

    @cached_property
    def parameters(self) -> Mapping[str, Any]:
        """What is released, what is measured for it, and with which share of the budget."""
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
        """The tables that will be released, without a row."""
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
    """One row for every cell of some axes, the last of them fastest, with its figure."""
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

    `way` asks for all marginals of so many columns (2 if nobody says), `of` for a list of them;
    `weights`, one for each, say how much an error in their cells matters; `total` is the number
    of rows if it is public.
    """
    public = public_total(request, total)
    sets = read_column_sets(request.axes, way=way, of=of)
    # A column of one value changes no table, so it takes no part.
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
    """The best way to spend.

    Centring pays off for Gaussian noise alone, and not for one table, which is best measured as it
    is. Where people are replaced it does not either: two rows can be as far apart in the residual
    of a column as in its whole table.
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
