"""Draws are exact: words that would favour a number are drawn again, in a stated order."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sfumato.methods.local.draws import Coins, bit_sums, draw_events, draw_integers
from sfumato.testing.audit import fit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Words:
    """Entropy that gives these words, in order."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def words(self, count: int) -> NDArray[np.uint64]:
        taken, self.left = self.left[:count], self.left[count:]
        assert len(taken) == count, "more words were read than given"
        return np.array(taken, dtype=np.uint64)


TOP = 2**64 - 1


def test_a_word_that_would_favour_a_number_is_drawn_again_after_all_others() -> None:
    # 2^64 = 1 (mod 3), so that the largest word alone is one too many.
    assert draw_integers(3, 4, Words(5, TOP, 7, TOP, 1, TOP, 2)).tolist() == [2, 1, 1, 2]
    assert draw_integers(4, 2, Words(TOP, 6)).tolist() == [3, 2]  # a power of 2 takes any word


def test_chances_are_exact() -> None:
    assert draw_events(Fraction(3, 4), 4, Words(0, 2, 3, 7)).tolist() == [True, True, False, False]


def test_long_chances_are_exact_too() -> None:
    chance = Fraction(3, 4) + Fraction(1, 2**100)  # 64 digits of 3/4, then a chance of 2^-36
    first = 3 << 62
    words = Words(first - 1, first + 1, first, first, 0, 1)
    assert draw_events(chance, 4, words).tolist() == [True, False, True, False]
    assert words.left == []


@pytest.mark.parametrize(
    "chance", [Fraction(1, 4), Fraction(1, 3), Fraction(1, 1000), Fraction(13, 17)]
)
def test_eight_tosses_at_once_have_the_law_of_eight_tosses(chance: Fraction) -> None:
    """Chi-square over all 256 patterns; a sound coin is refused with probability 1e-7."""
    tossed = Coins(chance).toss(300_000, SeededEntropy(3)).astype(np.int64)
    ones = np.bitwise_count(np.arange(256)).astype(np.int64)
    mass = float(chance) ** ones * float(1 - chance) ** (8 - ones)
    assert fit(tossed, lambda at: mass[at]).p_value > 1e-7
    off = np.where(ones % 2, 1.1 * mass, mass / 1.1)
    assert fit(tossed, lambda at: off[at] / off.sum()).p_value < 1e-7


def test_every_cell_of_the_table_is_right_by_whole_numbers() -> None:
    """A cell is looked up only if no pattern ends in it; such ends are looked at exactly."""
    chance = Fraction(1, 3)
    coins = Coins(chance)
    weights = [1**ones * 2 ** (8 - ones) for ones in np.bitwise_count(np.arange(256)).tolist()]
    ends = np.cumsum(weights).tolist()
    for cell in range(0, 1 << 16, 97):
        low = sum(end << 16 <= cell * 3**8 for end in ends)
        high = sum(end << 16 < (cell + 1) * 3**8 for end in ends)
        assert bool(coins._cut[cell]) or low == high == int(coins._pattern[cell])
    assert int(coins._cut.sum()) <= 255


def test_where_64_bits_do_not_decide_more_are_read() -> None:
    coins = Coins(Fraction(1, 3))
    end = 2**8  # of the first pattern, no toss: 256 of 6561
    prefix = (end << 64) // 3**8
    assert coins._resolve_exactly(prefix, Words(0)) == 0
    assert coins._resolve_exactly(prefix, Words(TOP)) == 1
    first, rest = prefix >> 48, prefix & (1 << 48) - 1
    words = Words(first, rest << 16, TOP)
    assert coins.toss(1, words).tolist() == [1]
    assert words.left == []


def test_bits_are_summed_as_one_by_one() -> None:
    rows = np.random.default_rng(1).integers(0, 256, (70_001, 5), dtype=np.uint8)
    expected = np.unpackbits(rows, axis=1, bitorder="little").sum(axis=0)[:37]
    assert np.array_equal(bit_sums(rows, 37), expected)
    for few in (0, 1, 2, 3, 4):
        expected = np.unpackbits(rows[:few], axis=1, bitorder="little").sum(axis=0)
        assert np.array_equal(bit_sums(rows[:few], 40), expected)
