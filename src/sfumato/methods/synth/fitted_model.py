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
    from sfumato.methods.synth.measurement_log import MeasurementLog, Set, TableShape


@dataclass(frozen=True)
class Conditional:
    """The probabilities of a column's codes, last axis, for every combination of its parents."""

    column: int
    parents: Set
    table: FloatArray

    @classmethod
    def from_counts(cls, column: int, parents: Set, counts: FloatArray) -> Conditional:
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
    def _of(self) -> dict[int, Conditional]:
        return {one.column: one for one in self.conditionals}

    @property
    def even(self) -> FittedModel:
        """The same columns, each code as likely as another."""
        sizes = enumerate(self.shape.sizes)
        conditionals = (Conditional(one, (), np.full(size, 1 / size)) for one, size in sizes)
        return FittedModel(self.shape, tuple(conditionals), self.total)

    def probabilities(self, places: Set) -> FloatArray:
        """The exact distribution of some columns.

        Columns on which none of them depends are left out; the others are summed out one after
        another, always the one next that takes fewest cells.
        """
        needed: set[int] = set()
        queue = list(places)
        while queue:
            column = queue.pop()
            if column not in needed:
                needed.add(column)
                queue.extend(self._of[column].parents)
        those = [one for one in self.conditionals if one.column in needed]
        factors = [((*one.parents, one.column), one.table) for one in those]
        while away := {column for one, _ in factors for column in one} - {*places}:
            beside = {column: _beside(column, factors) for column in away}
            column = min(away, key=lambda one: (self.shape.cells(beside[one]), one))
            told = contracted([one for one in factors if column in one[0]], beside[column])
            factors = [one for one in factors if column not in one[0]]
            factors.append((beside[column], told))
        return contracted(factors, places)

    def counts(self, places: Set) -> FloatArray:
        """How many rows the model expects in every cell of some columns."""
        return self.total * self.probabilities(places)


def _beside(column: int, factors: Sequence[tuple[Set, FloatArray]]) -> Set:
    """The other columns of all factors that have one."""
    return tuple(sorted({other for one, _ in factors if column in one for other in one} - {column}))


def contracted(
    factors: Sequence[tuple[Sequence[int], FloatArray]], wanted: Sequence[int]
) -> FloatArray:
    """The product of factors over columns, summed over all columns but the wanted ones."""
    columns = sorted({column for places, _ in factors for column in places})
    numbers = {column: number for number, column in enumerate(columns)}
    operands: list[Any] = []
    for places, factor in factors:
        operands += [factor, [numbers[column] for column in places]]
    operands.append([numbers[column] for column in wanted])
    return np.asarray(np.einsum(*operands, optimize="greedy"))


# Fit a network: every measured set of columns adds one column, given the others of the set.


def fit_network(log: MeasurementLog) -> FittedModel:
    """The model in which each set of the log, in order, gives its new column from the others."""
    tables, total = consistent_tables(log)
    conditionals: dict[int, Conditional] = {}
    for places in [one.places for one in log.tables if len(one.places) > 1]:
        new = [one for one in places if one not in conditionals]
        for one in new[:-1]:
            conditionals[one] = Conditional.from_counts(one, (), tables[(one,)])
        for column in new[-1:]:
            parents = tuple(one for one in places if one != column)
            counts = np.moveaxis(tables[places], places.index(column), -1)
            conditionals[column] = Conditional.from_counts(column, parents, counts)
    for column in log.shape.columns:
        if column not in conditionals:
            conditionals[column] = Conditional.from_counts(column, (), tables[(column,)])
    return FittedModel(log.shape, tuple(conditionals.values()), total)
