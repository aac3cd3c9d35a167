"""Public hash functions that clients and collector share: (a x^2 + b x + c mod P) mod m.

P = 2^31 - 1, and a, b, c are read off SHA-256 of a public seed, so that every program has the same
ones. Any three values are hashed independently, as a sketch's variance needs: by lines a x + b,
which make pairs independent, values in a row that collide with one would do so together.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sfumato.arrays import IntArray

_PRIME = (1 << 31) - 1


class PublicHashes:
    """So many functions from values to numbers below `buckets`."""

    def __init__(self, seed: int, count: int, buckets: int) -> None:
        self.buckets = buckets
        digests = b"".join(
            hashlib.sha256(f"sfumato hash {seed} {number}".encode()).digest()
            for number in range(count)
        )
        hash_words = np.frombuffer(digests, dtype="<u8").reshape(count, 4)
        # 64 bits make any residue alike but for a part in 2^33.
        self._factors = (hash_words[:, :3] % np.uint64(_PRIME)).astype(np.int64)

    def of(self, hash_numbers: IntArray, codes: IntArray) -> IntArray:
        """The hash of each code by the function of each number; both may be broadcast."""
        square, line, shift = (self._factors[hash_numbers, at] for at in range(3))
        hashed = ((square * codes + line) % _PRIME * codes + shift) % _PRIME
        return np.asarray(hashed % self.buckets)
