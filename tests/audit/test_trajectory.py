"""Tables of paths before the auditor: one person more, whose steps weigh one together.

Entropy is seeded; for a fresh seed each audit would accuse a sound method with probability at most
1e-6. The same without weights is caught.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.data.counting.contribution import FULL_WEIGHT
from sfumato.data.schema.unit import Entity
from sfumato.methods.trajectory import measurement
from sfumato.methods.trajectory.measurement import Measuring, PathCost
from sfumato.privacy.accounting.losses import Pure
from sfumato.privacy.accounting.price import price
from sfumato.testing.audit import audit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    import pytest

    from sfumato.privacy.noise.entropy import Entropy

Steps = tuple[list[int], list[int]]
"""The cells of steps, and whose they are."""
PAIR: tuple[Steps, Steps] = (([0, 1], [0, 1]), ([0, 1, 0, 0, 0, 0], [0, 1, 2, 2, 2, 2]))
COST = PathCost(price(epsilon=2), Entity("trip", 10))


def measured(steps: Steps, count: int, entropy: Entropy) -> Any:
    cells, owners = (np.array(one) for one in steps)
    found = [Measuring(COST, entropy).table(cells, 2, owners, Fraction(1)) for _ in range(count)]
    return np.round(np.array(found) * 4)


def test_a_table_of_steps_keeps_its_epsilon() -> None:
    found = audit(measured, PAIR, Pure(epsilon=Fraction(2)), entropy=SeededEntropy(1), draws=600)
    assert not found.violated, found.sentence()
    assert found.lower_bound > 0.1, found.sentence()  # the two sides are told apart


def test_steps_that_all_count_in_full_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = lambda owners, _cap: np.full(len(owners), FULL_WEIGHT, dtype=np.int64)  # noqa: E731
    monkeypatch.setattr(measurement, "weights", whole)
    found = audit(measured, PAIR, Pure(epsilon=Fraction(2)), entropy=SeededEntropy(2), draws=600)
    assert found.violated
