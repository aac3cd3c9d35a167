"""Entropy that a seed reproduces, for tests only: predictable noise protects nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class SeededEntropy:
    """A source of random words that is the same for the same seed.

    Parameters
    ----------
    seed
        The seed, any whole number from 0 on.

    Example
    -------
    >>> from sfumato.testing.entropy import SeededEntropy
    >>> bool((SeededEntropy(1).words(3) == SeededEntropy(1).words(3)).all())
    True
    """

    def __init__(self, seed: int) -> None:
        # Philox is counter-based: the words do not depend on how many are drawn at a time.
        self._generator = np.random.Generator(np.random.Philox(seed))

    def words(self, count: int) -> NDArray[np.uint64]:
        """Draw `count` words of 64 bits."""
        return self._generator.integers(0, 2**64, size=count, dtype=np.uint64, endpoint=False)
