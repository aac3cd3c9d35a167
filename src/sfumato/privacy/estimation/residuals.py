"""Residuals of marginals: least squares over noisy tables by the analysis of variance.

The residual of a set R of columns is the part of its marginal that no smaller marginal tells:
the table centred along every axis. The residuals of different sets are orthogonal, and a table of
a set T is the sum of the residuals of all subsets R of T, each divided by the cells of T for every
cell of R. So least squares over noisy tables falls apart into one weighted mean for each residual,
and no array is ever larger than one of the tables. Decisions `group-keys` and `marginals`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from math import prod
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray

    Set = tuple[int, ...]


@dataclass(frozen=True)
class PrecisionLinks:
    """What measured sets tell: the precision that a unit of precision in one gives to another."""

    measured: NDArray[np.intp]
    residual: NDArray[np.intp]
    factor: FloatArray

    @classmethod
    def own(cls, count: int) -> PrecisionLinks:
        """Every measurement tells about one residual, its own."""
        places = np.arange(count)
        return cls(places, places, np.ones(count))

    def precisions(self, measured: FloatArray, residuals: int) -> FloatArray:
        """The precision of every residual, from the precision of every measured cell."""
        parts = self.factor * measured[self.measured]
        found = np.bincount(self.residual, weights=parts, minlength=residuals)
        return np.asarray(found, dtype=np.float64)


@dataclass(frozen=True)
class MarginalLattice:
    """Columns of given sizes, the marginals wanted of them, and how much each matters.

    A set may be wanted several times; its weights add up. Without weights all matter alike.
    """

    sizes: tuple[int, ...]
    wanted: tuple[Set, ...]
    weights: tuple[float, ...] = ()

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
    def importance(self) -> FloatArray:
        """What a unit of variance in each residual adds to the weighted sum over all cells."""
        links = self.links(self.wanted)
        weights = np.array(self.weights or (1.0,) * len(self.wanted))
        weighted = links.precisions(weights, len(self.residuals))
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


@dataclass(frozen=True)
class ResidualEstimate:
    """The best linear unbiased estimate of all residuals from tables with independent noise.

    *Error*: every cell of a table has the same variance, as `cell_variance` says; the least among
    linear unbiased estimates (Gauss and Markov).
    *Edges*: every residual must be told of by some table. A column of one value changes nothing.
    *Reference*: Hay, Rastogi, Miklau & Suciu 2010 for trees; Xiao, He, Zhang & Kifer 2023.
    """

    lattice: MarginalLattice
    measured: tuple[Set, ...]
    precisions: FloatArray
    """One over the variance in each cell of each measured table."""
    centred: bool = False
    """Whether each measured table is the residual of its set, and tells of no other."""

    @cached_property
    def links(self) -> PrecisionLinks:
        """Which residuals each measurement tells about."""
        if self.centred:
            return PrecisionLinks.own(len(self.measured))
        return self.lattice.links(self.measured)

    @cached_property
    def variances(self) -> FloatArray:
        """The variance in each residual, in every direction of its space."""
        told = self.links.precisions(self.precisions, len(self.lattice.residuals))
        return np.asarray(1 / told)

    def cell_variance(self, wanted: Set) -> float:
        """The variance of every cell of a wanted table."""
        found = 0.0
        for part in subsets(wanted):
            rest = self.lattice.cells(wanted) // self.lattice.cells(part)
            share = self.lattice.freedom(part) / self.lattice.cells(part)
            found += share * self.variances[self._places[part]] / rest**2
        return float(found)

    def residuals(self, tables: Iterable[FloatArray]) -> dict[Set, FloatArray]:
        """Every residual, from the noisy tables in the order of those measured."""
        found: dict[Set, FloatArray] = {}
        links = self.links
        weights = links.factor * self.precisions[links.measured] * self.variances[links.residual]
        ends = np.searchsorted(links.measured, np.arange(len(self.measured) + 1))
        for place, (one, table) in enumerate(zip(self.measured, tables, strict=True)):
            for link in range(ends[place], ends[place + 1]):
                part = self.lattice.residuals[links.residual[link]]
                away = tuple(axis for axis, column in enumerate(one) if column not in part)
                added = weights[link] * table.sum(axis=away)
                found[part] = found[part] + added if part in found else np.asarray(added)
        return {part: centred(table) for part, table in found.items()}

    def marginal(self, residuals: Mapping[Set, FloatArray], wanted: Set) -> FloatArray:
        """A wanted table put together from the residuals of its subsets."""
        sizes = [self.lattice.sizes[column] for column in wanted]
        table = np.zeros(sizes)
        for part in subsets(wanted):
            shape = [
                size if column in part else 1 for column, size in zip(wanted, sizes, strict=True)
            ]
            rest = self.lattice.cells(wanted) // self.lattice.cells(part)
            table += residuals[part].reshape(shape) / rest
        return table

    @cached_property
    def _places(self) -> dict[Set, int]:
        return {one: place for place, one in enumerate(self.lattice.residuals)}


def centred(table: FloatArray) -> FloatArray:
    """What of a table varies with every axis: its means along each are 0."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def subsets(places: Set) -> Iterable[Set]:
    """Every subset of a set, itself and the empty one included."""
    return chain.from_iterable(combinations(places, size) for size in range(len(places) + 1))


def _order(places: Set) -> tuple[int, Set]:
    return len(places), places
