"""Junction trees: cliques of columns that hold given sets, joined so that shared columns agree.

A graph of sets is triangulated by eliminating, again and again, the column whose clique has the
fewest cells; the cliques that are not part of others are joined along the largest shared sets.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.synth.consistency import consistent_tables, independent, only_possible
from sfumato.methods.synth.fitted_model import Conditional, FittedModel, contracted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sfumato.arrays import BoolArray, FloatArray
    from sfumato.methods.synth.measurement_log import ColumnSet, MeasurementLog, TableShape


@dataclass(frozen=True)
class JunctionTree:
    """Cliques, parents first; each but the first has a parent and shares a set with it."""

    shape: TableShape
    cliques: tuple[ColumnSet, ...]
    parents: tuple[int, ...]
    """The place of each clique's parent; -1 of the first."""

    @cached_property
    def shared(self) -> tuple[ColumnSet, ...]:
        """What each clique has in common with its parent."""
        return tuple(
            tuple(sorted({*clique} & {*self.cliques[parent]})) if parent >= 0 else ()
            for clique, parent in zip(self.cliques, self.parents, strict=True)
        )

    @property
    def cells(self) -> int:
        """How many cells all cliques have together."""
        return sum(self.shape.cells(clique) for clique in self.cliques)

    def home(self, columns: ColumnSet) -> int | None:
        """The smallest clique that holds a set."""
        holding = [
            index for index, clique in enumerate(self.cliques) if set(columns) <= set(clique)
        ]
        return min(holding, key=lambda index: self.shape.cells(self.cliques[index]), default=None)


def junction_tree(shape: TableShape, sets: Iterable[ColumnSet]) -> JunctionTree:
    """A junction tree whose cliques hold all sets, and every column."""
    return _joined(shape, triangulated(shape, sets))


def triangulated(shape: TableShape, sets: Iterable[ColumnSet]) -> list[frozenset[int]]:
    """The cliques of a triangulated graph in which every set is within one of them."""
    beside: dict[int, set[int]] = {column: {column} for column in shape.columns}
    for columns in sets:
        for column in columns:
            beside[column].update(columns)
    weights = {column: shape.cells(near) for column, near in beside.items()}
    cliques: list[frozenset[int]] = []
    while beside:
        column = min(weights, key=weights.__getitem__)
        clique = beside.pop(column)
        del weights[column]
        if not any(clique <= existing for existing in cliques):
            cliques.append(frozenset(clique))
        for neighbour in clique - {column}:
            beside[neighbour] |= clique
            beside[neighbour].discard(column)
            weights[neighbour] = shape.cells(beside[neighbour])
    return cliques


def _joined(shape: TableShape, cliques: list[frozenset[int]]) -> JunctionTree:
    """Join cliques to a tree, the largest shared sets first; parents come before children."""
    inside = [0]
    parents = {0: -1}
    while len(inside) < len(cliques):
        best = max(
            ((old, new) for old in inside for new in range(len(cliques)) if new not in parents),
            key=lambda edge: len(cliques[edge[0]] & cliques[edge[1]]),
        )
        parents[best[1]] = best[0]
        inside.append(best[1])
    return JunctionTree(
        shape,
        tuple(tuple(sorted(cliques[index])) for index in inside),
        tuple(inside.index(parents[index]) if parents[index] >= 0 else -1 for index in inside),
    )


# Fit the distribution of most entropy that has given tables, on a junction tree.
#
# The tables of the log are brought together by least squares and made non-negative, so that they
# agree on their columns. Then cliques are visited from neighbour to neighbour, there and back:
# each is scaled to the tables that it holds, one after another, and hands what changed in the
# shared columns on to the next. So every clique is the exact marginal of one distribution at any
# time, and no array is larger than a clique; on a tree of pairs one sweep is the closed form.
# Where tables contradict each other a little, as noise makes them, the scaling settles between
# them.
#
# *Reference*: Jirousek & Preucil 1995; Deming & Stephan 1940 for the scaling.
# Decision `synthetic-rows`.

CELLS = 1 << 19
"""The most cells of a model."""
_SWEEPS = 60
_SETTLED = 1e-3
"""Sweeps end when none moves any table by more than this share of all rows."""


