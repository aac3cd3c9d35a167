from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from sfumato.methods.itemsets.privbasis import NoisySupports
from sfumato.methods.itemsets.transactions import Profiles

BASES = [np.array([0, 1, 2]), np.array([2, 3]), np.array([1, 2, 3, 4])]


def profiles() -> Profiles:
    draw = np.random.default_rng(1)
    return Profiles(draw.random((200, 5)) < 0.4, draw.integers(1, 9, 200))


def test_without_noise_every_set_has_its_own_count() -> None:
    held = profiles()
    found = NoisySupports(BASES, [held.bins(one) for one in BASES], 1.0)
    assert frozenset({0, 3}) not in found.sets
    for size in range(4):
        for items in combinations(range(5), size):
            if frozenset(items) in found.sets:
                exact = held.counts[held.marks[:, list(items)].all(axis=1)].sum()
                assert found.count(items) == pytest.approx(exact)
    assert found.count(()) == held.counts.sum()
    assert held.pairs[1, 2] == found.count((1, 2))
    assert held.pairs[3, 3] == found.count((3,))


def test_deviations_are_those_of_many_draws() -> None:
    """Unbiased, with the stated variance and covariance, within 5 % on 20,000 draws."""
    runs, draw = 20_000, np.random.default_rng(2)
    bins = [draw.normal(0, 3, (runs, 1 << len(one))) for one in BASES]
    stated = NoisySupports(BASES, [one[0] for one in bins], 9.0)
    drawn = {
        items: np.array(
            [
                NoisySupports(BASES, [one[run] for one in bins], 9.0).count(items)
                for run in range(0, runs, 10)
            ]
        )
        for items in [(2,), (2, 3)]
    }
    single, both = drawn.values()
    assert single.std() == pytest.approx(stated.sd((2,)), rel=0.06)
    assert both.std() == pytest.approx(stated.sd((2, 3)), rel=0.06)
    assert np.cov(single, both)[0, 1] == pytest.approx(stated.covariance((2,), (2, 3)), rel=0.12)
    assert abs(single.mean()) < 5 * stated.sd((2,)) / np.sqrt(runs / 10)


def test_sets_of_no_common_base_are_independent() -> None:
    found = NoisySupports(BASES, [np.ones(1 << len(one), dtype=np.int64) for one in BASES], 1.0)
    assert found.covariance((0,), (4,)) == 0


def test_the_most_frequent_come_first_and_are_of_bounded_size() -> None:
    held = profiles()
    found = NoisySupports(BASES, [held.bins(one) for one in BASES], 1.0)
    top = found.most_frequent(6, size=2)
    assert [one.estimate for one in top] == sorted((one.estimate for one in top), reverse=True)
    assert max(len(one.items) for one in top) <= 2
    assert top[0].estimate == held.pairs.max()
