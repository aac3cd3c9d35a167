"""Exact skips: chances, the coin that settles what digits leave open, the cells between others.

Statistical tests are seeded; for a fresh seed each would fail with probability at most 1e-6.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.methods.publish import sparse as passing
from sfumato.methods.publish.sparse import Bounds, Passing, above, below, empty_cells, power, tail
from sfumato.testing.audit import fit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

THIRD = Fraction(1, 3)


def third(bits: int) -> Bounds:
    """Bounds on 1/3 that never meet it."""
    return THIRD - Fraction(1, 1 << bits), THIRD + Fraction(1, 1 << bits)


class Told:
    """Entropy that was told what to give."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def words(self, count: int) -> NDArray[np.uint64]:
        return np.array([self.left.pop(0) for _ in range(count)], dtype=np.uint64)


@pytest.mark.parametrize("smallest", [None, Fraction(1, 2)])
def test_places_pass_independently_with_the_chance(
    monkeypatch: pytest.MonkeyPatch, smallest: Fraction | None
) -> None:
    """With a higher chance proposed, the coin has to turn a third of the places down."""
    size = 300_000
    if smallest is not None:
        monkeypatch.setattr(passing, "_SMALLEST", smallest)
        size = 20_000  # turning a place down is settled one by one
    places = Passing(third).draw(size, SeededEntropy(2))
    assert (np.diff(places) > 0).all()
    assert places[0] >= 0
    assert places[-1] < size
    passed = np.zeros(size, dtype=np.int64)
    passed[places] = 1
    # Over runs of five places: all 32 patterns, each with its product of chances.
    patterns = passed.reshape(-1, 5) @ (1 << np.arange(5))
    ones = np.array([at.bit_count() for at in range(32)])
    law = (1 / 3) ** ones * (2 / 3) ** (5 - ones)
    found = fit(patterns, lambda at: law[at])
    assert found.p_value > 1e-6, found


def test_how_many_pass_is_binomial() -> None:
    sieve, entropy = Passing(third), SeededEntropy(3)
    counts = np.array([len(sieve.draw(12, entropy)) for _ in range(4000)])
    law = np.array([math.comb(12, k) * 2 ** (12 - k) / 3**12 for k in range(13)])
    assert fit(counts, lambda at: law[at]).p_value > 1e-6


def test_no_cells_and_no_chance_give_no_places() -> None:
    assert Passing(third).draw(0, SeededEntropy(1)).tolist() == []
    never = Passing(lambda bits: tail(Fraction(1), 10**15, 1, bits))
    assert never.draw(2**60, SeededEntropy(1)).tolist() == []


def test_places_reach_the_end_of_the_largest_domain() -> None:
    sieve = Passing(lambda bits: tail(Fraction(1), 35, 1, bits))
    chance = math.exp(-35) / (1 + math.exp(-1))
    places = sieve.draw(2**60, SeededEntropy(4))
    assert abs(len(places) - 2**60 * chance) < 5 * (2**60 * chance) ** 0.5
    assert (np.diff(places) > 0).all()
    # Sixteen parts of equal size; chi-square with 15 degrees is above 57 with probability 1e-6.
    seen = np.bincount(places >> 56, minlength=16)
    assert len(seen) == 16
    assert ((seen - len(places) / 16) ** 2).sum() / (len(places) / 16) < 57


def test_a_coin_asks_for_digits_until_it_is_settled() -> None:
    open_word = (1 << 64) // 3  # the first digits of 1/3 itself
    assert below(third, open_word - 1, Told())
    assert not below(third, open_word + 1, Told())
    assert below(third, open_word, Told(open_word, open_word - 1))
    assert not below(third, open_word, Told(open_word, open_word, open_word + 1))


def test_a_place_found_is_kept_by_its_word() -> None:
    """The last word of all cannot be sure, as the chance proposed is a trifle too high."""
    sieve = Passing(third)
    assert sieve._sure >= (1 << 64) - 2
    low, high = sieve._ratio(300)
    assert 1 - Fraction(1, 1 << 100) < low < high < 1 + Fraction(1, 1 << 100)


@given(st.fractions(Fraction(1, 10), 50), st.integers(1, 400), st.sampled_from([1, 2]))
def test_tails_bound_the_sum_of_the_law(scale: Fraction, threshold: int, sides: int) -> None:
    low, high = tail(scale, threshold, sides, 128)
    rate = float(1 / scale)
    # Terms fall by exp(-rate) each, to below 1e-17 of the first in 40 / rate steps.
    steps = np.arange(threshold, threshold + math.ceil(40 / rate) + 1)
    summed = sides * math.tanh(rate / 2) * np.exp(-rate * steps).sum()
    assert low <= high <= 1
    assert float(low) <= summed * (1 + 1e-9) + 1e-30
    assert summed <= float(high) * (1 + 1e-9)


@given(st.fractions(Fraction(1, 10), 50), st.integers(1, 400))
def test_chances_of_priorities_bound_the_sum_of_the_law(scale: Fraction, level: int) -> None:
    low, high = above(scale, level, 128)
    rate = float(1 / scale)
    noise = np.arange(1, 4000)
    law = 2 * math.tanh(rate / 2) * np.exp(-rate * noise)
    summed = float((law * np.minimum(1, noise / level)).sum())
    assert low < high
    assert float(low) <= summed * (1 + 1e-9)
    assert summed <= float(high) * (1 + 1e-9)


def test_powers_too_small_to_compute_are_still_bounded() -> None:
    low, high = power(Fraction(1), 10**18, 64)
    assert low == 0
    assert high == Fraction(1, 1 << 64)


@given(st.sets(st.integers(0, 40)), st.data())
def test_ranks_skip_the_occupied_cells(occupied: set[int], data: st.DataObject) -> None:
    empty = [cell for cell in range(60) if cell not in occupied]
    ranks = sorted(data.draw(st.sets(st.integers(0, len(empty) - 1))))
    found = empty_cells(np.array(sorted(occupied), dtype=np.int64), np.array(ranks, dtype=np.int64))
    assert found.tolist() == [empty[rank] for rank in ranks]
