"""Junction trees: cliques of columns that hold given sets, joined so that shared columns agree.

A graph of sets is triangulated by eliminating, again and again, the column whose clique has the
fewest cells; the cliques that are not part of others are joined along the largest shared sets.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.methods.synth.shape import Set, TableShape


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