class CalibratedTree:
    """The probabilities of every clique of a junction tree, which agree on shared columns."""

    def __init__(self, tree: JunctionTree, columns: Mapping[int, FloatArray]) -> None:
        self.tree = tree
        self.tables = [_product(clique, columns) for clique in tree.cliques]

    def scale(self, targets: Mapping[ColumnSet, FloatArray], *, sweeps: int = _SWEEPS) -> None:
        """Scale to non-negative tables that add up to 1, in sweeps over all cliques."""
        held: list[list[tuple[ColumnSet, FloatArray]]] = [[] for _ in self.tree.cliques]
        for columns, target in targets.items():
            home = self.tree.home(columns)
            assert home is not None
            held[home].append((columns, target))
        walk = self._walk()
        for _ in range(sweeps):
            moved = 0.0
            for before, index in walk:
                if before is not None:
                    self._pass_message(before, index)
                if before is None or self.tree.parents[index] == before:
                    moved = max(moved, self._scale_one(index, held[index]))
            if moved < _SETTLED:
                break
        self._agree()

    def _scale_one(self, index: int, targets: list[tuple[ColumnSet, FloatArray]]) -> float:
        clique, moved = self.tree.cliques[index], 0.0
        for columns, target in targets:
            current = summed(self.tables[index], clique, columns)
            moved = max(moved, float(np.abs(target - current).sum()))
            factor = np.divide(target, current, out=np.zeros_like(current), where=current > 0)
            self.tables[index] *= _spread(factor, columns, clique)
        return moved

    def _pass_message(self, before: int, index: int) -> None:
        """Give a clique the shared columns of its neighbour."""
        child = index if self.tree.parents[index] == before else before
        shared, clique = self.tree.shared[child], self.tree.cliques[index]
        target = summed(self.tables[before], self.tree.cliques[before], shared)
        current = summed(self.tables[index], clique, shared)
        factor = np.divide(target, current, out=np.zeros_like(current), where=current > 0)
        self.tables[index] *= _spread(factor, shared, clique)

    def _walk(self) -> list[tuple[int | None, int]]:
        """Steps from clique to neighbour that visit all, children after parents and back."""
        children: dict[int, list[int]] = {index: [] for index in range(len(self.tables))}
        for index, parent in enumerate(self.tree.parents):
            if parent >= 0:
                children[parent].append(index)
        steps: list[tuple[int | None, int]] = [(None, 0)]
        stack = [(0, iter(children[0]))]
        while stack:
            index, remaining_children = stack[-1]
            child = next(remaining_children, None)
            if child is None:
                stack.pop()
                if stack:
                    steps.append((index, stack[-1][0]))
            else:
                steps.append((index, child))
                stack.append((child, iter(children[child])))
        return steps

    def _agree(self) -> None:
        """Hand on from the first clique to all others."""
        for index, parent in enumerate(self.tree.parents):
            if parent >= 0:
                self._pass_message(parent, index)

    def multiply(self, factors: Iterable[tuple[ColumnSet, FloatArray]]) -> float:
        """Take the product of factors for the distribution; gives what it added up to."""
        for columns, factor in factors:
            home = self.tree.home(columns)
            assert home is not None
            self.tables[home] = self.tables[home] * _spread(
                factor, columns, self.tree.cliques[home]
            )
        for index in range(len(self.tables) - 1, 0, -1):
            parent, shared = self.tree.parents[index], self.tree.shared[index]
            message = summed(self.tables[index], self.tree.cliques[index], shared)
            self.tables[parent] *= _spread(message, shared, self.tree.cliques[parent])
        total = float(self.tables[0].sum())
        self.tables[0] /= total or 1.0
        self._agree()
        return total

    def model(self, total: float) -> FittedModel:
        """The same distribution, as columns drawn one after another."""
        known: set[int] = set()
        conditionals = []
        for clique, table in zip(self.tree.cliques, self.tables, strict=True):
            parents = [column for column in clique if column in known]
            for column in [column for column in clique if column not in known]:
                counts = summed(table, clique, (*parents, column))
                conditionals.append(Conditional.from_counts(column, tuple(parents), counts))
                parents.append(column)
            known.update(clique)
        return FittedModel(self.tree.shape, tuple(conditionals), total)


def fit_junction(
    log: MeasurementLog, possible: Mapping[ColumnSet, BoolArray] = MappingProxyType({})
) -> FittedModel:
    """The model of most entropy that has the tables of the log, and nothing impossible."""
    tables, total = consistent_tables(log)
    tables = only_possible(tables, possible)
    return scaled_tree(log.shape, _within(log.shape, tables), total).model(total)


