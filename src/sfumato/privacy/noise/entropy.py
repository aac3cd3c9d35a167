"""Sources of randomness: the operating system, read anew for each block of draws.

Nothing is pooled, so no state can be duplicated by a fork, pickled, replayed or exhausted. Draws
are made in blocks, so that the running time reveals little about any single one: a timing side
channel could otherwise tell how many trials a draw took, and so its size.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, FloatArray, IntArray

BLOCK = 1024
"""The least number of words a sampler draws at once: it hides the time of a single draw."""

CHUNK = 1 << 14
"""The largest number of trials at once: their arrays stay in the cache and are reused by the
allocator."""

# Trials drawn per trial expected to be needed: a few more avoid most second rounds.
_OVERSAMPLING = 1.03


class Entropy(Protocol):
    """A source of uniformly random bits."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """Draw `count` independent uniform 64-bit words."""
        ...


class SystemEntropy:
    """The operating system's cryptographically secure generator."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """Draw `count` independent uniform 64-bit words."""
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a source of entropy cannot be copied or sent elsewhere")


def random_key(entropy: Entropy) -> str:
    """Draw a key of 128 bits as hexadecimal text; draw a fresh one per release, never show it."""
    return "".join(f"{entropy_word:016x}" for entropy_word in entropy.words(2).tolist())


@dataclass(frozen=True)
class Draws:
    """Integers that nearly all fit 64 bits; `wide` maps the index of any other to its value."""

    values: IntArray
    wide: dict[int, int] = field(default_factory=dict)

    def masked(self, mask: BoolArray) -> Draws:
        """The draws where the mask is true."""
        if not self.wide:
            return Draws(self.values[mask])
        positions = np.cumsum(mask) - 1
        wide = {int(positions[index]): value for index, value in self.wide.items() if mask[index]}
        return Draws(self.values[mask], wide)

    def signed(self, negative: BoolArray) -> Draws:
        """The draws with a minus sign where `negative` is true."""
        # Two's complement without a branch: -v = (v ^ -1) + 1.
        minus = negative.astype(np.int64)
        wide = {index: -value if negative[index] else value for index, value in self.wide.items()}
        return Draws((self.values ^ -minus) + minus, wide)

    def floats(self) -> FloatArray:
        """Each draw as the nearest float64."""
        result = self.values.astype(np.float64)
        for index, value in self.wide.items():
            result[index] = float(value)
        return result

    def exact(self, index: int) -> int:
        """One draw, exactly."""
        return self.wide.get(index, int(self.values[index]))


def collect(size: int, acceptance: float, trials: Callable[[int], Draws]) -> NDArray[Any]:
    """Collect `size` draws from blocks of trials, discarding the surplus.

    Parameters
    ----------
    size : int
        The number of draws.
    acceptance : float
        The approximate share of trials that succeed. It decides only the size of the blocks.
    trials : callable
        Makes a number of trials and returns the draws that succeeded.

    Returns
    -------
    array
        int64, or Python integers where one of them does not fit.
    """
    values = np.empty(size, dtype=np.int64)
    wide: dict[int, int] = {}
    collected = 0
    while collected < size:
        missing = size - collected
        trial_count = missing if acceptance >= 1 else int(_OVERSAMPLING * missing / acceptance)
        drawn = trials(min(max(trial_count, BLOCK), CHUNK))
        batch = drawn.values[: size - collected]
        values[collected : collected + len(batch)] = batch
        wide |= {
            collected + offset: value for offset, value in drawn.wide.items() if offset < len(batch)
        }
        collected += len(batch)
    if not wide:
        return values
    exact = values.astype(object)
    for index, value in wide.items():
        exact[index] = value
    return exact
