"""Exact uniform integers and permutations, by rejection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.noise.entropy import BLOCK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.entropy import Entropy

_TOP = 1 << 64


def uniform_integers(limit: int, size: int, entropy: Entropy) -> NDArray[np.int64]:
    """Draw integers uniformly from [0, limit), limit at most 2^63."""
    return uniform_below(np.full(size, limit, dtype=np.uint64), entropy)


def uniform_below(limits: NDArray[Any], entropy: Entropy) -> NDArray[np.int64]:
    """Draw an integer uniformly from [0, limit) for each of an array of limits.

    *Guarantee*: a word at or above the largest multiple of the limit is drawn again, so that every
    remainder is equally likely. *Edges*: limits from 1 to 2^63.
    """
    bounds = limits.astype(np.uint64)
    # 2^64 mod n words at the top would favour small remainders.
    biased = (np.uint64(_TOP - 1) % bounds + np.uint64(1)) % bounds
    drawn = entropy.words(max(len(bounds), BLOCK))[: len(bounds)].copy()
    again = np.flatnonzero(drawn > np.uint64(_TOP - 1) - biased)
    while len(again):
        drawn[again] = entropy.words(max(len(again), BLOCK))[: len(again)]
        again = again[drawn[again] > np.uint64(_TOP - 1) - biased[again]]
    return (drawn % bounds).astype(np.int64)


def permutation(size: int, entropy: Entropy) -> NDArray[np.int64]:
    """A uniformly random order of [0, size): the order of random words, drawn anew if two tie."""
    while True:
        words = entropy.words(max(size, BLOCK))[:size]
        order = np.argsort(words)
        if size < 2 or (np.diff(words[order]) != 0).all():
            return order
