"""What trees and wavelets measure, and its noise, in the auditor's shape."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.mechanisms.geometric import Geometric
from sfumato.publish.tree.blocks import Blocks
from sfumato.publish.tree.regions import Regions
from sfumato.publish.wavelet import Contrasts
from sfumato.testing.audit import Feature
from sfumato.testing.counts import frequencies
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.noise.entropy import Entropy
    from sfumato.publish.answers import Answers
    from sfumato.publish.purse import Noise
    from sfumato.publish.tree.method import Planned, Strategy


class _Heard:
    """No noise: it keeps what it should have been put on."""

    variance = 1.0

    def __init__(self) -> None:
        self.values = np.zeros(0, dtype=np.int64)

    def steps(self, values: NDArray[np.int64], _entropy: Entropy) -> NDArray[np.int64]:
        self.values = values
        return values


@dataclass(frozen=True, eq=False)
class Levels:
    """The exact whole numbers of two neighbouring tables, and the noise each of them gets.

    Numbers that are the same on both sides say nothing and are left out.
    """

    sides: tuple[NDArray[np.int64], NDArray[np.int64]]
    noises: Sequence[tuple[Noise, NDArray[np.intp]]]
    """Every noise, with the places among the numbers of a side that it is put on."""

    def draw(self, side: int, count: int, entropy: Entropy) -> NDArray[np.int64]:
        """Noisy numbers of one side, `count` times."""
        found = np.empty((count, len(self.sides[side])), dtype=np.int64)
        for noise, places in self.noises:
            exact = np.broadcast_to(self.sides[side][places], (count, len(places)))
            found[:, places] = noise.steps(exact, entropy)
        return found

    @property
    def loss(self) -> Fraction:
        """The exact epsilon of Laplace noise, or rho of Gaussian noise, between the two sides."""
        found = Fraction(0)
        for noise, places in self.noises:
            moves = self.sides[0][places] - self.sides[1][places]
            if isinstance(noise, Geometric):
                found += int(np.abs(moves).sum()) / noise.scale
            else:
                found += int((moves**2).sum()) / (2 * noise.steps_variance)
        return found

    @property
    def evidence(self) -> Feature:
        """The logarithm of the likelihood ratio of the two sides, in 64ths."""

        def keys(outputs: NDArray[Any]) -> NDArray[np.uint64]:
            found = np.zeros(len(outputs))
            for noise, places in self.noises:
                first, second = (outputs[:, places] - side[places] for side in self.sides)
                if isinstance(noise, Geometric):
                    terms = (np.abs(second) - np.abs(first)) / float(noise.scale)
                else:
                    terms = (second**2 - first**2) / (2 * noise.variance)
                found += terms.sum(axis=1)
            return np.rint(found * 64).astype(np.int64).view(np.uint64)

        return Feature("likelihood ratio", keys)


def levels_of(plan: Planned, first: NDArray[np.int64], second: NDArray[np.int64]) -> Levels:
    """What a plan measures of two dense tables."""
    noises: list[tuple[Noise, NDArray[np.intp]]] = []
    sides: tuple[list[NDArray[np.int64]], ...] = ([], [])
    start = 0
    heard = [_exact(plan, dense) for dense in (first, second)]
    for noise, ours, theirs in zip(_noises(plan), *heard, strict=True):
        changed = np.flatnonzero(ours != theirs)
        noises.append((noise, np.arange(start, start + len(changed))))
        start += len(changed)
        sides[0].append(ours[changed])
        sides[1].append(theirs[changed])
    return Levels((np.concatenate(sides[0]), np.concatenate(sides[1])), noises)


def answers_of(plan: Answers, first: NDArray[np.int64], second: NDArray[np.int64]) -> Levels:
    """What noise on the queries is put on, of two dense tables."""
    axes = plan.request.axes
    sides = [plan.measured(frequencies(axes, dense)) for dense in (first, second)]
    changed = np.flatnonzero(sides[0] != sides[1])
    return Levels((sides[0][changed], sides[1][changed]), [(plan.noise, np.arange(len(changed)))])


def _noises(plan: Planned) -> list[Noise]:
    strategy = plan.strategy
    if isinstance(strategy, Regions):
        return [strategy.noise]
    assert isinstance(strategy, Blocks | Contrasts)
    return [one.noise for one in strategy.measured]


def _exact(plan: Planned, dense: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The whole numbers that each noise is put on."""
    heard: list[Any] = [_Heard() for _ in _noises(plan)]
    strategy = plan.strategy
    silent: Strategy
    if isinstance(strategy, Regions):
        silent = replace(strategy, noise=heard[0])
    else:
        assert isinstance(strategy, Blocks | Contrasts)
        pairs = zip(strategy.measured, heard, strict=True)
        silent = replace(strategy, measured=tuple(one._replace(noise=ear) for one, ear in pairs))
    watched = replace(plan, strategy=silent)
    watched.release(frequencies(plan.request.axes, dense), SeededEntropy(1))
    return [noise.values for noise in heard]
