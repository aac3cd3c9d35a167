"""The finest levels at which a table fits in memory, where it does not as it is. Decision 0248."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.lattice.nodes import above, below
from sfumato.anonymize.lattice.projections import failing_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sfumato.anonymize.cost import Cost
    from sfumato.anonymize.lattice.nodes import Node
    from sfumato.anonymize.lattice.views import Levels
    from sfumato.anonymize.original import United
    from sfumato.anonymize.problem import Problem
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.counting.memory_limit import SizeCounts


_RULED_OUT = "Finer levels could be ruled out without looking at them."
_NOT_LOOKED_AT = "A release at finer levels may lose less; none was looked at."


@dataclass(frozen=True, eq=False)
class Floor:
    """Where the counted levels begin, and what is known of the table below them.

    Combinations are counted at these levels or above; below them only columns by themselves are
    known, and `sizes`, the sizes of the classes of the original.
    """

    levels: Levels
    columns: Mapping[str, Frequencies]
    united: Mapping[str, United]
    sizes: SizeCounts

    def words(self, names: Sequence[str], *, proven: bool) -> str:
        """What was not looked at, in a sentence."""
        starts = [
            f"{name} from level {level}"
            for name, level in zip(names, self.levels, strict=True)
            if level
        ]
        return (
            f"The table has {len(self.sizes):,} combinations of values, more than memory is kept "
            f"for. The search began where they fit: {', '.join(starts)}. "
            + (_RULED_OUT if proven else _NOT_LOOKED_AT)
        )


def finest_fitting(
    fits: Callable[[Levels], bool], labels: Sequence[Sequence[int]], least: Levels
) -> Levels | None:
    """Levels that fit and of which none can be lowered alone; None where not even the roots fit.

    `labels` says how many labels of each level of each column occur. Columns with most labels are
    raised first; whoever is coarser fits as well, so halving that way finds its first node that
    fits, and columns are lowered again while they may.
    """
    way = [least]
    while True:
        levels = way[-1]
        rising = [place for place, one in enumerate(levels) if one + 1 < len(labels[place])]
        if not rising:
            break
        place = max(rising, key=lambda place: labels[place][levels[place]])
        way.append(_moved(levels, place, 1))
    low, high = 0, len(way) - 1
    if not fits(way[high]):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(way[middle]) else (middle + 1, high)
    found = way[high]
    for place in range(len(found)):
        while found[place] > least[place] and fits(_moved(found, place, -1)):
            found = _moved(found, place, -1)
    return found


def _moved(levels: Levels, place: int, step: int) -> Levels:
    return (*levels[:place], levels[place] + step, *levels[place + 1 :])


class UnseenNodes:
    """The nodes below the floor that may be admissible for all that is known."""

    def __init__(self, problem: Problem, cost: Cost) -> None:
        self._nodes = np.zeros(problem.shape, dtype=bool)
        self._lower = np.zeros(problem.shape)
        if problem.floor is not None:
            failing = failing_rows(problem)
            self._nodes = failing <= problem.allowed_rows
            self._nodes[above(problem.floor.levels)] = False
            least = np.full(problem.shape, cost.from_sizes(problem, problem.floor.sizes))
            self._lower = cost.floor(problem, below(problem.top), failing, least)

    def learn(self, node: Node) -> None:
        """Rule out what lies below a node that suppresses too much."""
        if node.hopeless:
            self._nodes[below(node.levels)] = False

    @property
    def least(self) -> float:
        """What the cheapest of them costs at least."""
        return float(self._lower[self._nodes].min(initial=np.inf))
