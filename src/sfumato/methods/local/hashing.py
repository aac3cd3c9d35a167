"""Hash functions of local mechanisms: fresh ones in each report, and public ones in a sketch.

*Fresh hashes* x -> ((a x + b) mod P) mod g collide with probability exactly 1 / g. P is the least
prime of at least the domain's size and g. For a not 0 and b uniform, two values go to an ordered
pair of different residues, each pair equally likely, so that they collide with the same probability
c for any two values; c is a little below 1 / g, because residues cannot repeat. With the small
probability w = (1/g - c) / (1 - c) the factor a is 0 instead, and all values collide: together
exactly 1 / g. Nothing else of a hash matters to an estimate or to its variance.

*Supports of many reports at once.* Report (a, b, y) supports v when ((a v + b) mod P) mod g = y.
With t = a v mod P this is: t + b < P and t = y - b (mod g), or t + b >= P and t = y - b + P
(mod g). Among the t of one residue mod g either condition is an interval. So a report adds 1 from
the start of one residue's list up to an index, and from an index of another's to its end: three
entries of an array of differences for its a. Running sums give supports by t for each a, and
reading them at a v mod P gives those by v: work of n + A k for A different factors, not n k.

*Public hashes* (a x^2 + b x + c mod P) mod m, P = 2^31 - 1, are the same in every program: a, b and
c are read off SHA-256 of a public seed. Any three values are hashed independently, as a sketch's
variance needs: lines a x + b make only pairs independent, and values in a row that collide with one
would do so together.

Decision `local-privacy`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.local.draws import draw_events, draw_integers

if TYPE_CHECKING:
    from sfumato.arrays import IntArray
    from sfumato.privacy.noise.entropy import Entropy

# Cells of the tables of supports at once: it bounds memory, not results.
_CELLS = 1 << 22
_PUBLIC_PRIME = (1 << 31) - 1


@dataclass(frozen=True)
class AffineHashes:
    """The fresh hashes of `size` values to `buckets` numbers."""

    size: int
    buckets: int
    prime: int
    constant: Fraction
    """The probability that the factor is 0."""

    @classmethod
    def to(cls, size: int, buckets: int) -> AffineHashes:
        """The family for a domain and a number of buckets."""
        prime = next_prime(max(size, buckets))
        full, remainder = divmod(prime, buckets)
        pairs = remainder * (full + 1) * full + (buckets - remainder) * full * (full - 1)
        different = Fraction(pairs, prime * (prime - 1))
        constant = (Fraction(1, buckets) - different) / (1 - different)
        return cls(size, buckets, prime, constant)

    def draw(self, count: int, entropy: Entropy) -> tuple[IntArray, IntArray]:
        """Draw the factors and shifts of `count` hashes, independently of any value."""
        factors = 1 + draw_integers(self.prime - 1, count, entropy)
        factors[draw_events(self.constant, count, entropy)] = 0
        return factors, draw_integers(self.prime, count, entropy)

    def of(self, values: IntArray, factors: IntArray, shifts: IntArray) -> IntArray:
        """The hash of each value; the product fits 63 bits, as both factors are below 2^31."""
        return np.asarray((factors * values + shifts) % self.prime % self.buckets)

    def supports(self, factors: IntArray, shifts: IntArray, outputs: IntArray) -> IntArray:
        """Count the reports that support each value."""
        order = np.argsort(factors, kind="stable")
        factors, shifts, outputs = factors[order], shifts[order], outputs[order]
        different, starts = np.unique(factors, return_index=True)
        totals = np.zeros(self.size, dtype=np.int64)
        at_once = max(1, _CELLS // self._row)
        for first in range(0, len(different), at_once):
            piece = different[first : first + at_once]
            begin = starts[first]
            end = starts[first + at_once] if first + at_once < len(starts) else len(factors)
            rank = np.searchsorted(piece, factors[begin:end])
            totals += self._support_counts(piece, rank, shifts[begin:end], outputs[begin:end])
        return totals

    @property
    def _length(self) -> int:
        """Entries in the list of one residue: its members, and one after them."""
        return -(-self.prime // self.buckets) + 1

    @property
    def _row(self) -> int:
        """Entries in the lists of all residues, for one factor."""
        return self.buckets * self._length

    def _support_counts(
        self,
        factors: IntArray,
        rank: IntArray,
        shifts: IntArray,
        outputs: IntArray,
    ) -> IntArray:
        """Count supports for some factors; `rank` is the index of each report's factor."""
        g, prime, length = self.buckets, self.prime, self._length
        turn = prime - shifts  # from this t on, t + b passes the prime
        before, after = (outputs - shifts) % g, (outputs - shifts + prime) % g
        row = rank * self._row
        # The index of the first t >= turn of a residue r in its list is ceil((turn - r) / g).
        enter = row + before * length
        leave = enter + np.maximum(-(-(turn - before) // g), 0)
        again = row + after * length + np.maximum(-(-(turn - after) // g), 0)
        cells = len(factors) * self._row
        steps = np.bincount(enter, minlength=cells) + np.bincount(again, minlength=cells)
        steps -= np.bincount(leave, minlength=cells)
        sums = np.cumsum(steps.reshape(-1, length), axis=1).reshape(len(factors), self._row)
        points = np.arange(prime)
        by_point = sums[:, points % g * length + points // g]
        reached = factors[:, None] * np.arange(self.size) % prime
        return np.asarray(np.take_along_axis(by_point, reached, axis=1).sum(axis=0))


def next_prime(least: int) -> int:
    """The least prime of at least this, by trial division: limits are below 2^32."""
    candidate = max(2, least)
    while any(candidate % divisor == 0 for divisor in range(2, isqrt(candidate) + 1)):
        candidate += 1
    return candidate


class PublicHashes:
    """Public hash functions from values to numbers below `buckets`."""

    def __init__(self, seed: int, count: int, buckets: int) -> None:
        self.buckets = buckets
        digests = b"".join(
            hashlib.sha256(f"sfumato hash {seed} {number}".encode()).digest()
            for number in range(count)
        )
        hash_words = np.frombuffer(digests, dtype="<u8").reshape(count, 4)
        # Of 64 bits every residue is equally likely up to a part in 2^33.
        self._factors = (hash_words[:, :3] % np.uint64(_PUBLIC_PRIME)).astype(np.int64)

    def of(self, hash_numbers: IntArray, codes: IntArray) -> IntArray:
        """The hash of each code by the function of each number; both are broadcast."""
        square, line, shift = (self._factors[hash_numbers, column] for column in range(3))
        hashed = ((square * codes + line) % _PUBLIC_PRIME * codes + shift) % _PUBLIC_PRIME
        return np.asarray(hashed % self.buckets)
