"""Sorted lists of least absolute differences."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from sfumato.privacy.estimation.monotone import sorted_fit

Lists = st.lists(st.integers(-3, 3), min_size=1, max_size=6)


@given(Lists)
def test_it_is_the_middle_of_all_best_rising_lists(noisy: list[int]) -> None:
    rising = np.array(list(combinations_with_replacement(range(-3, 4), len(noisy))))
    off = np.abs(rising - np.array(noisy)).sum(axis=1)
    best = rising[off == off.min()]
    middle = (best.min(axis=0) + best.max(axis=0)) / 2
    assert sorted_fit(np.array(noisy)).tolist() == middle.tolist()


@pytest.mark.parametrize("noisy", [[], [4], [1, 2, 2, 9]])
def test_what_is_sorted_stays(noisy: list[int]) -> None:
    assert sorted_fit(np.array(noisy, dtype=np.int64)).tolist() == noisy


def test_entries_that_are_alike_are_told_better_than_by_their_mean() -> None:
    generator = np.random.default_rng(3)
    true, off = np.repeat(np.arange(20), 200), np.zeros(2)
    for _ in range(10):
        noise = generator.geometric(0.4, (2, len(true)))
        noisy = true + noise[0] - noise[1]
        fits = isotonic_regression(noisy.astype(np.float64)).x, sorted_fit(noisy)
        off += [((np.clip(one, 0, 19) - true) ** 2).sum() for one in fits]
    assert off[1] < 0.6 * off[0]


def test_many_entries_take_a_moment() -> None:
    generator = np.random.default_rng(4)
    true = np.sort(generator.pareto(1.5, 200_000).astype(np.int64))
    found = sorted_fit(true + generator.integers(-3, 4, len(true)))
    assert (np.diff(found) >= 0).all()
