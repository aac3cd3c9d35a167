"""Reproducible entropy, for tests only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class SeededEntropy:
    """The same words for the same seed. Predictable noise protects nobody: use it in tests only."""

    def __init__(self, seed: int) -> None:
        # Philox is counter-based: the words do not depend on how many are drawn at a time.
        self._generator = np.random.Generator(np.random.Philox(seed))

    def words(self, count: int) -> NDArray[np.uint64]:
        """Draw `count` words."""
        return self._generator.integers(0, 2**64, size=count, dtype=np.uint64, endpoint=False)
