"""Wrong local mechanisms, as they were published or built: each must be caught by its reports."""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.fixtures.statistics import FALSE_ALARM

from sfumato.methods.local.local_epsilon import read_epsilon
from sfumato.methods.local.locations import PlanarLaplace
from sfumato.methods.local.longitudinal import Longitudinal
from sfumato.methods.local.means import Duchi, HalfSpace, Window
from sfumato.testing.audit import epsilon_bound
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.privacy.noise.entropy import Entropy

DRAWS = 200_000


def told(first: NDArray[Any], second: NDArray[Any], size: int) -> float:
    """An epsilon that reports of two people tell, at least: over all reports, either way."""
    counts = [np.bincount(one, minlength=size) for one in (first, second)]
    alpha = FALSE_ALARM / (2 * size)
    pairs = (counts, counts[::-1])
    bounds = [epsilon_bound(a, b, DRAWS, delta=0.0, alpha=alpha) for a, b in pairs]
    return float(np.max(bounds))


def published(truth: NDArray[Any], epsilon: float, generator: np.random.Generator) -> NDArray[Any]:
    """Signs of even number as published: half-agreeing vectors lie in both half spaces."""
    size = len(truth)
    vectors = np.array(list(product((-1, 1), repeat=size)))
    agree = vectors @ truth
    likely = generator.random(DRAWS) < math.exp(epsilon) / (1 + math.exp(epsilon))
    above, below = np.flatnonzero(agree >= 0), np.flatnonzero(agree <= 0)
    return np.where(likely, generator.choice(above, DRAWS), generator.choice(below, DRAWS))


@pytest.mark.parametrize("size", [2, 4])
def test_signs_of_even_number_as_published_are_caught(size: int) -> None:
    generator = np.random.default_rng(1)
    ones = np.ones(size)
    half = np.where(np.arange(size) < size // 2, 1, -1)
    found = told(published(ones, 1, generator), published(half, 1, generator), 1 << size)
    assert found > 1.1
    assert found < math.log(math.e + 1)  # what it realises: 1.313


@pytest.mark.parametrize("size", [2, 4])
def test_ours_are_not(size: int) -> None:
    oracle = Duchi((-1, 1), epsilon=1, columns=size)
    half = [1.0 if at < size // 2 else -1.0 for at in range(size)]
    first, second = (
        oracle.randomize(np.tile(one, (DRAWS, 1)), SeededEntropy(seed)).rows["bits"][:, 0]
        for seed, one in enumerate(([1.0] * size, half))
    )
    assert told(first, second, 1 << size) < 1


def test_the_chance_of_odd_numbers_used_for_even_ones_is_caught() -> None:
    """E / (E + 1) for sets of unequal size: the smaller one is too likely, vector by vector."""
    wrong = HalfSpace(2, HalfSpace.of(read_epsilon(1), 1).chance)
    assert wrong.odds > 2 * math.e
    assert not read_epsilon(1).allows(wrong.odds)


def test_windows_of_unequal_width_are_caught() -> None:
    """Cutting windows off at the edge gives every amount another total."""
    window = Window.of(read_epsilon(1), 64)

    def cut(place: int) -> list[float]:
        weights = [float(one) for one in window.weights(window.point_count // 2)]
        shifted = np.zeros(window.cells) + float(window.odds.denominator)
        start = place - window.width // 2
        shifted[max(start, 0) : max(start + window.width, 0)] = max(weights)
        return list(shifted / shifted.sum())

    edge, middle = np.array(cut(0)), np.array(cut(32))
    assert np.log(np.maximum(edge / middle, middle / edge).max()) > 1.1


def again_every_day(oracle: Longitudinal, value: int, days: int, entropy: Any) -> NDArray[Any]:
    """A permanent answer that is drawn anew each day: noise that wears off."""
    columns = [
        oracle.randomize(np.full(DRAWS, value), entropy).rows["report"].astype(np.int64)
        for _ in range(days)
    ]
    return np.ravel_multi_index(columns, (oracle.size,) * days)


def remembered(oracle: Longitudinal, value: int, days: int, entropy: Any) -> NDArray[Any]:
    kept = oracle.remember(np.full(DRAWS, value), entropy)
    columns = [oracle.tell(kept, entropy).rows["report"].astype(np.int64) for _ in range(days)]
    return np.ravel_multi_index(columns, (oracle.size,) * days)


def test_a_permanent_answer_drawn_anew_is_caught_over_several_reports() -> None:
    oracle, days = Longitudinal(2, epsilon="0.9", forever="1.5"), 3
    for way, caught in ((again_every_day, True), (remembered, False)):
        first, second = (way(oracle, value, days, SeededEntropy(value)) for value in (0, 1))
        assert (told(first, second, 2**days) > 1.5) is caught


class SnappedFirst(PlanarLaplace):
    """Wrong: the place is brought to the middle of its cell before the noise."""

    def _report_cells(self, places: NDArray[np.float64], entropy: Entropy) -> NDArray[np.int64]:
        step = float(self.step)
        return super()._report_cells((np.floor(places / step) + 0.5) * step, entropy)


@pytest.mark.parametrize(("kind", "caught"), [(PlanarLaplace, False), (SnappedFirst, True)])
@pytest.mark.parametrize(
    ("epsilon", "near", "far"),
    [
        ("1", (59.99, 50.0), (60.01, 50.0)),  # 2 cm apart, of cells of 20 m
        ("1", (59.99, 59.99), (60.01, 60.01)),
        ("0.05", (79.5, 50.0), (80.5, 50.0)),
    ],
)
def test_snapping_before_the_noise_tells_places_across_a_border_apart(
    kind: type[PlanarLaplace],
    caught: bool,
    epsilon: str,
    near: tuple[float, float],
    far: tuple[float, float],
) -> None:
    oracle = kind((0, 0), step=20, cells=(6, 6), epsilon=epsilon)
    codes = []
    for seed, place in enumerate((near, far)):
        rows = oracle.randomize(np.tile(place, (DRAWS, 1)), SeededEntropy(20 + seed)).rows
        codes.append(rows["east"].astype(np.int64) * 6 + rows["north"])
    distance = math.dist(near, far)
    assert (told(codes[0], codes[1], 36) > float(epsilon) * distance) is caught


def test_two_laplaces_side_by_side_are_no_planar_noise() -> None:
    """With epsilon of a metre on each axis, the diagonal tells sqrt(2) times as much."""
    moves = list(product(range(-12, 13), repeat=2))
    wrong = max(abs(a + 1) + abs(b + 1) - abs(a) - abs(b) for a, b in moves)
    ours = max(math.hypot(a + 1, b + 1) - math.hypot(a, b) for a, b in moves)
    assert wrong / math.sqrt(2) > 1.4
    assert ours / math.sqrt(2) <= 1 + 1e-12
