"""Deterministic draws are even, and sets of columns are all or at even distances."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from sfumato.attack.sampling import below, shuffled, subset, subsets


def test_shuffling_is_even() -> None:
    places = np.stack([shuffled(10, number) for number in range(4000)])
    assert (np.sort(places, axis=1) == np.arange(10)).all()
    counts = np.stack([np.bincount(column, minlength=10) for column in places.T])
    # 100 cells of 400 expected, sd 19: six of them are left by chance once in 10^7 runs.
    assert np.abs(counts - 400).max() < 6 * 19


def test_numbers_below_a_limit_are_even() -> None:
    counts = np.bincount(below(7, 70_000, 3), minlength=7)
    # 7 cells of 10,000 expected, sd 93: six of them are left by chance once in 10^7 runs.
    assert len(counts) == 7
    assert np.abs(counts - 10_000).max() < 6 * 93
    assert subset(5, 9, 1).tolist() == [0, 1, 2, 3, 4]
    assert len(set(subset(1_000, 30, 1).tolist())) == 30


def test_few_sets_are_all_of_them() -> None:
    assert subsets(5, 3, 10) == list(combinations(range(5), 3))
    assert subsets(2, 3, 10) == []


def test_of_many_sets_some_are_taken_at_even_distances() -> None:
    everyone = list(combinations(range(9), 3))
    assert subsets(9, 3, 12) == [everyone[(2 * place + 1) * 84 // 24] for place in range(12)]
    wide = subsets(2_000, 3, 50)
    assert len(set(wide)) == 50
    assert all(0 <= a < b < c < 2_000 for a, b, c in wide)
