"""Which tables may be chosen, and how much each of them matters: public facts alone.

Decision `synthesis-selection`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from typing import TYPE_CHECKING

from sfumato.methods.synth.fit.junction import CELLS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.methods.synth.shape import Set, TableShape

TARGET_WEIGHT = 2
"""How many times as much a table with the target matters."""
MOST_LARGE = 1 << 10
"""So many sets of more than two columns are candidates at most: each is looked at in each round."""


@dataclass(frozen=True)
class Worth:
    """A workload, sets of columns that matter, and perhaps a column that the others are to tell.

    Where no sets are named, all pairs are. A set that is named twice matters twice as much.
    """

    shape: TableShape
    sets: Sequence[Set] = ()
    target: int | None = None

    @cached_property
    def _workload(self) -> Sequence[Set]:
        return self.sets or self.shape.pairs()

    @cached_property
    def _naming(self) -> Counter[int]:
        """How many sets of the workload have a column."""
        return Counter(chain.from_iterable(self._workload))

    def weight(self, places: Set) -> int:
        """How many columns a table has in common with each set of the workload, all together."""
        shared = sum(self._naming[place] for place in places)
        return shared * (TARGET_WEIGHT if self.target in places else 1)

    @cached_property
    def candidates(self) -> list[Set]:
        """The sets of the workload and all parts of them, small ones first.

        Without those that no model could hold, nor the largest where there are very many.
        """
        found: list[Set] = []
        for size in range(1, max(map(len, self._workload), default=0) + 1):
            wide = (one for one in self._workload if len(one) >= size)
            parts = {part for one in wide for part in combinations(sorted(one), size)}
            fitting = sorted(one for one in parts if size == 1 or self.shape.cells(one) <= CELLS)
            if size > 2 and sum(len(one) > 2 for one in found) + len(fitting) > MOST_LARGE:
                break
            found += fitting
        return found

    @property
    def pairs(self) -> list[Set]:
        """The candidates of two columns."""
        return [one for one in self.candidates if len(one) == 2]
