"""The columns of a table to be synthesized, as places and sizes: public facts alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from sfumato.privacy.estimation.residuals import MarginalLattice, ResidualEstimate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.arrays import FloatArray
    from sfumato.data.counting.axes import Axis
    from sfumato.privacy.accounting.events import Event

    ColumnSet = tuple[int, ...]


@dataclass(frozen=True)
class TableShape:
    """Columns by their places, each of so many codes."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, axes: Iterable[Axis]) -> TableShape:
        """The shape of declared axes."""
        known = tuple(axes)
        return cls(tuple(axis.column for axis in known), tuple(axis.size for axis in known))

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """The places of all columns."""
        return tuple(range(len(self.sizes)))

    def pairs(self) -> list[ColumnSet]:
        """Every pair of columns."""
        return list(combinations(self.columns, 2))

    def cells(self, columns: Iterable[int]) -> int:
        """How many cells the table of some columns has."""
        return prod(self.sizes[column] for column in columns)

    def of_set(self, columns: Iterable[int]) -> tuple[int, ...]:
        """The shape of the table of some columns."""
        return tuple(self.sizes[column] for column in columns)


# The measurement log: every noisy table that was paid for. All that is fitted comes from it.
#
# Every method writes the same log, so that any fit can be tried on any choice of tables, and how
# far any marginal is off follows from the log alone. Nothing in it is private any more.
#
# Decision `synthesis`.


@dataclass(frozen=True)
class MeasuredTable:
    """The counts of a set of columns with independent noise of one variance in every cell."""

    columns: ColumnSet
    counts: FloatArray
    variance: float
    event: Event

    @property
    def total_variance(self) -> float:
        """The variance of the sum of all cells."""
        return self.variance * self.counts.size


@dataclass
class MeasurementLog:
    """The noisy tables of one synthesis, in the order in which they were measured."""

    shape: TableShape
    tables: list[MeasuredTable] = field(default_factory=list)

    def add(self, table: MeasuredTable) -> None:
        """Write down one more table."""
        self.tables.append(table)

    @property
    def measured(self) -> set[ColumnSet]:
        """The sets that were measured at least once."""
        return {table.columns for table in self.tables}

    def total(self) -> float:
        """The number of rows, as the tables tell it: at least 1."""
        weights = np.array([1 / table.total_variance for table in self.tables])
        sums = np.array([table.counts.sum() for table in self.tables])
        return max(float(weights @ sums / weights.sum()), 1.0)

    def merged(self) -> dict[ColumnSet, MeasuredTable]:
        """One table for every measured set: the mean of all its measurements, by precision."""
        merged: dict[ColumnSet, MeasuredTable] = {}
        for table in self.tables:
            earlier = merged.get(table.columns)
            if earlier is not None:
                share = earlier.variance / (earlier.variance + table.variance)
                counts = earlier.counts + share * (table.counts - earlier.counts)
                table = MeasuredTable(table.columns, counts, share * table.variance, table.event)
            merged[table.columns] = table
        return merged

    def estimate(self, sets: Iterable[ColumnSet]) -> LogEstimate:
        """Least squares over all tables, for sets within measured ones."""
        return LogEstimate(self, tuple(sets))


@dataclass(frozen=True)
class LogEstimate:
    """The least-squares tables of some sets, and how far their cells are off.

    *Error*: unbiased, every cell of a table has the variance that `variance` says: the least among
    linear unbiased estimates.
    *Edges*: a set must lie within a measured one (`known`).
    *Reference*: Xiao, He, Zhang & Kifer 2023; McKenna and others for the log of marginals.
    """

    log: MeasurementLog
    sets: tuple[ColumnSet, ...]

    @cached_property
    def _fitted(self) -> ResidualEstimate:
        merged = self.log.merged()
        sets = tuple({*self.sets, *merged})
        lattice = MarginalLattice(self.log.shape.sizes, sets)
        precisions = np.array([1 / table.variance for table in merged.values()])
        return ResidualEstimate(lattice, tuple(merged), precisions)

    @cached_property
    def residuals(self) -> dict[ColumnSet, FloatArray]:
        """The residual of every subset of a measured set."""
        return self._fitted.residuals(table.counts for table in self.log.merged().values())

    def known(self, columns: ColumnSet) -> bool:
        """Whether the log tells about a set at all."""
        return any(set(columns) <= set(measured) for measured in self.log.measured)

    def table(self, columns: ColumnSet) -> FloatArray:
        """The counts of a set of columns."""
        return self._fitted.marginal(self.residuals, columns)

    def variance(self, columns: ColumnSet) -> float:
        """The variance of each of its cells."""
        return self._fitted.cell_variance(columns)
