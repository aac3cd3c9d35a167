"""Which blocks to count for a workload: fan-outs and shares by least expected error."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from sfumato.publish.tree.aligned import aligned_ladders
from sfumato.publish.tree.budget import Budget
from sfumato.publish.tree.ladder import Ladder, balanced, spectrum
from sfumato.publish.tree.starts import block_sizes, starts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.privacy.sensitivity import Sensitivity
    from sfumato.publish.purse import Purse

    Floats = NDArray[np.float64]

_KEPT = 3
"""Ladders of an axis that are tried with those of the other axes; also, the last contenders."""
_MOST_LEVELS = 256
"""Tuples of levels beyond which a combination of ladders takes too long to try."""


@dataclass(frozen=True, eq=False)
class Shared:
    """Ladders with the shares of their levels, and the mean squared error of the workload."""

    ladders: tuple[Ladder, ...]
    budget: Budget
    shares: Floats

    @cached_property
    def error(self) -> float:
        """The mean squared error of the workload."""
        return float(self.budget.error(self.shares[None])[0])

    def settled(self) -> Shared:
        """The same with shares that are searched to the end."""
        return Shared(self.ladders, self.budget, self.budget.settled(self.shares))


@dataclass(frozen=True, eq=False)
class Search:
    """A workload (None: all ranges), the ways to pay for it, and whom it hides how far."""

    boxes: NDArray[np.int64] | None
    purses: Sequence[Purse]
    sensitivity: Sensitivity

    def of_cells(
        self, shape: Sequence[int], cuts: Sequence[NDArray[np.int64] | None] | None = None
    ) -> Shared:
        """The least error over columns of so many codes each, or over cells between cuts."""
        axes = enumerate(zip(shape, cuts or [None] * len(shape), strict=True))
        return self.best(
            [
                ladders_of(points, None if self.boxes is None else self.boxes[:, axis], cut)
                for axis, (points, cut) in axes
            ]
        )

    def best(self, choices: Sequence[Sequence[Ladder]]) -> Shared:
        """The least error with any of the ladders that are offered for each axis."""
        found = []
        for purse in self.purses:
            ranked = [self._ranked(axis, ladders, purse) for axis, ladders in enumerate(choices)]
            if len(ranked) == 1:
                tried = list(ranked[0].values())
            else:
                tried = [
                    self._quick(
                        ladders,
                        purse,
                        [one[ladder].shares for one, ladder in zip(ranked, ladders, strict=True)],
                    )
                    for ladders in _combinations(ranked)
                ]
            contenders = sorted(tried, key=lambda one: one.error)[:_KEPT]
            found += [one.settled() for one in contenders]
        return min(found, key=lambda one: one.error)

    def _ranked(self, axis: int, ladders: Sequence[Ladder], purse: Purse) -> dict[Ladder, Shared]:
        """The ladders of one axis, the best first for the workload's ranges along it."""
        boxes = None if self.boxes is None else self.boxes[:, [axis]]
        alone = Search(boxes, self.purses, self.sensitivity)
        tried = {ladder: alone._quick((ladder,), purse, ()) for ladder in ladders}
        return dict(sorted(tried.items(), key=lambda one: one[1].error))

    def _quick(self, ladders: tuple[Ladder, ...], purse: Purse, lines: Sequence[Floats]) -> Shared:
        budget = Budget(
            spectrum(ladders, self.boxes), block_sizes(ladders), purse, self.sensitivity
        )
        found = budget.improved(starts(ladders, lines))
        return Shared(ladders, budget, found[np.argmin(budget.error(found))])


def ladders_of(
    points: int,
    ranges: NDArray[np.int64] | None = None,
    cuts: NDArray[np.int64] | None = None,
) -> list[Ladder]:
    """Ladders of every depth over an axis, from all cells at once to halves of halves.

    Where ranges of codes are given, ladders along their blocks come after these.
    """
    cells = points if cuts is None else len(cuts) - 1
    deepest = max((cells - 1).bit_length(), 1)
    found = [Ladder(points, balanced(cells, depth), cuts) for depth in range(1, deepest + 1)]
    return found if ranges is None else found + aligned_ladders(points, ranges, cuts)


def _combinations(ranked: Sequence[dict[Ladder, Shared]]) -> list[tuple[Ladder, ...]]:
    """The best ladders of every axis with each other, and those of like depth in step."""
    kept = _KEPT if len(ranked) == 2 else 1
    found = list(product(*(list(one)[:kept] for one in ranked)))
    by_depth = [sorted(one, key=lambda ladder: ladder.depth) for one in ranked]
    found += [
        tuple(one[min(place, len(one) - 1)] for one in by_depth)
        for place in range(max(map(len, by_depth)))
    ]
    few = [one for one in found if prod(ladder.depth + 1 for ladder in one) <= _MOST_LEVELS]
    return list(dict.fromkeys(few)) or [tuple(one[0] for one in by_depth)]
