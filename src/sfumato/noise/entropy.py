"""Where randomness comes from: the operating system, asked anew each time.

Nothing is pooled or kept, so nothing can be copied by fork, pickled, replayed or run out of.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NoReturn, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

BLOCK = 1024
"""The fewest words a sampler asks for at once: how long one draw took is lost among the others."""


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
