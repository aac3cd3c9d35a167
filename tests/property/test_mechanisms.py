"""Laws that mechanisms rest on, held against brute force on small tables."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.data.schema.unit import Neighbours, Rows
from sfumato.privacy.mechanisms.base import add
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.mechanisms.quantile import Counted, Quantile, _Ranges
from sfumato.privacy.mechanisms.smooth_median import SmoothMedian
from sfumato.privacy.mechanisms.threshold_keys import ThresholdKeys

int64 = st.integers(-(2**63), 2**63 - 1)
epsilons = st.fractions(Fraction(1, 20), Fraction(5), max_denominator=50)


def smooth(rows: int, size: int, epsilon: Fraction) -> SmoothMedian:
    return SmoothMedian(epsilon=epsilon, rows=rows, size=size)


def median(table: tuple[int, ...]) -> int:
    return sorted(table)[(len(table) - 1) // 2]


def local_sensitivity(table: tuple[int, ...], size: int) -> int:
    return max(
        abs(median(table) - median((*table[:at], other, *table[at + 1 :])))
        for at in range(len(table))
        for other in range(size)
    )


def by_definition(table: list[int], size: int, beta: float) -> float:
    """The O(n^2) form: windows of k + 2 neighbours around the median, for every distance k."""
    rows, middle = len(table), (len(table) - 1) // 2

    def at(index: int) -> int:
        return 0 if index < 0 else size - 1 if index >= rows else table[index]

    return max(
        math.exp(-beta * far)
        * max(at(middle + right) - at(middle + right - far - 1) for right in range(far + 2))
        for far in range(rows + 1)
    )


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=40),
    epsilons,
)
def test_fast_smooth_sensitivity_is_the_quadratic_one(values: list[int], epsilon: Fraction) -> None:
    table = sorted(values)
    found = smooth(len(table), 31, epsilon).smooth_sensitivity(np.array(table))
    exact = by_definition(table, 31, float(epsilon) / 2)
    assert found == pytest.approx(exact, rel=1e-7)
    assert found >= exact


@pytest.mark.parametrize(("rows", "size"), [(1, 4), (2, 3), (3, 4), (4, 3), (5, 3)])
def test_smooth_sensitivity_is_the_definition_over_all_tables(rows: int, size: int) -> None:
    """max over all tables y of LS(y) exp(-beta distance(x, y)), without any formula."""
    beta = 0.25
    mechanism = smooth(rows, size, Fraction(1, 2))
    tables = list(itertools.product(range(size), repeat=rows))
    local = {table: local_sensitivity(table, size) for table in tables}
    for table in itertools.combinations_with_replacement(range(size), rows):
        brute = max(
            local[other] * math.exp(-beta * sum(a != b for a, b in zip(table, other, strict=True)))
            for other in tables
        )
        assert mechanism.smooth_sensitivity(np.array(table)) == pytest.approx(brute, rel=1e-7)


@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=12), st.integers(0, 20), epsilons, st.data()
)
def test_smooth_sensitivity_is_smooth_and_covers_the_local_one(
    values: list[int], other: int, epsilon: Fraction, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(values) - 1))
    neighbour = [*values[:at], other, *values[at + 1 :]]
    mechanism = smooth(len(values), 21, epsilon)
    first, second = (
        mechanism.smooth_sensitivity(np.sort(np.array(table))) for table in (values, neighbour)
    )
    assert first >= local_sensitivity(tuple(values), 21)
    # Exactly smooth, not nearly: the margin in beta pays for every rounding.
    assert first <= math.exp(mechanism.beta) * second
    assert abs(median(tuple(values)) - median(tuple(neighbour))) <= min(first, second)


@given(st.floats(-50, 50), st.floats(-2, 2), st.floats(0, 1))
def test_cauchy_noise_pays_for_shift_and_stretch(z: float, shift: float, stretch: float) -> None:
    """log h(z) - log(e^s h(e^s (z + t))) <= |t| e^s + s: a + b = epsilon is enough."""

    def log_density(at: float) -> float:
        return -math.log1p(at * at)

    shifted = abs(log_density(z) - log_density(z + shift))
    stretched = abs(log_density(z) - stretch - log_density(math.exp(stretch) * z))
    assert shifted <= abs(shift) + 1e-9
    assert stretched <= stretch + 1e-9


@given(
    st.lists(st.integers(0, 7), max_size=9),
    st.integers(0, 7),
    st.fractions(0, 1, max_denominator=20),
    st.sampled_from(Neighbours),
    st.data(),
)
def test_quantile_scores_move_by_at_most_the_sensitivity(
    rows: list[int], other: int, rank: Fraction, relation: Neighbours, data: st.DataObject
) -> None:
    if relation is Neighbours.REPLACE_ONE and not rows:
        return
    at = data.draw(st.integers(0, max(len(rows) - 1, 0)))
    neighbour = (
        [*rows[:at], *rows[at + 1 :], other]
        if relation is Neighbours.REPLACE_ONE
        else [
            *rows,
            other,
        ]
    )
    mechanism = Quantile(epsilon=Fraction(1), rank=rank, size=8, unit=Rows(relation=relation))
    first, second = (grid_scores(table, rank, 8) for table in (rows, neighbour))
    assert max(abs(a - b) for a, b in zip(first, second, strict=True)) <= mechanism.sensitivity


def grid_scores(rows: list[int], rank: Fraction, size: int) -> list[Fraction]:
    ranges = _Ranges.of(Counted.of(np.array(rows, dtype=np.int64)), rank, size)
    points = np.repeat(ranges.scores, ranges.lengths)
    assert len(points) == size
    assert np.array_equal(
        np.concatenate(
            [np.arange(f, f + n) for f, n in zip(ranges.firsts, ranges.lengths, strict=True)]
        ),
        np.arange(size),
    )
    return [Fraction(int(score), rank.denominator) for score in points]


@given(st.lists(st.integers(0, 7), max_size=9), st.fractions(0, 1, max_denominator=20))
def test_quantile_scores_are_distances_of_ranks(rows: list[int], rank: Fraction) -> None:
    for point, score in enumerate(grid_scores(rows, rank, 8)):
        below = sum(row < point for row in rows)
        up_to = sum(row <= point for row in rows)
        wanted = rank * len(rows)
        assert score == -max(Fraction(0), below - wanted, wanted - up_to)


def test_quantile_sensitivity_is_attained() -> None:
    """A tenth more would be waste: at rank 9/10 one row moves a score by 9/10."""
    rank = Fraction(9, 10)
    first = grid_scores([0] * 8 + [5] * 2, rank, 8)
    second = grid_scores([0] * 8 + [5] * 2 + [7], rank, 8)
    assert max(abs(a - b) for a, b in zip(first, second, strict=True)) == rank


@given(st.lists(st.tuples(int64, int64), max_size=5))
def test_sums_are_those_of_whole_numbers(pairs: list[tuple[int, int]]) -> None:
    values = np.array([first for first, _ in pairs], dtype=np.int64)
    noise = np.array([second for _, second in pairs], dtype=np.int64)
    assert add(values, noise).tolist() == [first + second for first, second in pairs]


@given(
    epsilons,
    st.integers(1, 30),
    st.fractions(Fraction(1, 10**9), Fraction(1, 2), max_denominator=10**9),
)
def test_threshold_is_the_first_that_delta_allows(
    epsilon: Fraction, groups: int, delta: Fraction
) -> None:
    noise = Geometric(epsilon=epsilon, l1_sensitivity=Fraction(groups))
    steps = ThresholdKeys(noise=noise, delta=delta, max_groups=groups).threshold - 1
    assert groups * noise.tail(steps) <= delta
    assert steps == 1 or groups * noise.tail(steps - 1) > delta
