"""Exact draws for a client: whole numbers by rejection, and so any rational chance.

A word of 64 bits at or above the largest multiple of the limit is drawn again; whether that
happens depends on the word alone, never on a person's value. One word is read for each draw, in
order, and words to replace rejected ones after them: a client in another language that reads the
same bytes (eight for a word, the lowest first) draws the same. Decision `local-reports`.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

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


# Many tosses of one coin, eight to a byte, each with exactly the same rational chance; their
# sums.
#
# Eight tosses are one draw among 256 patterns, whose chances are known. A uniform number in [0,
# 1)
# falls into the stretch of one of them. Its first 16 bits tell which, but for the few cells that
# the
# end of a stretch cuts: there 48 more bits are read, and where even those meet an end, ever more,
# in
# whole numbers. So eight exact tosses take two random bytes, and a table is all that is computed.
#
# Sums of bits are taken for 64 columns at once by adders of whole words. Decision `local-
# reports`.

_FIRST, _LOW_BITS = 16, 48
_PATTERNS = 256
_AT_ONCE = 1 << 20
_BLOCK_BYTES = 1 << 21


class Coins:
    """A coin that falls with a rational chance, above 0 and below 1."""

    def __init__(self, chance: Fraction) -> None:
        yes, no = chance.numerator, chance.denominator - chance.numerator
        self._total = chance.denominator**8
        weights = [
            yes**ones_in_pattern * no ** (8 - ones_in_pattern)
            for ones_in_pattern in (pattern.bit_count() for pattern in range(_PATTERNS))
        ]
        self._ends = [sum(weights[: pattern + 1]) for pattern in range(_PATTERNS - 1)]
        self._words = np.array([(end << 64) // self._total for end in self._ends], dtype=np.uint64)
        self._inexact = np.array([(end << 64) % self._total != 0 for end in self._ends])
        cells = np.arange(1 << _FIRST, dtype=np.uint64) << np.uint64(_LOW_BITS)
        last = cells + np.uint64((1 << _LOW_BITS) - 1)
        self._pattern = self._lookup(cells).astype(np.uint8)
        self._cut = (self._lookup(cells) != self._lookup(last)) | self._met(last) | self._met(cells)

    def _lookup(self, drawn: NDArray[np.uint64]) -> NDArray[np.intp]:
        """The pattern whose stretch begins at or before a number of 64 bits."""
        return np.searchsorted(self._words, drawn, side="right")

    def _met(self, drawn: NDArray[np.uint64]) -> BoolArray:
        """Whether the end of a stretch, itself no number of 64 bits, may lie right there."""
        index = np.minimum(np.searchsorted(self._words, drawn), len(self._words) - 1)
        return np.asarray((self._words[index] == drawn) & self._inexact[index])

    def toss(self, size: int, entropy: Entropy) -> NDArray[np.uint8]:
        """So many bytes of eight tosses each."""
        bytes_ = np.empty(size, dtype=np.uint8)
        for start in range(0, size, _AT_ONCE):
            piece = bytes_[start : start + _AT_ONCE]
            first = entropy.words(-(-len(piece) // 4)).view("<u2")[: len(piece)]
            np.take(self._pattern, first, out=piece)
            cut = np.flatnonzero(self._cut[first])
            if len(cut):
                piece[cut] = self._decided(first[cut], entropy)
        return bytes_

    def _decided(self, first: NDArray[np.uint16], entropy: Entropy) -> NDArray[np.uint8]:
        low_bits = entropy.words(len(first)) >> np.uint64(64 - _LOW_BITS)
        drawn = first.astype(np.uint64) << np.uint64(_LOW_BITS) | low_bits
        indices = self._lookup(drawn)
        for undecided in np.flatnonzero(self._met(drawn)).tolist():
            indices[undecided] = self._exactly(int(drawn[undecided]), entropy)
        return indices.astype(np.uint8)

    def _exactly(self, prefix: int, entropy: Entropy) -> int:
        """The pattern of a number that begins with these 64 bits, by as many more as it takes."""
        bits = 64
        while True:
            low = [end << bits for end in self._ends if end << bits <= prefix * self._total]
            high = [end for end in self._ends if end << bits < (prefix + 1) * self._total]
            if len(low) == len(high):
                return len(low)
            prefix, bits = prefix << 64 | int(entropy.words(1)[0]), bits + 64


@lru_cache(maxsize=32)
def coins(chance: Fraction) -> Coins:
    """The coin of a chance; its table takes ten milliseconds, so it is kept."""
    return Coins(chance)


def bit_sums(rows: NDArray[np.uint8], width: int) -> IntArray:
    """How often each of `width` bits is set in rows of packed bytes."""
    size = rows.shape[1]
    word_count = -(-size // 8)
    totals = np.zeros(64 * word_count, dtype=np.int64)
    at_once = max(1, _BLOCK_BYTES // (8 * word_count))
    for start in range(0, len(rows), at_once):
        piece = rows[start : start + at_once]
        block = np.zeros((len(piece), 8 * word_count), dtype=np.uint8)
        block[:, :size] = piece
        _add_block(block.view(np.uint64), totals)
    return totals[:width]


def _add_block(rows: NDArray[np.uint64], totals: IntArray) -> None:
    """Three words of one weight make a sum of that weight and a carry of twice it, bit by bit."""
    weight = 0
    while len(rows):
        carries = []
        while len(rows) > 2:
            third = len(rows) // 3
            a, b, c = (rows[at * third : (at + 1) * third] for at in range(3))
            either = a ^ b
            carries.append(a & b | either & c)
            either ^= c
            last_third = rows[3 * third :]
            rows = np.concatenate([either, last_third]) if len(last_third) else either
        if len(rows) == 2:
            carries.append(rows[:1] & rows[1:])
            rows = rows[:1] ^ rows[1:]
        bits = np.unpackbits(rows.view(np.uint8)[0], bitorder="little")
        totals += bits.astype(np.int64) << weight
        rows = np.concatenate(carries) if carries else rows[:0]
        weight += 1
