"""The lattice of sets of columns: which tables tell about which residuals, and how much.

The residual of a set R of columns is the part of its marginal that no smaller marginal tells:
the table centred along every axis. The residuals of different sets are orthogonal, and a table of
a set T is the sum of the residuals of all subsets R of T, each divided by the cells of T for every
cell of R. So least squares over noisy tables falls apart into one weighted mean for each residual,
and no array is ever larger than one of the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from math import prod
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Set = tuple[int, ...]


@dataclass(frozen=True)
class PrecisionLinks:
    """What measured sets tell: the precision that a unit of precision in one gives to another."""

    measured: NDArray[np.intp]
    residual: NDArray[np.intp]
    factor: NDArray[np.float64]

    def precisions(self, measured: NDArray[np.float64], residuals: int) -> NDArray[np.float64]:
        """The precision of every residual, from the precision of every measured cell."""
        parts = self.factor * measured[self.measured]
        found = np.bincount(self.residual, weights=parts, minlength=residuals)
        return np.asarray(found, dtype=np.float64)


@dataclass(frozen=True)
class MarginalLattice:
    """Columns of given sizes, all above 1, the marginals wanted of them, and how much each matters.

    A set may be wanted several times; its weights add up.
    """

    sizes: tuple[int, ...]
    wanted: tuple[Set, ...]
    weights: tuple[float, ...]

    @cached_property
    def residuals(self) -> tuple[Set, ...]:
        """Every subset of a wanted set, the smaller ones first."""
        return tuple(sorted({part for one in self.wanted for part in subsets(one)}, key=_order))

    def cells(self, places: Iterable[int]) -> int:
        """How many cells the table of some columns has."""
        return prod(self.sizes[place] for place in places)

    def freedom(self, places: Iterable[int]) -> int:
        """How many dimensions the residual of some columns has."""
        return prod(self.sizes[place] - 1 for place in places)

    @cached_property
    def importance(self) -> NDArray[np.float64]:
        """What a unit of variance in each residual adds to the weighted sum over all cells."""
        links = self.links(self.wanted)
        weighted = links.precisions(np.array(self.weights), len(self.residuals))
        freedoms = np.array([float(self.freedom(one)) for one in self.residuals])
        return np.asarray(weighted * freedoms)

    def links(self, measured: Sequence[Set]) -> PrecisionLinks:
        """Which residuals the tables of measured sets tell about.

        Added up from T to R, noise of variance v in each cell has the variance v times the cells
        of T for every cell of R.
        """
        outer, inner = self.membership(measured), self.membership(self.residuals)
        missing = (1 - outer) @ inner.T
        places, residuals = np.nonzero(missing == 0)
        logs = np.log(np.array(self.sizes))
        factor = np.exp((inner @ logs)[residuals] - (outer @ logs)[places])
        return PrecisionLinks(places, residuals, factor)

    def membership(self, sets: Sequence[Set]) -> NDArray[np.float32]:
        """One row for every set and one column for every column: 1 where it is a member."""
        member = np.zeros((len(sets), len(self.sizes)), dtype=np.float32)
        for row, one in enumerate(sets):
            member[row, list(one)] = 1
        return member


def subsets(places: Set) -> Iterable[Set]:
    """Every subset of a set, itself and the empty one included."""
    return chain.from_iterable(combinations(places, size) for size in range(len(places) + 1))


def _order(places: Set) -> tuple[int, Set]:
    return len(places), places
