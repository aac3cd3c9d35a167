"""Exact draws for a client: uniform integers, events of rational probability, and packed bits.

*Integers.* A word of 64 bits at or above the largest multiple of the limit is drawn again; whether
that happens depends on the word alone, never on a person's value. One word is read for each draw,
in order, and words to replace rejected ones after them: a client in another language that reads the
same bytes (eight for a word, little-endian) draws the same.

*Bits.* Eight tosses of one coin are one draw among 256 patterns of known probabilities: a uniform
number in [0, 1) falls into the interval of one of them. Its first 16 bits decide which, except in
the few cells that contain the end of an interval. There 48 more bits are read. If even these do not
decide, more are read, in integer arithmetic. So eight exact tosses take two random bytes and a
table.

Decision `local-privacy`.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.privacy.noise.entropy import Entropy

LARGEST_TOTAL = 1 << 62
"""The largest limit of `draw_integers`."""
FLOAT_PARTS = 1 << 53
"""Parts of 1 that float64 can tell apart."""

_TOP = 1 << 64


def draw_integers(limit: int, size: int, entropy: Entropy) -> IntArray:
    """Draw integers uniformly from [0, limit)."""
    # 2^64 mod limit words at the top would favour small remainders: they are drawn again.
    highest = np.uint64(_TOP - 1 - _TOP % limit)
    drawn = entropy.words(size)
    again = np.flatnonzero(drawn > highest)
    if len(again):
        drawn = drawn.copy()
    while len(again):
        drawn[again] = entropy.words(len(again))
        again = again[drawn[again] > highest]
    return np.asarray((drawn % np.uint64(limit)).view(np.int64))


def draw_events(chance: Fraction, size: int, entropy: Entropy) -> BoolArray:
    """Draw `size` events that each happen with exactly this probability."""
    if chance.denominator <= LARGEST_TOTAL:
        return np.asarray(draw_integers(chance.denominator, size, entropy) < chance.numerator)
    # A long fraction is compared by its first 64 binary digits; ties are decided by the next.
    first, remainder = divmod(chance.numerator << 64, chance.denominator)
    drawn = entropy.words(size)
    happened = drawn < np.uint64(first)
    tied = np.flatnonzero(drawn == np.uint64(first))
    if len(tied):
        happened[tied] = draw_events(Fraction(remainder, chance.denominator), len(tied), entropy)
    return happened


def draw_each_event(probabilities: FloatArray, entropy: Entropy) -> BoolArray:
    """Draw one event for each probability, taken to the nearest multiple of 2^-53."""
    drawn = entropy.words(probabilities.size) >> np.uint64(11)
    thresholds = np.rint(probabilities * FLOAT_PARTS).astype(np.uint64)
    return np.asarray(drawn.reshape(probabilities.shape) < thresholds)


_FIRST_BITS, _LOW_BITS = 16, 48
_PATTERNS = 256
# Bytes tossed, and bytes of rows summed, at once: they bound memory, not results.
_BYTES_AT_ONCE = 1 << 20
_BLOCK_BYTES = 1 << 21


class Coins:
    """A coin of rational probability above 0 and below 1, tossed eight times at once."""

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
        cells = np.arange(1 << _FIRST_BITS, dtype=np.uint64) << np.uint64(_LOW_BITS)
        last = cells + np.uint64((1 << _LOW_BITS) - 1)
        self._pattern = self._lookup(cells).astype(np.uint8)
        self._cut = (
            (self._lookup(cells) != self._lookup(last))
            | self._is_undecided(last)
            | self._is_undecided(cells)
        )

    def _lookup(self, drawn: NDArray[np.uint64]) -> NDArray[np.intp]:
        """The pattern whose interval begins at or before a number of 64 bits."""
        return np.searchsorted(self._words, drawn, side="right")

    def _is_undecided(self, drawn: NDArray[np.uint64]) -> BoolArray:
        """Whether 64 bits do not decide: a longer end of an interval begins with these 64 bits."""
        index = np.minimum(np.searchsorted(self._words, drawn), len(self._words) - 1)
        return np.asarray((self._words[index] == drawn) & self._inexact[index])

    def toss(self, size: int, entropy: Entropy) -> NDArray[np.uint8]:
        """Draw `size` bytes of eight tosses each."""
        tossed = np.empty(size, dtype=np.uint8)
        for start in range(0, size, _BYTES_AT_ONCE):
            piece = tossed[start : start + _BYTES_AT_ONCE]
            first = entropy.words(-(-len(piece) // 4)).view("<u2")[: len(piece)]
            np.take(self._pattern, first, out=piece)
            cut = np.flatnonzero(self._cut[first])
            if len(cut):
                piece[cut] = self._resolve_cells(first[cut], entropy)
        return tossed

    def _resolve_cells(self, first: NDArray[np.uint16], entropy: Entropy) -> NDArray[np.uint8]:
        """Find the patterns in cells that contain the end of an interval, by 48 more bits."""
        low_bits = entropy.words(len(first)) >> np.uint64(64 - _LOW_BITS)
        drawn = first.astype(np.uint64) << np.uint64(_LOW_BITS) | low_bits
        indices = self._lookup(drawn)
        for undecided in np.flatnonzero(self._is_undecided(drawn)).tolist():
            indices[undecided] = self._resolve_exactly(int(drawn[undecided]), entropy)
        return indices.astype(np.uint8)

    def _resolve_exactly(self, prefix: int, entropy: Entropy) -> int:
        """Find the pattern of a number with these first 64 bits, by as many more as it needs."""
        bits = 64
        while True:
            low = [end << bits for end in self._ends if end << bits <= prefix * self._total]
            high = [end for end in self._ends if end << bits < (prefix + 1) * self._total]
            if len(low) == len(high):
                return len(low)
            prefix, bits = prefix << 64 | int(entropy.words(1)[0]), bits + 64


@lru_cache(maxsize=32)
def coins(chance: Fraction) -> Coins:
    """The coin of a probability, cached because its table takes ten milliseconds."""
    return Coins(chance)


def bit_sums(rows: NDArray[np.uint8], width: int) -> IntArray:
    """Count how often each of `width` bits is set in rows of packed bytes."""
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
    """Add 64 columns of bits at once, by carry-save adders of whole words.

    Three words of one weight make a sum of that weight and a carry of twice it, bit by bit.
    """
    weight = 0
    while len(rows):
        carries = []
        while len(rows) > 2:
            third = len(rows) // 3
            a, b, c = (rows[index * third : (index + 1) * third] for index in range(3))
            either = a ^ b
            carries.append(a & b | either & c)
            either ^= c
            remainder = rows[3 * third :]
            rows = np.concatenate([either, remainder]) if len(remainder) else either
        if len(rows) == 2:
            carries.append(rows[:1] & rows[1:])
            rows = rows[:1] ^ rows[1:]
        bits = np.unpackbits(rows.view(np.uint8)[0], bitorder="little")
        totals += bits.astype(np.int64) << weight
        rows = np.concatenate(carries) if carries else rows[:0]
        weight += 1
