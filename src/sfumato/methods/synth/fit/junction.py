"""Fit the distribution of most entropy that has given tables, on a junction tree.

The tables of the log are brought together by least squares and made non-negative, so that they
agree on their columns. Then cliques are visited from neighbour to neighbour, there and back: each
is scaled to the tables that it holds, one after another, and hands what changed in the shared
columns on to the next. So every clique is the exact marginal of one distribution at any time, and
no array is larger than a clique; on a tree of pairs one sweep is the
closed form. Where tables contradict each other a little, as noise makes them,
the scaling settles between them.

*Reference*: Jirousek & Preucil 1995; Deming & Stephan 1940 for the scaling.
Decision `synthesis-fit`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.synth.consistency import consistent_tables, independent, only_possible
from sfumato.methods.synth.fit.cliques import JunctionTree, junction_tree
from sfumato.methods.synth.model import Conditional, FittedModel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sfumato.arrays import BoolArray, FloatArray
    from sfumato.methods.synth.log import MeasurementLog
    from sfumato.methods.synth.shape import Set, TableShape


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

    def scale(self, targets: Mapping[Set, FloatArray], *, sweeps: int = _SWEEPS) -> None:
        """Scale to non-negative tables that add up to 1, in sweeps over all cliques."""
        held: list[list[tuple[Set, FloatArray]]] = [[] for _ in self.tree.cliques]
        for places, target in targets.items():
            home = self.tree.home(places)
            assert home is not None
            held[home].append((places, target))
        walk = self._walk()
        for _ in range(sweeps):
            moved = 0.0
            for before, place in walk:
                if before is not None:
                    self._hand_on(before, place)
                if before is None or self.tree.parents[place] == before:
                    moved = max(moved, self._scale_one(place, held[place]))
            if moved < _SETTLED:
                break
        self._agree()

    def _scale_one(self, place: int, targets: list[tuple[Set, FloatArray]]) -> float:
        clique, moved = self.tree.cliques[place], 0.0
        for places, target in targets:
            found = summed(self.tables[place], clique, places)
            moved = max(moved, float(np.abs(target - found).sum()))
            factor = np.divide(target, found, out=np.zeros_like(found), where=found > 0)
            self.tables[place] *= _spread(factor, places, clique)
        return moved

    def _hand_on(self, before: int, place: int) -> None:
        """Give a clique the shared columns of its neighbour."""
        child = place if self.tree.parents[place] == before else before
        shared, clique = self.tree.shared[child], self.tree.cliques[place]
        wanted = summed(self.tables[before], self.tree.cliques[before], shared)
        found = summed(self.tables[place], clique, shared)
        factor = np.divide(wanted, found, out=np.zeros_like(found), where=found > 0)
        self.tables[place] *= _spread(factor, shared, clique)

    def _walk(self) -> list[tuple[int | None, int]]:
        """Steps from clique to neighbour that visit all, children after parents and back."""
        children: dict[int, list[int]] = {place: [] for place in range(len(self.tables))}
        for place, parent in enumerate(self.tree.parents):
            if parent >= 0:
                children[parent].append(place)
        steps: list[tuple[int | None, int]] = [(None, 0)]
        stack = [(0, iter(children[0]))]
        while stack:
            place, rest = stack[-1]
            child = next(rest, None)
            if child is None:
                stack.pop()
                if stack:
                    steps.append((place, stack[-1][0]))
            else:
                steps.append((place, child))
                stack.append((child, iter(children[child])))
        return steps

    def _agree(self) -> None:
        """Hand on from the first clique to all others."""
        for place, parent in enumerate(self.tree.parents):
            if parent >= 0:
                self._hand_on(parent, place)

    def multiply(self, factors: Iterable[tuple[Set, FloatArray]]) -> float:
        """Take the product of factors for the distribution; gives what it added up to."""
        for places, factor in factors:
            home = self.tree.home(places)
            assert home is not None
            self.tables[home] = self.tables[home] * _spread(factor, places, self.tree.cliques[home])
        for place in range(len(self.tables) - 1, 0, -1):
            parent, shared = self.tree.parents[place], self.tree.shared[place]
            told = summed(self.tables[place], self.tree.cliques[place], shared)
            self.tables[parent] *= _spread(told, shared, self.tree.cliques[parent])
        whole = float(self.tables[0].sum())
        self.tables[0] /= whole or 1.0
        self._agree()
        return whole

    def model(self, total: float) -> FittedModel:
        """The same distribution, as columns drawn one after another."""
        known: set[int] = set()
        conditionals = []
        for clique, table in zip(self.tree.cliques, self.tables, strict=True):
            given = [column for column in clique if column in known]
            for column in [column for column in clique if column not in known]:
                counts = summed(table, clique, (*given, column))
                conditionals.append(Conditional.from_counts(column, tuple(given), counts))
                given.append(column)
            known.update(clique)
        return FittedModel(self.tree.shape, tuple(conditionals), total)


def fit_junction(
    log: MeasurementLog, possible: Mapping[Set, BoolArray] = MappingProxyType({})
) -> FittedModel:
    """The model of most entropy that has the tables of the log, and nothing impossible."""
    tables, total = consistent_tables(log)
    tables = only_possible(tables, possible)
    return scaled_tree(log.shape, _within(log.shape, tables), total).model(total)


def _within(shape: TableShape, tables: Mapping[Set, FloatArray]) -> dict[Set, FloatArray]:
    """The tables whose junction tree is not too large: those that tell most come first."""
    kept: dict[Set, FloatArray] = {one: table for one, table in tables.items() if len(one) == 1}
    if junction_tree(shape, tables).cells <= CELLS:
        return dict(tables)

    def told(one: Set) -> float:
        apart = independent([tables[(column,)] for column in one])
        return float(np.abs(tables[one] - apart).sum())

    for one in sorted((one for one in tables if len(one) > 1), key=told, reverse=True):
        if junction_tree(shape, [*kept, one]).cells <= CELLS:
            kept[one] = tables[one]
    return kept


def scaled_tree(
    shape: TableShape,
    tables: Mapping[Set, FloatArray],
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
        columns = {column: tables[(column,)] / total for column in shape.columns}
        calibrated = CalibratedTree(tree, columns)
    largest = {
        places: table / total
        for places, table in tables.items()
        if len(places) > 1 and not any(set(places) < set(other) for other in tables)
    }
    calibrated.scale(largest, sweeps=sweeps)
    return calibrated


def summed(table: FloatArray, clique: Set, places: Iterable[int]) -> FloatArray:
    """The table of some columns of a clique, in the order given."""
    wanted = tuple(places)
    away = tuple(axis for axis, column in enumerate(clique) if column not in wanted)
    kept = [column for column in clique if column in wanted]
    order = [kept.index(column) for column in wanted]
    return np.asarray(table.sum(axis=away).transpose(order))


def _spread(table: FloatArray, places: Set, clique: Set) -> FloatArray:
    """A table of some columns, in order, shaped to be multiplied with one of their clique."""
    sizes = dict(zip(places, table.shape, strict=True))
    return table.reshape([sizes.get(column, 1) for column in clique])


def _product(clique: Set, columns: Mapping[int, FloatArray]) -> FloatArray:
    table = np.ones(())
    for column in clique:
        table = table[..., None] * columns[column]
    return table
