"""What publications measure and release, many times at once, in the auditor's shape."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.counting.axes import Axis, Grid
from sfumato.mechanisms.laplace import Geometric
from sfumato.publish.spatial.growth import Growth, Space
from sfumato.publish.tree.blocks import BlockCounts
from sfumato.publish.tree.regions import Regions
from sfumato.publish.wavelet import Contrasts
from sfumato.schema.column import Kind
from sfumato.schema.domain import Bounds
from sfumato.testing.audit import Feature
from sfumato.testing.counts import frequencies
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sfumato.mechanisms.spending import Noise
    from sfumato.noise.entropy import Entropy
    from sfumato.publish.auto import WorkloadAnswers
    from sfumato.publish.request import Method
    from sfumato.publish.spatial.decomposition import Decomposition
    from sfumato.publish.tree.method import Strategy, StrategyMethod

ABSENT = -(10**9)
"""Stands for the count of a cell that was not released."""


def line(name: str, points: int) -> Grid:
    """A column of the whole numbers from 0 on, never missing."""
    return Grid(name, Kind.INTEGER, Bounds(0, points - 1, 1), nullable=False)


def release_copies(
    make: Callable[[tuple[Axis, ...]], Method],
    table: Sequence[int],
    copies: int,
    entropy: Entropy,
) -> NDArray[np.int64]:
    """One row for each copy of a table of one column: its released counts, or ABSENT.

    `make` prepares the method for the columns "copy" and "x". As cells are independent, one release
    over all copies is as many releases of one.
    """
    axes = (line("copy", copies), line("x", len(table)))
    counts = frequencies(axes, np.broadcast_to(np.array(table), (copies, len(table))))
    released = next(iter(make(axes).release(counts, entropy).values()))
    outputs = np.full((copies, len(table)), ABSENT, dtype=np.int64)
    outputs[released["copy"].to_numpy(), released["x"].to_numpy()] = released["count"].to_numpy()
    return outputs


def grow_copies(
    method: Decomposition,
    points: Sequence[tuple[int, ...]],
    copies: int,
    entropy: Entropy,
    *,
    kind: type[Growth] = Growth,
) -> Growth:
    """Grow a tree over the same points `copies` times, each copy with noise of its own.

    The copies lie side by side along a column of their own, the last one, which the method does not
    know of and which is divided beforehand. A growth of another kind may misbehave on purpose.
    """
    beside = Grid("copy", Kind.INTEGER, Bounds(0, copies - 1), nullable=False)
    space = Space((*method.space.axes, beside))
    rows = np.array(points, dtype=np.int64).reshape(-1, len(method.space.shape))
    codes = np.column_stack([np.tile(rows, (copies, 1)), np.repeat(np.arange(copies), len(rows))])
    growth = kind(space, codes, np.ones(len(codes), dtype=np.int64), np.zeros(0, dtype=np.int64))
    division = growth.begin(np.array([True]))
    division.evenly(len(space.shape) - 1, np.array([copies]))
    growth.end(division)
    method.grow(growth, entropy)
    return growth


def seen_of_copies(growth: Growth, copies: int) -> NDArray[np.int64]:
    """What an observer sees of each copy: (copies, 5) of its shape and its noisy counts.

    How many leaves it has, where its leaf at the origin ends, where its first part ends, and what
    was measured of the whole and of this part, -1 where there is none.
    """
    tree, (values, _) = growth.tree, growth.measured
    copy = tree.lows[:, -1]
    roots = np.arange(1, copies + 1)
    divided = tree.children[roots] > 0
    first = tree.firsts[roots] * divided
    origin = np.zeros(copies)
    corner = tree.leaves & (tree.lows[:, :-1] == 0).all(axis=1)
    origin[copy[corner]] = tree.highs[corner, 0]
    leaves = np.bincount(copy[tree.leaves], minlength=copies)
    parts = [np.where(divided, one[first], -1) for one in (tree.highs[:, 0], values)]
    figures = np.stack([leaves, origin, *parts, values[roots]], axis=1)
    return np.asarray(np.rint(figures), dtype=np.int64)


class _Heard:
    """No noise: it keeps what it should have been put on."""

    variance = 1.0

    def __init__(self) -> None:
        self.values = np.zeros(0, dtype=np.int64)

    def steps(self, values: NDArray[np.int64], _entropy: Entropy) -> NDArray[np.int64]:
        self.values = values
        return values


@dataclass(frozen=True, eq=False)
class MeasuredPair:
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


def measured_by_plan(
    plan: StrategyMethod, first: NDArray[np.int64], second: NDArray[np.int64]
) -> MeasuredPair:
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
    return MeasuredPair((np.concatenate(sides[0]), np.concatenate(sides[1])), noises)


def measured_by_answers(
    plan: WorkloadAnswers, first: NDArray[np.int64], second: NDArray[np.int64]
) -> MeasuredPair:
    """What noise on the queries is put on, of two dense tables."""
    axes = plan.request.axes
    sides = [plan.measured(frequencies(axes, dense)) for dense in (first, second)]
    changed = np.flatnonzero(sides[0] != sides[1])
    return MeasuredPair(
        (sides[0][changed], sides[1][changed]), [(plan.noise, np.arange(len(changed)))]
    )


def _noises(plan: StrategyMethod) -> list[Noise]:
    strategy = plan.strategy
    if isinstance(strategy, Regions):
        return [strategy.noise]
    assert isinstance(strategy, BlockCounts | Contrasts)
    return [one.noise for one in strategy.measured]


def _exact(plan: StrategyMethod, dense: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The whole numbers that each noise is put on."""
    heard: list[Any] = [_Heard() for _ in _noises(plan)]
    strategy = plan.strategy
    silent: Strategy
    if isinstance(strategy, Regions):
        silent = replace(strategy, noise=heard[0])
    else:
        assert isinstance(strategy, BlockCounts | Contrasts)
        pairs = zip(strategy.measured, heard, strict=True)
        silent = replace(strategy, measured=tuple(one._replace(noise=ear) for one, ear in pairs))
    watched = replace(plan, strategy=silent)
    watched.release(frequencies(plan.request.axes, dense), SeededEntropy(1))
    return [noise.values for noise in heard]
