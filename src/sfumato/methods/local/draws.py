"""Exact draws for a client: whole numbers by rejection, and so any rational chance.

A word of 64 bits at or above the largest multiple of the limit is drawn again; whether that
happens depends on the word alone, never on a person's value. One word is read for each draw, in
order, and words to replace rejected ones after them: a client in another language that reads the
same bytes (eight for a word, the lowest first) draws the same. Decision `local-reports`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sfumato.arrays import BoolArray, IntArray
    from sfumato.privacy.noise.entropy import Entropy

LARGEST_TOTAL = 1 << 62
"""Whole numbers are drawn below limits up to this."""

_TOP = 1 << 64


def below(limit: int, size: int, entropy: Entropy) -> IntArray:
    """Draw whole numbers uniformly from [0, limit)."""
    highest = np.uint64(_TOP - 1 - _TOP % limit)
    drawn = entropy.words(size)
    again = np.flatnonzero(drawn > highest)
    if len(again):
        drawn = drawn.copy()
    while len(again):
        drawn[again] = entropy.words(len(again))
        again = again[drawn[again] > highest]
    return np.asarray((drawn % np.uint64(limit)).view(np.int64))


def happens(chance: Fraction, size: int, entropy: Entropy) -> BoolArray:
    """Toss a coin that falls with exactly this chance, so many times."""
    if chance.denominator <= LARGEST_TOTAL:
        return np.asarray(below(chance.denominator, size, entropy) < chance.numerator)
    # A long chance is compared by its first 64 digits, and where these tie by the next ones.
    first, remainder = divmod(chance.numerator << 64, chance.denominator)
    drawn = entropy.words(size)
    fallen = drawn < np.uint64(first)
    tied = np.flatnonzero(drawn == np.uint64(first))
    if len(tied):
        fallen[tied] = happens(Fraction(remainder, chance.denominator), len(tied), entropy)
    return fallen
