"""DAWA: blocks of even counts, a partition by noisy costs, noise on each bucket.

Statistical tests are seeded; for a fresh seed each would fail with probability at most 1e-6.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fixtures.counts import Silence, agrees, frequencies, request_for, whole_numbers

from sfumato.data.schema.unit import Entity, Neighbours
from sfumato.errors import ParameterError
from sfumato.methods.publish.dawa import Dawa, _unevenness, prepare
from sfumato.methods.publish.histogram import prepare as histogram
from sfumato.methods.publish.publication import Publication
from sfumato.methods.publish.request import PredictsVariance
from sfumato.privacy.accounting.events import Composed, LaplaceNoise, PureEvent
from sfumato.testing.entropy import SeededEntropy

STEPS = np.repeat([0, 5_000, 500, 20_000], 16)


class Quiet(Silence):
    """No noise, with the spread of some noise, which sets the penalty."""

    def __init__(self, noise: Any) -> None:
        self.stddev = noise.stddev


def silent(made: Dawa) -> Dawa:
    """The same method with exact costs."""
    return replace(made, cost_noise=cast("Any", Quiet(made.cost_noise)))


def blocks(chosen: list[Any], size: int) -> list[tuple[int, int]]:
    """The first and the last cell of each bucket."""
    found = [
        (at << level, min((at + 1) << level, size) - 1)
        for level, marks in enumerate(chosen)
        for at in np.flatnonzero(marks).tolist()
    ]
    return sorted(found)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=9))
def test_unevenness_is_the_distance_from_the_median(counts: list[int]) -> None:
    row = np.array(counts)
    assert _unevenness(row) == np.abs(row - np.median(row)).sum()


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.integers(0, 7))
def test_one_row_moves_the_unevenness_by_at_most_one(counts: list[int], place: int) -> None:
    row = np.array(counts)
    more = row.copy()
    more[place % len(row)] += 1
    assert abs(int(_unevenness(more)) - int(_unevenness(row))) <= 1


def partitions(low: int, high: int, size: int) -> list[list[tuple[int, int]]]:
    """Every way to cut the dyadic block [low, high), which may reach beyond the cells."""
    if low >= size:
        return [[]]
    whole = [(low, min(high, size) - 1)]
    if high - low == 1:
        return [whole]
    middle = (low + high) // 2
    halves = product(partitions(low, middle, size), partitions(middle, high, size))
    return [whole, *(left + right for left, right in halves)]


@given(st.lists(st.integers(0, 40), min_size=1, max_size=9))
def test_without_noise_the_cheapest_partition_is_found(counts: list[int]) -> None:
    made = silent(prepare(request_for(whole_numbers(len(counts)), epsilon=10)))
    row = np.array(counts)
    size = len(row)

    def cost(cut: list[tuple[int, int]]) -> int:
        return sum(int(_unevenness(row[low : high + 1])) + made.penalty for low, high in cut)

    found = blocks(made.partition(row, SeededEntropy(1)), size)
    top = 1 << (size - 1).bit_length()
    assert cost(found) == min(cost(cut) for cut in partitions(0, top, size))
    assert [low for low, _ in found] == [0, *(high + 1 for _, high in found[:-1])]
    assert found[-1][1] == size - 1


def test_even_stretches_become_buckets_with_less_noise_than_a_histogram() -> None:
    made = prepare(request_for(whole_numbers(64), epsilon=1))
    runs = np.broadcast_to(STEPS, (400, 64))
    cells = made.even(runs, SeededEntropy(1))
    sizes = sum(marks.sum(axis=1) for marks in made.partition(runs, SeededEntropy(1)))
    assert np.mean(sizes) < 12
    plain = histogram(request_for(whole_numbers(64), epsilon=1)).noise.stddev
    assert np.sqrt(np.mean((cells - STEPS) ** 2)) < plain / 2


@pytest.mark.parametrize("size", [1, 2, 5, 37])
def test_buckets_cover_every_cell_once_and_counts_are_even_in_them(size: int) -> None:
    made = prepare(request_for(whole_numbers(size), epsilon=1))
    counts = np.arange(size) * 13 % 7
    found = blocks(made.partition(counts, SeededEntropy(2)), size)
    assert [cell for low, high in found for cell in range(low, high + 1)] == list(range(size))
    exact = replace(made, noise=cast("Any", Quiet(made.noise)))
    cells = exact.even(counts, SeededEntropy(2))
    for low, high in found:
        np.testing.assert_allclose(cells[low : high + 1], counts[low : high + 1].mean())


def test_noise_of_a_bucket_is_as_stated() -> None:
    made = prepare(request_for(whole_numbers(4), rho="1/50"))
    counts = np.array([0, 0, 10**6, 10**6])
    cells = made.even(np.broadcast_to(counts, (20_000, 4)), SeededEntropy(3))
    # Which cells are one bucket is settled here: their counts are far apart, or equal.
    two = (cells[:, 0] == cells[:, 1]) & (cells[:, 2] == cells[:, 3])
    errors = (cells - counts)[two]
    assert len(errors) > 2_000
    assert agrees(errors[:, [0, 2]], made.error["bucket"]["sd"] ** 2 / 4)
    assert agrees(errors[:, :2].sum(axis=1)[:, None], made.noise.variance)


def test_E_ranges_depend_on_random_buckets_so_no_deviation_is_stated() -> None:
    """Which buckets are found moves a cell by far more than the noise of its count does."""
    request = request_for(whole_numbers(4), epsilon="1/2")
    made = prepare(request)
    counts = np.array([0, 60, 0, 60])
    cells = made.even(np.broadcast_to(counts, (5_000, 4)), SeededEntropy(3))
    assert cells[:, 1].var() > 2 * made.noise.variance
    assert not isinstance(made, PredictsVariance)
    assert "given the buckets" in made.error["note"]
    with pytest.raises(ParameterError, match="depends on the data") as refused:
        Publication("dawa", request, made).ranges_stddev([[[0, 1]]])
    assert refused.value.code == "ranges_not_answerable"


def test_partition_and_counts_are_paid_for() -> None:
    made = prepare(request_for(whole_numbers(8), epsilon=1))
    assert made.event == Composed(
        (
            PureEvent(epsilon=Fraction(1, 4)),
            LaplaceNoise(scale=Fraction(4, 3), l1_sensitivity=Fraction(1)),
        )
    )
    assert made.cost_noise.scale == 2 * 4
    person = Entity("who", max_rows=3, relation=Neighbours.REPLACE_ONE)
    made = prepare(request_for(whole_numbers(8), unit=person, epsilon=1))
    assert made.cost_noise.scale == 2 * (2 * 3) * 4
    rho = prepare(request_for(whole_numbers(8), rho=2))
    assert rho.cost_noise.epsilon == 1  # costs 1/2 of rho, a quarter


def test_release_has_every_cell_and_missing_values_apart() -> None:
    axes = whole_numbers(64, nullable=True)
    made = prepare(request_for(axes, epsilon=10))
    assert not isinstance(made, PredictsVariance)
    tables = made.release(frequencies(axes, np.append(STEPS, 77)), SeededEntropy(4))
    table = tables["dawa"]
    assert table["a"].to_pylist() == [*range(64), None]
    assert abs(table["count"].to_pylist()[-1] - 77) < 5
    found = made.ranges(tables, np.array([[[16, 31]], [[5, 4]]]))
    assert found == pytest.approx([80_000, 0], abs=20)


def test_postprocessing_is_done_on_request_and_said() -> None:
    axes = whole_numbers(16)
    made = prepare(request_for(axes, postprocess=("nonnegative", "integer")))
    table = made.release(frequencies(axes, np.zeros(16)), SeededEntropy(5))["dawa"]
    figures = table["count"].to_pylist()
    assert min(figures) >= 0
    assert all(figure == round(figure) for figure in figures)
    assert "before post-processing" in made.error["note"]
