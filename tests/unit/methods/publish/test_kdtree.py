"""The law of the cuts, and what they cost."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sfumato.methods.publish.kdtree import Medians
from sfumato.methods.publish.spatial_tree import Division
from sfumato.testing.audit import fit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

COPIES = 40_000


def division(points: list[int], low: int, high: int, copies: int = COPIES) -> Division:
    """The same box of one column many times over."""
    rows = np.tile(points, copies).astype(np.int64)
    return Division(
        np.full((copies, 1), low),
        np.full((copies, 1), high),
        np.arange(copies),
        rows[:, None],
        np.ones(len(rows), dtype=np.int64),
        np.repeat(np.arange(copies), len(points)),
    )


def law(points: list[int], low: int, high: int, rate: float) -> NDArray[np.float64]:
    """The chances of the cuts behind low, ..., high - 1, cut by cut."""
    behind = np.arange(low, high)
    below = np.array([sum(point <= cut for point in points) for cut in behind])
    chances = np.exp(-rate * np.abs(2 * below - len(points)))
    return np.asarray(chances / chances.sum())


@pytest.mark.parametrize("points", [[3, 3, 4, 9, 9, 9], [2], [12, 12], [], [2, 12]])
def test_cuts_have_the_chances_of_the_exponential_mechanism(points: list[int]) -> None:
    medians = Medians(epsilon=Fraction(2), sensitivity=Fraction(3))
    cuts = medians.sample(division(points, 2, 12), 0, SeededEntropy(4))
    expected = law(points, 2, 12, rate=2 / (2 * 3))
    found = fit(cuts, lambda at: expected[at - 2])
    assert cuts.min() >= 2
    assert cuts.max() < 12
    assert found.p_value > 1e-6


def test_boxes_of_different_sizes_are_cut_in_one_go() -> None:
    points = np.array([0, 5, 6, 7, 20, 21])
    boxes = Division(
        np.array([[0], [5], [8], [20]]),
        np.array([[4], [7], [8], [21]]),
        np.arange(4),
        points[:, None],
        np.ones(6, dtype=np.int64),
        np.array([0, 1, 1, 1, 3, 3]),
    )
    medians = Medians(epsilon=Fraction(10**6), sensitivity=Fraction(1))
    seen = Counter(
        tuple(medians.sample(boxes, 0, SeededEntropy(seed)).tolist()) for seed in range(20)
    )
    # Of one row, cuts on either side are equally good; the box of one code stays whole.
    assert {cuts[0] for cuts in seen} <= {0, 1, 2, 3}
    assert {cuts[1] for cuts in seen} == {5, 6}
    assert {cuts[2:] for cuts in seen} == {(8, 20)}


def test_nothing_to_cut_draws_nothing() -> None:
    medians = Medians(epsilon=Fraction(1), sensitivity=Fraction(1))
    cuts = medians.sample(division([3], 3, 3, copies=2), 0, SeededEntropy(1))
    assert cuts.tolist() == [3, 3]
