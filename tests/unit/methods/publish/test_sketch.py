"""The count sketch: a public hash, noise for every line, estimates of any cell.

Statistical tests are seeded; for a fresh seed each would fail with probability at most 1e-6.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.fixtures.counts import agrees, frequencies, request_for, whole_numbers

from sfumato.data.schema.unit import Entity, Neighbours, Rows
from sfumato.errors import ParameterError
from sfumato.methods.publish.request import AnswersRanges
from sfumato.methods.publish.sketch import Hashing, _mixed, prepare
from sfumato.privacy.accounting.events import GaussianNoise, LaplaceNoise
from sfumato.testing.entropy import SeededEntropy


def test_hash_is_the_one_it_says() -> None:
    """The first outputs of SplitMix64 with seed 0 and 1234567, as published with the generator."""
    steps = np.arange(2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    assert _mixed(steps).tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]
    assert int(_mixed(np.uint64(1234567))[0]) == 6457827717110365317


def test_hash_spreads_cells_and_signs_evenly() -> None:
    """Neighbouring cells, chi-square over buckets and signs of each line; 1e-6 is at 6.4 sd."""
    buckets, signs = Hashing(4, 64, 3).hash_cells(np.arange(64_000))
    for line in range(4):
        seen = np.bincount(buckets[line] * 2 + (signs[line] > 0), minlength=128)
        chi_square = ((seen - 500) ** 2 / 500).sum()
        assert abs(chi_square - 127) < 6.4 * math.sqrt(2 * 127)
    # Lines are different functions.
    assert 0 < np.count_nonzero(buckets[0] == buckets[1]) < 64_000 / 64 * 1.3


def test_every_row_is_in_one_bucket_of_each_line() -> None:
    hashing = Hashing(5, 16, 0)
    one = hashing.summary(np.array([1_234_567_890_123]), np.array([1]))
    assert np.abs(one).sum(axis=1).tolist() == [1] * 5
    assert (hashing.columns.l1, hashing.columns.l2_squared) == (5, 5)
    twice = hashing.summary(np.array([7, 7, 9]), np.array([2, 3, 4]))
    apart = hashing.summary(np.array([7, 9]), np.array([5, 4]))
    assert (twice == apart).all()


def test_depth_and_signs_are_paid_for() -> None:
    axes = whole_numbers(1000)
    person = Entity("who", max_rows=2, relation=Neighbours.REPLACE_ONE)
    laplace = prepare(request_for(axes, unit=person, epsilon=1), depth=4).event
    assert isinstance(laplace, LaplaceNoise)
    assert laplace.l1_sensitivity == 2 * 2 * 4
    assert laplace.epsilon == 1
    gaussian = prepare(request_for(axes, unit=person, rho=1), depth=4).event
    assert isinstance(gaussian, GaussianNoise)
    assert gaussian.l2_sensitivity_squared == 4 * 4 * 4
    assert gaussian.rho == 1
    alone = prepare(request_for(axes, unit=Rows(), rho=1), depth=4).event
    assert isinstance(alone, GaussianNoise)
    assert alone.l2_sensitivity_squared == 4


def test_estimates_of_a_huge_table_are_as_far_off_as_stated() -> None:
    """Few cells of many, so that hardly any share a bucket: what is left is the noise."""
    axes = whole_numbers(10**9, 10**9)
    made = prepare(request_for(axes, epsilon=1), width=128, depth=5, seed=2)
    cells = (np.array([0, 5, 10**9 - 1, 77]), np.array([10**9 - 1, 5, 3, 0]))
    counts = np.array([1000, 20, 7, 0])
    summary = made.hashing.summary(made.cells(cells), counts)
    buckets, signs = made.hashing.hash_cells(made.cells(cells))
    assert all(len(set(line)) == 4 for line in buckets.tolist())
    noisy = made.noise.steps(np.broadcast_to(summary, (5_000, *summary.shape)), SeededEntropy(1))
    each = signs * noisy[:, np.arange(5)[:, None], buckets]
    assert agrees(np.median(each, axis=1) - counts, made.error["cell"]["sd"] ** 2)


@pytest.mark.parametrize("by", ["median", "mean"])
def test_estimates_come_from_the_released_table_alone(by: str) -> None:
    axes = whole_numbers(50, 40, nullable=True)
    made = prepare(request_for(axes, epsilon=10), depth=7, width=4096)
    truth = np.zeros((51, 41), dtype=np.int64)
    truth[3, 4], truth[50, 40], truth[0, 0] = 900, 300, 50
    tables = made.release(frequencies(axes, truth), SeededEntropy(2))
    table = tables["sketch"]
    assert table.column_names == ["line", "bucket", "count"]
    assert table.num_rows == 7 * 4096
    codes = (np.array([3, 50, 0, 20]), np.array([4, 40, 0, 20]))
    found = made.estimate(tables, codes, by=by)
    assert (np.abs(found - [900, 300, 50, 0]) < 7).all()


def test_ranges_add_cells_up_and_are_refused_when_wide() -> None:
    axes = whole_numbers(50, 40)
    made = prepare(request_for(axes, epsilon=10), depth=5, width=1 << 14)
    truth = np.zeros((50, 40), dtype=np.int64)
    truth[3, 4], truth[3, 5], truth[4, 4] = 900, 300, 5_000
    tables = made.release(frequencies(axes, truth), SeededEntropy(3))
    boxes = np.array([[[3, 3], [4, 4]], [[3, 3], [0, 9]], [[3, 4], [4, 5]], [[2, 1], [0, 0]]])
    # Ten cells of scale 1/2 noise: 6 standard deviations are below 15.
    assert made.ranges(tables, boxes) == pytest.approx([900, 1_200, 6_200, 0], abs=15)
    assert isinstance(made, AnswersRanges)
    wide = prepare(request_for(whole_numbers(10**9)))
    with pytest.raises(ParameterError, match="at most 4,194,304 at a time"):
        wide.ranges({}, np.array([[[0, 10**9 - 1]]]))


@pytest.mark.parametrize(
    ("points", "options", "code"),
    [
        ((2**40, 2**40), {}, "problem_too_large"),
        ((10,), {"depth": 0}, "parameter_out_of_range"),
        ((10,), {"width": 1}, "parameter_out_of_range"),
        ((10,), {"seed": -1}, "parameter_out_of_range"),
    ],
)
def test_what_cannot_be_is_refused(points: Any, options: Any, code: str) -> None:
    with pytest.raises(ParameterError) as refused:
        prepare(request_for(whole_numbers(*points)), **options)
    assert refused.value.code == code
