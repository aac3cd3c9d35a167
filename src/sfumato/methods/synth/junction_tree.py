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
    from sfumato.methods.synth.measurement_log import MeasurementLog, Set, TableShape


@dataclass(frozen=True)
class JunctionTree:
    """Cliques, parents first; each but the first has a parent and shares a set with it."""

    shape: TableShape
    cliques: tuple[Set, ...]
    parents: tuple[int, ...]
    """The place of each clique's parent; -1 of the first."""

    @cached_property
    def shared(self) -> tuple[Set, ...]:
        """What each clique has in common with its parent."""
        return tuple(
            tuple(sorted({*clique} & {*self.cliques[parent]})) if parent >= 0 else ()
            for clique, parent in zip(self.cliques, self.parents, strict=True)
        )

    @property
    def cells(self) -> int:
        """How many cells all cliques have together."""
        return sum(self.shape.cells(clique) for clique in self.cliques)

    def home(self, places: Set) -> int | None:
        """The smallest clique that holds a set."""
        holding = [place for place, clique in enumerate(self.cliques) if set(places) <= set(clique)]
        return min(holding, key=lambda place: self.shape.cells(self.cliques[place]), default=None)


def junction_tree(shape: TableShape, sets: Iterable[Set]) -> JunctionTree:
    """A junction tree whose cliques hold all sets, and every column."""
    return _joined(shape, triangulated(shape, sets))


def triangulated(shape: TableShape, sets: Iterable[Set]) -> list[frozenset[int]]:
    """The cliques of a triangulated graph in which every set is within one of them."""
    beside: dict[int, set[int]] = {column: {column} for column in shape.columns}
    for one in sets:
        for column in one:
            beside[column].update(one)
    weights = {column: shape.cells(near) for column, near in beside.items()}
    cliques: list[frozenset[int]] = []
    while beside:
        column = min(weights, key=weights.__getitem__)
        clique = beside.pop(column)
        del weights[column]
        if not any(clique <= other for other in cliques):
            cliques.append(frozenset(clique))
        for other in clique - {column}:
            beside[other] |= clique
            beside[other].discard(column)
            weights[other] = shape.cells(beside[other])
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
        tuple(tuple(sorted(cliques[place])) for place in inside),
        tuple(inside.index(parents[place]) if parents[place] >= 0 else -1 for place in inside),
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
# Decision `synthesis-fit`.

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


# The exact tables of all pairs of columns under a calibrated junction tree.
#
# From a column's clique the tree is walked outwards. At each clique N that shares S with the one
# before, P(a, b) = sum over S of P(a, S) P(b | S) for every new column b, and in the same way
# P(a, S') for the set S' that the next clique shares: no table is larger than a's codes times S
# and S'.


def pair_probabilities(calibrated: CalibratedTree, pairs: Iterable[Set]) -> dict[Set, FloatArray]:
    """The probabilities of some pairs of columns."""
    found: dict[Set, FloatArray] = {}
    tree = calibrated.tree
    far: dict[int, set[int]] = {}
    for pair in pairs:
        home = tree.home(pair)
        if home is not None:
            found[pair] = summed(calibrated.tables[home], tree.cliques[home], pair)
        else:
            near, other = sorted(pair, key=lambda column: tree.shape.sizes[column])
            far.setdefault(near, set()).add(other)
    walker = _Walker(calibrated)
    for column, others in far.items():
        for other, table in walker.beside(column, others):
            found[min(column, other), max(column, other)] = table if column < other else table.T
    return found


