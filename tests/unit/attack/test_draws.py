"""Draws that are the same each time are as even as others."""

from __future__ import annotations

import numpy as np

from sfumato.attack.draws import below, shuffled, subset


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
