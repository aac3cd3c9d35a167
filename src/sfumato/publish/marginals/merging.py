"""Which tables to measure: the wanted ones, or some of them merged where that makes less noise.

Every table takes its share of the budget, and Laplace noise grows with the square of 1 / share; so
one table over more columns, from which several wanted ones are added up, often beats them all. If T
is measured for wanted tables of total weight W, their cells have a total variance of W times the
cells of T, and at the best shares the sum over all measured tables is, with p the power of 1/share,
the (1 + p)-th power of the sum of (W x cells)^(1 / (1 + p)).
"""

from __future__ import annotations

from math import inf, log
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sfumato.publish.marginals.lattice import Lattice
    from sfumato.publish.marginals.wanted import Set

_LARGEST = log(1 << 22)
_SPACING = 0.95


def families(lattice: Lattice, *, power: int) -> Iterator[tuple[Set, ...]]:
    """Families of tables to measure: the wanted ones, then ever fewer, merged pair by pair."""
    merging = _Merging(lattice, power)
    yield merging.family
    yielded = len(merging.matter)
    for left in merging.steps():
        if left <= _SPACING * yielded:
            yielded = left
            yield merging.family


class _Merging:
    """Tables to measure, of which the two that gain most become one, again and again.

    What a table gains with its best mate is an upper bound once the mate was merged itself; it is
    found anew only where the bound comes out on top.
    """

    def __init__(self, lattice: Lattice, power: int) -> None:
        weights = dict.fromkeys(lattice.wanted, 0.0)
        for one, weight in zip(lattice.wanted, lattice.weights, strict=True):
            weights[one] += weight
        self.logs = np.log(np.array(lattice.sizes))
        self.members = lattice.membership(tuple(weights)).astype(np.float64)
        self.matter = np.array(list(weights.values()))
        self.cells = self.members @ self.logs
        self.root = 1 / (1 + power)
        self.alive = np.ones(len(weights), dtype=bool)

    @property
    def family(self) -> tuple[Set, ...]:
        """The tables as they are now."""
        rows = self.members[self.alive]
        return tuple(dict.fromkeys(tuple(np.flatnonzero(row).tolist()) for row in rows))

    def steps(self) -> Iterator[int]:
        """Merge the best pair, and say how many tables are left."""
        gains = np.empty(len(self.matter))
        mates, merged, known = np.zeros((3, len(gains)), dtype=np.int64)
        for place in range(len(gains)):
            row = self._gains(place)
            gains[place], mates[place] = row.max(), row.argmax()
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

    def _gains(self, place: int) -> NDArray[np.float64]:
        """What merging with each other table takes from the sum of roots."""
        union = self.cells[place] + self.cells - self.members @ (self.members[place] * self.logs)
        apart = self._roots(self.cells[place], self.matter[place])
        apart = apart + self._roots(self.cells, self.matter)
        gain = apart - self._roots(union, self.matter[place] + self.matter)
        possible = self.alive & (union <= _LARGEST)
        possible[place] = False
        return np.where(possible, gain, -inf)

    def _roots(
        self, cells: NDArray[np.float64], weights: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        return np.asarray(np.exp(self.root * (cells + np.log(weights))))
