"""Which blocks to count for a workload: fan-outs and shares by least expected error."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.publish.tree.shares import ShareProblem, block_sizes, starting_shares
from sfumato.privacy.estimation.blocks import Nesting, balanced, spectrum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.schema.unit import Sensitivity
    from sfumato.privacy.mechanisms.spending import Spending


_MAX_WIDTH = 2048
# Widths and queries that are looked at, at most.
_MAX_QUERIES = 1024
# A width counts when more than chance, by this part, of the longer queries fit its blocks.
_MIN_ALIGNED_SHARE = 0.1
_MAX_WIDTHS_TRIED = 64


def aligned_nestings(points: int, ranges: IntArray, cuts: IntArray | None = None) -> list[Nesting]:
    """Nestings through the widths at whose multiples many ranges of codes begin and end."""
    cells = points if cuts is None else len(cuts) - 1
    edges = np.stack([ranges[:, 0], ranges[:, 1] + 1], axis=1)
    if cuts is not None:
        edges = np.searchsorted(cuts, edges)
    lengths = edges[:, 1] - edges[:, 0]
    longer = edges[(lengths > 1) & (lengths < cells)]
    chain = _nested_widths(longer[:: len(longer) // _MAX_QUERIES + 1], cells)
    if not chain:
        return []
    lower = [
        prime
        for wide, narrow in zip(chain, [*chain[1:], 1], strict=True)
        for prime in _primes(wide // narrow)
    ]
    blocks = -(-cells // chain[0])
    depths = {1, max((blocks - 1).bit_length(), 1)}
    return [Nesting(points, (*balanced(blocks, depth), *lower), cuts) for depth in sorted(depths)]


def _nested_widths(edges: IntArray, cells: int) -> list[int]:
    """Widths, each a multiple of the next, that serve the most and the longest queries."""
    widths = np.arange(2, min(cells // 2, _MAX_WIDTH) + 1)
    if not len(edges) or not len(widths):
        return []
    first, last = edges[:, :1], edges[:, 1:]
    fits = (first % widths == 0) & ((last % widths == 0) | (last == cells))
    often = (fits & (last - first >= widths)).mean(axis=0)
    enough = often >= _MIN_ALIGNED_SHARE + widths**-2.0
    chain: list[int] = []
    for index in np.argsort(-often * widths, kind="stable")[:_MAX_WIDTHS_TRIED]:
        width = int(widths[index])
        nests = all(width % chosen == 0 or chosen % width == 0 for chosen in chain)
        if enough[index] and nests:
            chain.append(width)
    return sorted(chain, reverse=True)


def _primes(number: int) -> list[int]:
    """The prime factors of a number, in order."""
    factors = []
    factor = 2
    while factor * factor <= number:
        while number % factor == 0:
            factors.append(factor)
            number //= factor
        factor += 1
    return [*factors, number] if number > 1 else factors


# Nestings of an axis that are tried with those of the other axes; also, the last contenders.
_MAX_CONTENDERS = 3
# Tuples of levels beyond which a combination of nestings takes too long to try.
_MAX_LEVELS = 256


@dataclass(frozen=True, eq=False)
class SharedTree:
    """Nestings with the shares of their levels, and the mean squared error of the workload."""

    nestings: tuple[Nesting, ...]
    budget: ShareProblem
    shares: FloatArray

    @cached_property
    def error(self) -> float:
        """The mean squared error of the workload."""
        return float(self.budget.error(self.shares[None])[0])

    def settled(self) -> SharedTree:
        """The same with shares that are searched to the end."""
        return SharedTree(self.nestings, self.budget, self.budget.settled(self.shares))


@dataclass(frozen=True, eq=False)
class TreeSearch:
    """A workload (None: all ranges), the ways to pay for it, and whom it hides how far."""

    boxes: IntArray | None
    spendings: Sequence[Spending]
    sensitivity: Sensitivity

    def of_cells(
        self, shape: Sequence[int], cuts: Sequence[IntArray | None] | None = None
    ) -> SharedTree:
        """The least error over columns of so many codes each, or over cells between cuts."""
        axes = enumerate(zip(shape, cuts or [None] * len(shape), strict=True))
        return self.best(
            [
                nestings_of(points, None if self.boxes is None else self.boxes[:, axis], cut)
                for axis, (points, cut) in axes
            ]
        )

    def best(self, choices: Sequence[Sequence[Nesting]]) -> SharedTree:
        """The least error with any of the nestings that are offered for each axis."""
        settled = []
        for spending in self.spendings:
            ranked = [
                self._ranked(axis, nestings, spending) for axis, nestings in enumerate(choices)
            ]
            if len(ranked) == 1:
                trees = list(ranked[0].values())
            else:
                trees = [
                    self._quick(
                        nestings,
                        spending,
                        [
                            tree[nesting].shares
                            for tree, nesting in zip(ranked, nestings, strict=True)
                        ],
                    )
                    for nestings in _combinations(ranked)
                ]
            contenders = sorted(trees, key=lambda tree: tree.error)[:_MAX_CONTENDERS]
            settled += [tree.settled() for tree in contenders]
        return min(settled, key=lambda tree: tree.error)

    def _ranked(
        self, axis: int, nestings: Sequence[Nesting], spending: Spending
    ) -> dict[Nesting, SharedTree]:
        """The nestings of one axis, the best first for the workload's ranges along it."""
        boxes = None if self.boxes is None else self.boxes[:, [axis]]
        alone = TreeSearch(boxes, self.spendings, self.sensitivity)
        trees = {nesting: alone._quick((nesting,), spending, ()) for nesting in nestings}
        return dict(sorted(trees.items(), key=lambda item: item[1].error))

    def _quick(
        self, nestings: tuple[Nesting, ...], spending: Spending, lines: Sequence[FloatArray]
    ) -> SharedTree:
        budget = ShareProblem(
            spectrum(nestings, self.boxes), block_sizes(nestings), spending, self.sensitivity
        )
        improved = budget.improved(starting_shares(nestings, lines))
        return SharedTree(nestings, budget, improved[np.argmin(budget.error(improved))])


def nestings_of(
    points: int,
    ranges: IntArray | None = None,
    cuts: IntArray | None = None,
) -> list[Nesting]:
    """Nestings of every depth over an axis, from all cells at once to halves of halves.

    Where ranges of codes are given, nestings along their blocks come after these.
    """
    cells = points if cuts is None else len(cuts) - 1
    deepest = max((cells - 1).bit_length(), 1)
    nestings = [Nesting(points, balanced(cells, depth), cuts) for depth in range(1, deepest + 1)]
    return nestings if ranges is None else nestings + aligned_nestings(points, ranges, cuts)


def _combinations(ranked: Sequence[dict[Nesting, SharedTree]]) -> list[tuple[Nesting, ...]]:
    """The best nestings of every axis with each other, and those of like depth in step."""
    kept_per_axis = _MAX_CONTENDERS if len(ranked) == 2 else 1
    combinations = list(product(*(list(axis_nestings)[:kept_per_axis] for axis_nestings in ranked)))
    by_depth = [
        sorted(axis_nestings, key=lambda nesting: nesting.depth) for axis_nestings in ranked
    ]
    combinations += [
        tuple(axis_nestings[min(depth, len(axis_nestings) - 1)] for axis_nestings in by_depth)
        for depth in range(max(map(len, by_depth)))
    ]
    small = [
        axis_nestings
        for axis_nestings in combinations
        if prod(nesting.depth + 1 for nesting in axis_nestings) <= _MAX_LEVELS
    ]
    return list(dict.fromkeys(small)) or [tuple(axis_nestings[0] for axis_nestings in by_depth)]
