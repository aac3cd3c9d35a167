"""What is measured for some marginals, with which noise, and the residuals estimated from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.grouping import keys
from sfumato.privacy.sensitivity import Sensitivity
from sfumato.publish.marginals.lattice import Lattice, Links, subsets
from sfumato.publish.marginals.merging import families
from sfumato.publish.marginals.shares import divide, exact

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.frequencies import Frequencies
    from sfumato.noise.entropy import Entropy
    from sfumato.publish.marginals.wanted import Set
    from sfumato.publish.purse import Noise, Purse

_NEGLIGIBLE = 2.0**-20
_RANKING_ROUNDS = 50


@dataclass(frozen=True)
class Strategy:
    """Tables measured with independent noise in each cell: as they are, or centred.

    A centred table is a residual times its number of cells, which makes it whole numbers.
    """

    lattice: Lattice
    measured: tuple[Set, ...]
    shares: tuple[Fraction, ...]
    noises: tuple[Noise, ...]
    centred: bool

    @cached_property
    def links(self) -> Links:
        """Which residuals each measurement tells about."""
        return _own(len(self.measured)) if self.centred else self.lattice.links(self.measured)

    @cached_property
    def scales(self) -> NDArray[np.float64]:
        """What the measured whole numbers are divided by."""
        cells = [float(self.lattice.cells(one)) for one in self.measured]
        return np.array(cells) if self.centred else np.ones(len(cells))

    @cached_property
    def precisions(self) -> NDArray[np.float64]:
        """One over the variance of each measurement, in counts."""
        return np.array([1 / one.variance for one in self.noises]) * self.scales**2

    @cached_property
    def variances(self) -> NDArray[np.float64]:
        """The variance in each residual, in every direction of its space."""
        told = self.links.precisions(self.precisions, len(self.lattice.residuals))
        return np.asarray(1 / told)

    @cached_property
    def total_variance(self) -> float:
        """The sum of the variances of all wanted cells, each times the weight of its table."""
        return float(self.lattice.importance @ self.variances)

    def cell_variance(self, wanted: Set) -> float:
        """The variance of every cell of a wanted table."""
        found = 0.0
        for part in subsets(wanted):
            rest = self.lattice.cells(wanted) // self.lattice.cells(part)
            share = self.lattice.freedom(part) / self.lattice.cells(part)
            found += share * self.variances[self._places[part]] / rest**2
        return float(found)

    def measure(
        self, counts: Frequencies, columns: Sequence[int], entropy: Entropy
    ) -> dict[Set, NDArray[np.float64]]:
        """Count with noise and estimate every residual; `columns` are the places of ours."""
        found: dict[Set, NDArray[np.float64]] = {}
        weights = self.links.factor * self.precisions[self.links.measured]
        weights *= self.variances[self.links.residual]
        ends = np.searchsorted(self.links.measured, np.arange(len(self.measured) + 1))
        for place, (one, noise) in enumerate(zip(self.measured, self.noises, strict=True)):
            table = _count(counts, [columns[axis] for axis in one])
            whole = _centre_whole(table) if self.centred else table
            noisy = noise.steps(whole, entropy).astype(np.float64) / self.scales[place]
            for link in range(ends[place], ends[place + 1]):
                part = self.lattice.residuals[self.links.residual[link]]
                away = tuple(axis for axis, column in enumerate(one) if column not in part)
                added = weights[link] * noisy.sum(axis=away)
                found[part] = found[part] + added if part in found else np.asarray(added)
        return {part: _centre(table) for part, table in found.items()}

    def marginal(
        self, residuals: dict[Set, NDArray[np.float64]], wanted: Set
    ) -> NDArray[np.float64]:
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


def tables(lattice: Lattice, purse: Purse, sensitivity: Sensitivity) -> Strategy:
    """Measure tables as they are: the family of them, and the shares, that give the least error."""
    power = 1 if purse.epsilon is None else 2

    def shared(family: tuple[Set, ...], rounds: int) -> tuple[NDArray[np.float64], float]:
        units, links = np.ones(len(family)), lattice.links(family)
        return divide(links, lattice.importance, units, power=power, rounds=rounds)

    family = min(
        families(lattice, power=power), key=lambda family: shared(family, _RANKING_ROUNDS)[1]
    )
    useful = shared(family, 1000)[0] >= _NEGLIGIBLE
    kept = tuple(
        one
        for one, needed in zip(family, useful, strict=True)
        if needed or not any(set(one) < set(other) for other in family)
    )
    shares = exact(shared(kept, 1000)[0])
    noises = tuple(purse.noise(sensitivity, share) for share in shares)
    return Strategy(lattice, kept, tuple(shares), noises, centred=False)


def residuals(lattice: Lattice, purse: Purse, sensitivity: Sensitivity) -> Strategy:
    """Measure every residual once: with Gaussian noise the best of all.

    Only where people are added or removed; then a histogram moves by as many rows as a person has,
    and most if all of them are in one cell. A row moves a centred table times its cells by the
    product of n - 1 where a column agrees with the row and of -1 where it does not.
    """
    moves = [
        Sensitivity(
            l1=sensitivity.l1 * 2 ** len(one) * lattice.freedom(one),
            l2_squared=sensitivity.l2_squared * lattice.cells(one) * lattice.freedom(one),
        )
        for one in lattice.residuals
    ]
    cells = np.array([float(lattice.cells(one)) for one in lattice.residuals])
    units = np.array([float(move.l2_squared) for move in moves]) / cells**2
    shares = exact(divide(_own(len(cells)), lattice.importance, units, power=1)[0])
    noises = [purse.noise(move, share) for move, share in zip(moves, shares, strict=True)]
    return Strategy(lattice, lattice.residuals, tuple(shares), tuple(noises), centred=True)


def _own(count: int) -> Links:
    """Every measurement tells about one residual, its own."""
    places = np.arange(count)
    return Links(places, places, np.ones(count))


def _count(counts: Frequencies, places: Sequence[int]) -> NDArray[np.int64]:
    """The table of some columns, every cell of it."""
    sizes = [counts.sizes[place] for place in places]
    table = np.zeros(sizes, dtype=np.int64)
    if places:
        key, _ = keys([counts.codes[place] for place in places], sizes)
        np.add.at(table.reshape(-1), key, counts.counts)
    else:
        table[...] = counts.total
    return table


def _centre(table: NDArray[np.float64]) -> NDArray[np.float64]:
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def _centre_whole(table: NDArray[np.int64]) -> NDArray[Any]:
    """A table centred along every axis, times its number of cells.

    No step makes a number larger than its axis is long; so counts that stay below 2^62 over the
    cells cannot pass 64 bits. Cutting larger ones down moves no neighbours apart.
    """
    whole = np.minimum(table, (1 << 62) // table.size)
    for axis, size in enumerate(table.shape):
        whole = size * whole - whole.sum(axis=axis, keepdims=True)
    return whole
