"""Residuals of marginals: least squares over noisy tables by the analysis of variance.

The residual of a set R of columns is the part of its marginal that no smaller marginal determines:
the table centred along every axis. The residuals of different sets are orthogonal. The table of a
set T is the sum of the residuals of all subsets R of T, each divided by the number of cells of T
per cell of R. So least squares over noisy tables decomposes into one weighted mean per residual,
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
    """A sparse matrix: the precision that a measurement of precision 1 adds to each residual."""

    measured: NDArray[np.intp]
    residual: NDArray[np.intp]
    factor: FloatArray

    @classmethod
    def own(cls, count: int) -> PrecisionLinks:
        """The identity: every measurement informs one residual, its own."""
        indices = np.arange(count)
        return cls(indices, indices, np.ones(count))

    def precisions(self, measured: FloatArray, residuals: int) -> FloatArray:
        """The precision of every residual, from the precision of every measured cell."""
        contributions = self.factor * measured[self.measured]
        totals = np.bincount(self.residual, weights=contributions, minlength=residuals)
        return np.asarray(totals, dtype=np.float64)


@dataclass(frozen=True)
class MarginalLattice:
    """Columns of given sizes, the requested marginals, and their weights in the total error.

    A set may be requested several times; its weights add up. Without weights, all are 1.
    """

    sizes: tuple[int, ...]
    marginals: tuple[Set, ...]
    weights: tuple[float, ...] = ()

    @cached_property
    def residuals(self) -> tuple[Set, ...]:
        """Every subset of a requested set, smaller ones first."""
        return tuple(
            sorted(
                {subset for marginal in self.marginals for subset in subsets(marginal)},
                key=_by_size,
            )
        )

    def cells(self, columns: Iterable[int]) -> int:
        """The number of cells in the table of some columns."""
        return prod(self.sizes[column] for column in columns)

    def freedom(self, columns: Iterable[int]) -> int:
        """The degrees of freedom of the residual of some columns."""
        return prod(self.sizes[column] - 1 for column in columns)

    @cached_property
    def importance(self) -> FloatArray:
        """How much a variance of 1 in each residual adds to the weighted variance of all cells."""
        links = self.links(self.marginals)
        weights = np.array(self.weights or (1.0,) * len(self.marginals))
        weighted = links.precisions(weights, len(self.residuals))
        freedoms = np.array([float(self.freedom(residual)) for residual in self.residuals])
        return np.asarray(weighted * freedoms)

    def links(self, measured: Sequence[Set]) -> PrecisionLinks:
        """Link each measured table T to the residuals of its subsets R.

        Summed from T to R, noise of variance v per cell has variance v |T| / |R|, |.| the number of
        cells; so the factor of a link is |R| / |T|.
        """
        outer, inner = self.membership(measured), self.membership(self.residuals)
        # R is a subset of T if no member of R is missing in T.
        missing = (1 - outer) @ inner.T
        measurements, residuals = np.nonzero(missing == 0)
        logs = np.log(np.array(self.sizes))
        factor = np.exp((inner @ logs)[residuals] - (outer @ logs)[measurements])
        return PrecisionLinks(measurements, residuals, factor)

    def membership(self, sets: Sequence[Set]) -> NDArray[np.float32]:
        """The incidence matrix (sets, columns): 1 where the column is in the set."""
        member = np.zeros((len(sets), len(self.sizes)), dtype=np.float32)
        for row, columns in enumerate(sets):
            member[row, list(columns)] = 1
        return member


@dataclass(frozen=True)
class ResidualEstimate:
    """The best linear unbiased estimate of all residuals from tables with independent noise.

    *Error*: every cell of a table has the same variance, as `cell_variance` says; the least among
    linear unbiased estimates (Gauss and Markov).
    *Edges*: every residual must be a subset of some measured set. A column of one value changes
    nothing.
    *Reference*: Hay, Rastogi, Miklau & Suciu 2010 for trees; Xiao, He, Zhang & Kifer 2023.
    """

    lattice: MarginalLattice
    measured: tuple[Set, ...]
    precisions: FloatArray
    """One over the variance in each cell of each measured table."""
    centred: bool = False
    """Whether each measured table is the residual of its set, and informs no other."""

    @cached_property
    def links(self) -> PrecisionLinks:
        """The links from measurements to residuals."""
        if self.centred:
            return PrecisionLinks.own(len(self.measured))
        return self.lattice.links(self.measured)

    @cached_property
    def variances(self) -> FloatArray:
        """The variance of each residual, equal in every direction of its space."""
        precisions = self.links.precisions(self.precisions, len(self.lattice.residuals))
        return np.asarray(1 / precisions)

    def cell_variance(self, marginal: Set) -> float:
        """The variance of every cell of a marginal: the sum over its subsets' residuals."""
        variance = 0.0
        for subset in subsets(marginal):
            cells_per_subset_cell = self.lattice.cells(marginal) // self.lattice.cells(subset)
            share = self.lattice.freedom(subset) / self.lattice.cells(subset)
            variance += (
                share * self.variances[self._residual_indices[subset]] / cells_per_subset_cell**2
            )
        return float(variance)

    def residuals(self, tables: Iterable[FloatArray]) -> dict[Set, FloatArray]:
        """Estimate every residual from the noisy tables, given in the order of `measured`."""
        estimates: dict[Set, FloatArray] = {}
        links = self.links
        weights = links.factor * self.precisions[links.measured] * self.variances[links.residual]
        ends = np.searchsorted(links.measured, np.arange(len(self.measured) + 1))
        for index, (columns, table) in enumerate(zip(self.measured, tables, strict=True)):
            for link in range(ends[index], ends[index + 1]):
                subset = self.lattice.residuals[links.residual[link]]
                away = tuple(axis for axis, column in enumerate(columns) if column not in subset)
                added = weights[link] * table.sum(axis=away)
                estimates[subset] = (
                    estimates[subset] + added if subset in estimates else np.asarray(added)
                )
        return {subset: centred(table) for subset, table in estimates.items()}

    def marginal(self, residuals: Mapping[Set, FloatArray], columns: Set) -> FloatArray:
        """Assemble the marginal of some columns from the residuals of its subsets."""
        sizes = [self.lattice.sizes[column] for column in columns]
        table = np.zeros(sizes)
        for subset in subsets(columns):
            shape = [
                size if column in subset else 1 for column, size in zip(columns, sizes, strict=True)
            ]
            cells_per_subset_cell = self.lattice.cells(columns) // self.lattice.cells(subset)
            table += residuals[subset].reshape(shape) / cells_per_subset_cell
        return table

    @cached_property
    def _residual_indices(self) -> dict[Set, int]:
        return {residual: index for index, residual in enumerate(self.lattice.residuals)}


def centred(table: FloatArray) -> FloatArray:
    """Subtract the mean along every axis."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def subsets(columns: Set) -> Iterable[Set]:
    """Every subset of a set, including itself and the empty set."""
    return chain.from_iterable(combinations(columns, size) for size in range(len(columns) + 1))


def _by_size(columns: Set) -> tuple[int, Set]:
    return len(columns), columns
