"""A fitted distribution: columns drawn one after another, each given some of those before it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.methods.synth.consistency import consistent_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import FloatArray
    from sfumato.methods.synth.measurement_log import ColumnSet, MeasurementLog, TableShape


@dataclass(frozen=True)
class Conditional:
    """The probabilities of a column's codes, last axis, for every combination of its parents."""

    column: int
    parents: ColumnSet
    table: FloatArray

    @classmethod
    def from_counts(cls, column: int, parents: ColumnSet, counts: FloatArray) -> Conditional:
        """Normalise non-negative counts over (parents, column); nothing known means even."""
        sums = counts.sum(axis=-1, keepdims=True)
        even = np.full_like(counts, 1 / counts.shape[-1])
        return cls(column, parents, np.divide(counts, sums, out=even, where=sums > 0))


@dataclass(frozen=True)
class FittedModel:
    """A distribution over all columns, and how many rows there are. Nothing in it is private."""

    shape: TableShape
    conditionals: tuple[Conditional, ...]
    total: float

    @cached_property
    def _by_column(self) -> dict[int, Conditional]:
        return {conditional.column: conditional for conditional in self.conditionals}

    @property
    def even(self) -> FittedModel:
        """The same columns, each code as likely as another."""
        sizes = enumerate(self.shape.sizes)
        conditionals = (Conditional(column, (), np.full(size, 1 / size)) for column, size in sizes)
        return FittedModel(self.shape, tuple(conditionals), self.total)

    def probabilities(self, columns: ColumnSet) -> FloatArray:
        """The exact distribution of some columns.

        Columns on which none of them depends are left out; the others are summed out one after
        another, always the one next that takes fewest cells.
        """
        needed: set[int] = set()
        queue = list(columns)
        while queue:
            column = queue.pop()
            if column not in needed:
                needed.add(column)
                queue.extend(self._by_column[column].parents)
        relevant = [
            conditional for conditional in self.conditionals if conditional.column in needed
        ]
        factors = [
            ((*conditional.parents, conditional.column), conditional.table)
            for conditional in relevant
        ]
        while away := {column for scope, _ in factors for column in scope} - {*columns}:
            beside = {column: _neighbours(column, factors) for column in away}
            column = min(
                away,
                key=lambda other_column: (self.shape.cells(beside[other_column]), other_column),
            )
            message = contracted(
                [factor for factor in factors if column in factor[0]], beside[column]
            )
            factors = [factor for factor in factors if column not in factor[0]]
            factors.append((beside[column], message))
        return contracted(factors, columns)

    def counts(self, columns: ColumnSet) -> FloatArray:
        """How many rows the model expects in every cell of some columns."""
        return self.total * self.probabilities(columns)


def _neighbours(column: int, factors: Sequence[tuple[ColumnSet, FloatArray]]) -> ColumnSet:
    """The other columns of all factors that have one."""
    return tuple(
        sorted(
            {neighbour for scope, _ in factors if column in scope for neighbour in scope} - {column}
        )
    )


def contracted(
    factors: Sequence[tuple[Sequence[int], FloatArray]], kept_columns: Sequence[int]
) -> FloatArray:
    """The product of factors over columns, summed over all columns but the wanted ones."""
    columns = sorted({column for scope, _ in factors for column in scope})
    numbers = {column: number for number, column in enumerate(columns)}
    operands: list[Any] = []
    for scope, factor in factors:
        operands += [factor, [numbers[column] for column in scope]]
    operands.append([numbers[column] for column in kept_columns])
    return np.asarray(np.einsum(*operands, optimize="greedy"))


# Fit a network: every measured set of columns adds one column, given the others of the set.


def fit_network(log: MeasurementLog) -> FittedModel:
    """The model in which each set of the log, in order, gives its new column from the others."""
    tables, total = consistent_tables(log)
    conditionals: dict[int, Conditional] = {}
    for measured_columns in [table.columns for table in log.tables if len(table.columns) > 1]:
        new = [column for column in measured_columns if column not in conditionals]
        for parent in new[:-1]:
            conditionals[parent] = Conditional.from_counts(parent, (), tables[(parent,)])
        for column in new[-1:]:
            parents = tuple(parent for parent in measured_columns if parent != column)
            counts = np.moveaxis(tables[measured_columns], measured_columns.index(column), -1)
            conditionals[column] = Conditional.from_counts(column, parents, counts)
    for column in log.shape.columns:
        if column not in conditionals:
            conditionals[column] = Conditional.from_counts(column, (), tables[(column,)])
    return FittedModel(log.shape, tuple(conditionals.values()), total)
