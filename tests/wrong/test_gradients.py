"""Planted mistakes in noisy gradients, each of which the audit must catch."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.audit.test_gradients import WITH, WITHOUT, violated
from tests.unit.methods.learn.learnt import planned

from sfumato.methods.learn.features import GRID
from sfumato.methods.learn.gradients import ONE
from sfumato.privacy.accounting.losses import Pure
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.testing.audit import audit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.privacy.noise.entropy import Entropy

EPSILON = Fraction(2)


def test_noise_for_one_coordinate_of_a_row_is_found() -> None:
    """Twin: the sensitivity of (p - y) alone, as if a row had one coordinate."""
    claim = Pure(epsilon=EPSILON)
    right = planned("logistic", 2).method.gradient.l1_sensitivity  # type: ignore[attr-defined]
    assert not violated(Geometric(epsilon=EPSILON, l1_sensitivity=right), "gradient", claim, seed=3)
    wrong = Geometric(epsilon=EPSILON, l1_sensitivity=Fraction(ONE * GRID))
    assert violated(wrong, "gradient", claim, seed=4)


@pytest.mark.parametrize("reused", [False, True])
def test_noise_of_a_round_that_is_used_again_is_found(*, reused: bool) -> None:
    """Twin: two rounds at half the price each, with one draw of noise for both.

    The difference of the two answers then has no noise, and shows the rows themselves.
    """
    right = planned("logistic", 2).method.gradient.l1_sensitivity  # type: ignore[attr-defined]
    noise = Geometric(epsilon=EPSILON / 2, l1_sensitivity=right)
    # The second round is at other coefficients, at which the row in question adds half as much.
    rounds = [(one["gradient"], one["gradient"] // 2) for one in (WITH, WITHOUT)]

    def outputs(sums: Any, draws: int, entropy: Entropy) -> NDArray[Any]:
        first = noise.steps(np.tile(sums[0], (draws, 1)), entropy)
        fresh = noise.steps(np.tile(sums[1], (draws, 1)), entropy)
        second = first - sums[0] + sums[1] if reused else fresh
        middle = (rounds[0][0] - rounds[0][1] + rounds[1][0] - rounds[1][1]) / 2
        moves = np.sign((rounds[0][0] - rounds[1][0]).astype(np.float64))
        return np.asarray((((first - second) - middle) * moves > 0).sum(axis=1))

    pair = (rounds[0], rounds[1])
    found = audit(outputs, pair, Pure(epsilon=EPSILON), entropy=SeededEntropy(5), draws=20_000)
    assert found.violated == reused
