"""The ladder draws what it says, within 1e-6 of a false alarm; wrong twins are caught."""

from __future__ import annotations

from fractions import Fraction
from math import exp, log, sqrt

import numpy as np

from sfumato.graph.ladder import LadderCount
from sfumato.testing.entropy import SeededEntropy

_DRAWS = 1500
_BINS = range(-6, 7)


def _grows(distance: int) -> int:
    return 2 + distance


def _chances(epsilon: float, *, first: int = 1) -> dict[int, float]:
    """By rungs, one number after the other; `first` is how wide the rung of the count is."""
    weights, place = {0: float(first)}, 0
    for rung in range(1, 200):
        for _ in range(_grows(rung - 1)):
            place += 1
            weights[place] = weights[-place] = exp(-epsilon * rung / 2)
    total = sum(weights.values())
    return {at: weight / total for at, weight in weights.items()}


def _farthest(told: list[int], chances: dict[int, float]) -> float:
    """How many times a share is farther off than it may be, by Hoeffding's inequality."""
    allowed = sqrt(log(2 * len(_BINS) / 1e-6) / (2 * len(told)))
    shares = [told.count(at) / len(told) - chances[at] for at in _BINS]
    return float(np.abs(shares).max() / allowed)


def test_the_ladder_draws_rungs_by_their_weights() -> None:
    entropy = SeededEntropy(5)
    ladder = LadderCount(epsilon=Fraction(2))
    told = [ladder.sample(0, _grows, entropy) for _ in range(_DRAWS)]
    assert _farthest(told, _chances(2.0)) < 1
    # Twins: the whole of epsilon in each rung, and a centre that is as wide as the next rung.
    assert _farthest(told, _chances(4.0)) > 1
    assert _farthest(told, _chances(2.0, first=4)) > 1