def _within(
    shape: TableShape, tables: Mapping[ColumnSet, FloatArray]
) -> dict[ColumnSet, FloatArray]:
    """The tables whose junction tree is not too large: those that tell most come first."""
    chosen: dict[ColumnSet, FloatArray] = {
        columns: table for columns, table in tables.items() if len(columns) == 1
    }
    if junction_tree(shape, tables).cells <= CELLS:
        return dict(tables)

    def dependence(columns: ColumnSet) -> float:
        apart = independent([tables[(column,)] for column in columns])
        return float(np.abs(tables[columns] - apart).sum())

    for columns in sorted(
        (columns for columns in tables if len(columns) > 1), key=dependence, reverse=True
    ):
        if junction_tree(shape, [*chosen, columns]).cells <= CELLS:
            chosen[columns] = tables[columns]
    return chosen


def scaled_tree(
    shape: TableShape,
    tables: Mapping[ColumnSet, FloatArray],
    total: float,
    *,
    sweeps: int = _SWEEPS,
    before: CalibratedTree | None = None,
) -> CalibratedTree:
    """A calibrated junction tree of tables that add up to a total.

    It goes on from the tree of `before`, where that has the same cliques.
    """
    tree = junction_tree(shape, tables)
    if before is not None and before.tree == tree:
        calibrated = before
    else:
        by_column = {column: tables[(column,)] / total for column in shape.columns}
        calibrated = CalibratedTree(tree, by_column)
    largest = {
        marginal: table / total
        for marginal, table in tables.items()
        if len(marginal) > 1 and not any(set(marginal) < set(larger) for larger in tables)
    }
    calibrated.scale(largest, sweeps=sweeps)
    return calibrated


def summed(table: FloatArray, clique: ColumnSet, columns: Iterable[int]) -> FloatArray:
    """The table of some columns of a clique, in the order given."""
    wanted_columns = tuple(columns)
    away = tuple(axis for axis, column in enumerate(clique) if column not in wanted_columns)
    order_in_clique = [column for column in clique if column in wanted_columns]
    order = [order_in_clique.index(column) for column in wanted_columns]
    return np.asarray(table.sum(axis=away).transpose(order))


def _spread(table: FloatArray, columns: ColumnSet, clique: ColumnSet) -> FloatArray:
    """A table of some columns, in order, shaped to be multiplied with one of their clique."""
    sizes = dict(zip(columns, table.shape, strict=True))
    return table.reshape([sizes.get(column, 1) for column in clique])


def _product(clique: ColumnSet, columns: Mapping[int, FloatArray]) -> FloatArray:
    table = np.ones(())
    for column in clique:
        table = table[..., None] * columns[column]
    return table


# The exact tables of all pairs of columns under a calibrated junction tree.
#
# From a column's clique the tree is walked outwards. At each clique N that shares S with the one
# before, P(a, b) = sum over S of P(a, S) P(b | S) for every new column b, and in the same way
# P(a, S') for the set S' that the next clique shares: no table is larger than a's codes times S
# and S'.


def pair_probabilities(
    calibrated: CalibratedTree, pairs: Iterable[ColumnSet]
) -> dict[ColumnSet, FloatArray]:
    """The probabilities of some pairs of columns."""
    probabilities: dict[ColumnSet, FloatArray] = {}
    tree = calibrated.tree
    far: dict[int, set[int]] = {}
    for pair in pairs:
        home = tree.home(pair)
        if home is not None:
            probabilities[pair] = summed(calibrated.tables[home], tree.cliques[home], pair)
        else:
            near, partner = sorted(pair, key=lambda column: tree.shape.sizes[column])
            far.setdefault(near, set()).add(partner)
    walker = _Walker(calibrated)
    for column, partners in far.items():
        for partner, table in walker.beside(column, partners):
            probabilities[min(column, partner), max(column, partner)] = (
                table if column < partner else table.T
            )
    return probabilities


