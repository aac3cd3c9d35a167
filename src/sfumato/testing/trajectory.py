"""What one person moves of all that a model of paths measures, by brute force."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.counting.contribution import WHOLE
from sfumato.testing.entropy import SeededEntropy
from sfumato.trajectory import measuring

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from sfumato.noise.entropy import Entropy
    from sfumato.trajectory.paths import Paths

_BREACH = 10**6
Table = tuple[np.ndarray, "Fraction", int]


class RecordedTables(measuring.Measuring):
    """Keeps the exact tables, and answers with counts that no data had a part in."""

    exact: list[Table]

    def table(
        self,
        cells: Any,
        size: int,
        owners: Any,
        share: Fraction,
        *,
        cap: int = 1,
        asked: Any = None,  # noqa: ARG002  none is left out
    ) -> Any:
        """Record what would be measured."""
        self.spent += share
        parts = measuring.weights(owners, cap)
        self.exact.append((measuring.summed(cells, size, parts), share, cap))
        return np.full(size, 1000.0)


def recorded(
    learn: Callable[[Paths, Entropy], object], paths: Paths, monkeypatch: Any
) -> list[Table]:
    """The exact tables behind a model of paths, in the order in which they are measured."""
    found: list[Table] = []

    class Here(RecordedTables):
        exact = found

    for name in ("dpt", "adatrace", "one_level"):
        monkeypatch.setattr(f"sfumato.trajectory.{name}.Measuring", Here)
    learn(paths, SeededEntropy(1))
    return found


def loss(learn: Callable[[Paths, Entropy], object], paths: Paths, monkeypatch: Any) -> Fraction:
    """The largest part of the price that anyone's leaving would use: more than 1 is a breach.

    Each table pays for moves of its cap by its share, so what it moves beyond that costs as much
    more.
    """
    whole = recorded(learn, paths, monkeypatch)
    worst = 0 * whole[0][1]
    for person in np.unique(paths.owners):
        less = recorded(learn, paths.some(paths.owners != person), monkeypatch)
        if len(less) != len(whole):
            return whole[0][1] * _BREACH  # one person decides what is measured
        used = 0 * worst
        for (all_, share, cap), (others, _, _) in zip(whole, less, strict=True):
            moved = (
                int(np.abs(all_ - others).sum()) if len(all_) == len(others) else _BREACH * WHOLE
            )
            used += share * moved / (cap * WHOLE)
        worst = max(worst, used)
    return worst
