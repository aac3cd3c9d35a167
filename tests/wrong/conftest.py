"""How the planted wrong mechanisms are put before the auditor.

A wrong mechanism is ``(dataset, count, generator) -> outputs`` on NumPy's insecure generator: it is
wrong on purpose, and quick. Entropy is seeded, so every run draws the same; for a fresh seed a
sound mechanism would be accused with probability at most 1e-6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.testing.audit import Audit, Claim, Feature, audit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from sfumato.privacy.noise.entropy import Entropy

Wrong = Callable[[Any, int, np.random.Generator], NDArray[Any]]
Accuse = Callable[..., Audit]


@pytest.fixture
def accuse() -> Accuse:
    """Audit a wrong mechanism on a pair of neighbours."""

    def run(
        wrong: Wrong,
        pair: tuple[Any, Any],
        claim: Claim,
        *,
        draws: int = 100_000,
        extra: Sequence[Feature] = (),
    ) -> Audit:
        def mechanism(dataset: Any, count: int, entropy: Entropy) -> NDArray[Any]:
            return wrong(dataset, count, np.random.default_rng(entropy.words(4)))

        return audit(mechanism, pair, claim, entropy=SeededEntropy(7), draws=draws, extra=extra)

    return run
