"""Where randomness comes from: the operating system, asked anew each time, in blocks.

Nothing is pooled or kept, so nothing can be copied by fork, pickled, replayed or run out of. Draws
are made in blocks, so that time tells nothing of any one of them, and are integers of any size.
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
"""The fewest words a sampler asks for at once: how long one draw took is lost among the others."""


CHUNK = 1 << 14
"""The most trials made at once: their arrays are reused by the allocator and stay in the cache."""

_SPARE = 1.03


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


def secret(entropy: Entropy) -> str:
    """A fresh key of 128 bits, to be drawn anew for each release and never shown."""
    return "".join(f"{word:016x}" for word in entropy.words(2).tolist())


@dataclass(frozen=True)
class Draws:
    """Integers of which nearly all fit 64 bits; `wide` has the true value of those that do not."""

    values: IntArray
    wide: dict[int, int] = field(default_factory=dict)

    def kept(self, mask: BoolArray) -> Draws:
        """Those under the mask."""
        if not self.wide:
            return Draws(self.values[mask])
        places = np.cumsum(mask) - 1
        wide = {int(places[place]): value for place, value in self.wide.items() if mask[place]}
        return Draws(self.values[mask], wide)

    def signed(self, negative: BoolArray) -> Draws:
        """The same with a minus where told."""
        minus = negative.astype(np.int64)
        wide = {place: -value if negative[place] else value for place, value in self.wide.items()}
        return Draws((self.values ^ -minus) + minus, wide)

    def floats(self) -> FloatArray:
        """Each as the nearest float64."""
        result = self.values.astype(np.float64)
        for place, value in self.wide.items():
            result[place] = float(value)
        return result

    def exact(self, place: int) -> int:
        """One of them."""
        return self.wide.get(place, int(self.values[place]))


def collect(size: int, kept_share: float, trials: Callable[[int], Draws]) -> NDArray[Any]:
    """Make blocks of trials, of which about `kept_share` succeed, and discard the surplus.

    The result is int64, or Python integers where one of them does not fit.
    """
    values = np.empty(size, dtype=np.int64)
    wide: dict[int, int] = {}
    done = 0
    while done < size:
        wanted = size - done if kept_share >= 1 else int(_SPARE * (size - done) / kept_share)
        drawn = trials(min(max(wanted, BLOCK), CHUNK))
        taken = drawn.values[: size - done]
        values[done : done + len(taken)] = taken
        wide |= {done + at: value for at, value in drawn.wide.items() if at < len(taken)}
        done += len(taken)
    if not wide:
        return values
    exact = values.astype(object)
    for place, value in wide.items():
        exact[place] = value
    return exact