class _Walker:
    """Walks from clique to clique, with the table of one column and what they share."""

    def __init__(self, calibrated: CalibratedTree) -> None:
        self._tree, self._tables = calibrated.tree, calibrated.tables
        self._near: list[list[int]] = [[] for _ in self._tree.cliques]
        for place, parent in enumerate(self._tree.parents):
            if parent >= 0:
                self._near[place].append(parent)
                self._near[parent].append(place)
        self._conditionals: dict[tuple[int, Set, Set], FloatArray] = {}
        self._met: dict[tuple[int, int], set[int]] = {}

    def beside(self, column: int, others: set[int]) -> Iterator[tuple[int, FloatArray]]:
        """Some other columns, and the probabilities of both."""
        home = self._tree.home((column,))
        assert home is not None
        wanted = set(others)
        queue: list[tuple[int | None, int, FloatArray]] = [(None, home, np.zeros(()))]
        while queue and wanted:
            before, place, joint = queue.pop()
            for other in wanted & {*self._tree.cliques[place]}:
                yield other, self._with(column, before, place, joint, (other,))
                wanted.discard(other)
            for near in self._near[place]:
                if near != before and wanted & self._beyond(place, near):
                    shared = self._shared(place, near)
                    queue.append((place, near, self._with(column, before, place, joint, shared)))

    def _beyond(self, place: int, near: int) -> set[int]:
        """The columns that are met by going from a clique to its neighbour and on."""
        if (place, near) not in self._met:
            met = {*self._tree.cliques[near]}
            for further in self._near[near]:
                if further != place:
                    met |= self._beyond(near, further)
            self._met[place, near] = met
        return self._met[place, near]

    def _shared(self, one: int, other: int) -> Set:
        return self._tree.shared[one if self._tree.parents[one] == other else other]

    def _with(
        self, column: int, before: int | None, place: int, joint: FloatArray, wanted: Set
    ) -> FloatArray:
        """P(column, wanted), by a clique that holds what is wanted and P(column, shared)."""
        clique = self._tree.cliques[place]
        if column in clique:
            if column not in wanted:
                return summed(self._tables[place], clique, (column, *wanted))
            return summed(self._tables[place], clique, wanted)
        assert before is not None
        given = self._shared(before, place)
        new = tuple(one for one in wanted if one not in given)
        conditional = self._conditional(place, given, new)
        return contracted(
            [((column, *given), joint), ((*given, *new), conditional)], (column, *wanted)
        )

    def _conditional(self, place: int, given: Set, new: Set) -> FloatArray:
        key = (place, given, new)
        if key not in self._conditionals:
            both = summed(self._tables[place], self._tree.cliques[place], (*given, *new))
            sums = both.sum(axis=tuple(range(len(given), both.ndim)), keepdims=True)
            self._conditionals[key] = np.divide(both, sums, out=np.zeros_like(both), where=sums > 0)
        return self._conditionals[key]


# A model given fixed values of some columns: drawing '1,000 rows with sex = F'.


def conditioned(model: FittedModel, fixed: Mapping[int, int]) -> FittedModel:
    """The distribution of all columns given these codes; `total` is how many rows have them.

    What the model holds for impossible leaves the other columns even.
    """
    factors = []
    for one in model.conditionals:
        places = (*one.parents, one.column)
        at = tuple(slice(fixed[c], fixed[c] + 1) if c in fixed else slice(None) for c in places)
        order = np.argsort(places)
        factors.append((tuple(sorted(places)), one.table[at].transpose(order)))
    sliced = {
        column: np.ones(1 if column in fixed else size)
        for column, size in enumerate(model.shape.sizes)
    }
    tree = junction_tree(model.shape, [places for places, _ in factors])
    calibrated = CalibratedTree(tree, sliced)
    share = calibrated.multiply(factors)
    drawn = calibrated.model(model.total * share)
    conditionals = tuple(_whole(one, fixed, model) for one in drawn.conditionals)
    return FittedModel(model.shape, conditionals, model.total * share)


def _whole(one: Conditional, fixed: Mapping[int, int], model: FittedModel) -> Conditional:
    """A conditional over all codes again; a fixed column has one code and tells others nothing."""
    parents = tuple(parent for parent in one.parents if parent not in fixed)
    free = [column for column in (*one.parents, one.column) if column not in fixed]
    table = one.table.reshape(model.shape.of_set(free))
    if one.column in fixed:
        certain = np.zeros(model.shape.sizes[one.column])
        certain[fixed[one.column]] = 1
        return Conditional(one.column, (), certain)
    return Conditional(one.column, parents, table)
