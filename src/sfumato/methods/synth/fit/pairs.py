"""The exact tables of all pairs of columns under a calibrated junction tree.

From a column's clique the tree is walked outwards. At each clique N that shares S with the one
before, P(a, b) = sum over S of P(a, S) P(b | S) for every new column b, and in the same way
P(a, S') for the set S' that the next clique shares: no table is larger than a's codes times S and
S'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.synth.fit.junction import summed
from sfumato.methods.synth.model import contracted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sfumato.arrays import FloatArray
    from sfumato.methods.synth.fit.junction import CalibratedTree
    from sfumato.methods.synth.shape import Set


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