class _Walker:
    """Walks from clique to clique, with the table of one column and what they share."""

    def __init__(self, calibrated: CalibratedTree) -> None:
        self._tree, self._tables = calibrated.tree, calibrated.tables
        self._near: list[list[int]] = [[] for _ in self._tree.cliques]
        for index, parent in enumerate(self._tree.parents):
            if parent >= 0:
                self._near[index].append(parent)
                self._near[parent].append(index)
        self._conditionals: dict[tuple[int, ColumnSet, ColumnSet], FloatArray] = {}
        self._met: dict[tuple[int, int], set[int]] = {}

    def beside(self, column: int, partners: set[int]) -> Iterator[tuple[int, FloatArray]]:
        """Some other columns, and the probabilities of both."""
        home = self._tree.home((column,))
        assert home is not None
        missing = set(partners)
        queue: list[tuple[int | None, int, FloatArray]] = [(None, home, np.zeros(()))]
        while queue and missing:
            before, index, joint = queue.pop()
            for partner in missing & {*self._tree.cliques[index]}:
                yield partner, self._joint_with(column, before, index, joint, (partner,))
                missing.discard(partner)
            for near in self._near[index]:
                if near != before and missing & self._beyond(index, near):
                    shared = self._shared(index, near)
                    queue.append(
                        (index, near, self._joint_with(column, before, index, joint, shared))
                    )

    def _beyond(self, index: int, near: int) -> set[int]:
        """The columns that are met by going from a clique to its neighbour and on."""
        if (index, near) not in self._met:
            met = {*self._tree.cliques[near]}
            for further in self._near[near]:
                if further != index:
                    met |= self._beyond(near, further)
            self._met[index, near] = met
        return self._met[index, near]

    def _shared(self, first: int, second: int) -> ColumnSet:
        return self._tree.shared[first if self._tree.parents[first] == second else second]

    def _joint_with(
        self, column: int, before: int | None, index: int, joint: FloatArray, targets: ColumnSet
    ) -> FloatArray:
        """P(column, wanted), by a clique that holds what is wanted and P(column, shared)."""
        clique = self._tree.cliques[index]
        if column in clique:
            if column not in targets:
                return summed(self._tables[index], clique, (column, *targets))
            return summed(self._tables[index], clique, targets)
        assert before is not None
        separator = self._shared(before, index)
        new = tuple(target for target in targets if target not in separator)
        conditional = self._conditional(index, separator, new)
        return contracted(
            [((column, *separator), joint), ((*separator, *new), conditional)], (column, *targets)
        )

    def _conditional(self, index: int, separator: ColumnSet, new: ColumnSet) -> FloatArray:
        key = (index, separator, new)
        if key not in self._conditionals:
            both = summed(self._tables[index], self._tree.cliques[index], (*separator, *new))
            sums = both.sum(axis=tuple(range(len(separator), both.ndim)), keepdims=True)
            self._conditionals[key] = np.divide(both, sums, out=np.zeros_like(both), where=sums > 0)
        return self._conditionals[key]


# A model given fixed values of some columns: drawing '1,000 rows with sex = F'.


def conditioned(model: FittedModel, fixed: Mapping[int, int]) -> FittedModel:
    """The distribution of all columns given these codes; `total` is how many rows have them.

    What the model holds for impossible leaves the other columns even.
    """
    factors = []
    for conditional in model.conditionals:
        scope = (*conditional.parents, conditional.column)
        at = tuple(slice(fixed[c], fixed[c] + 1) if c in fixed else slice(None) for c in scope)
        order = np.argsort(scope)
        factors.append((tuple(sorted(scope)), conditional.table[at].transpose(order)))
    sliced = {
        column: np.ones(1 if column in fixed else size)
        for column, size in enumerate(model.shape.sizes)
    }
    tree = junction_tree(model.shape, [scope for scope, _ in factors])
    calibrated = CalibratedTree(tree, sliced)
    share = calibrated.multiply(factors)
    drawn = calibrated.model(model.total * share)
    conditionals = tuple(_expand(conditional, fixed, model) for conditional in drawn.conditionals)
    return FittedModel(model.shape, conditionals, model.total * share)


def _expand(conditional: Conditional, fixed: Mapping[int, int], model: FittedModel) -> Conditional:
    """A conditional over all codes again; a fixed column has one code and tells others nothing."""
    parents = tuple(parent for parent in conditional.parents if parent not in fixed)
    free = [column for column in (*conditional.parents, conditional.column) if column not in fixed]
    table = conditional.table.reshape(model.shape.of_set(free))
    if conditional.column in fixed:
        certain = np.zeros(model.shape.sizes[conditional.column])
        certain[fixed[conditional.column]] = 1
        return Conditional(conditional.column, (), certain)
    return Conditional(conditional.column, parents, table)
