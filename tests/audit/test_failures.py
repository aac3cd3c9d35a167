"""Ways in which systems like this one turned out not to be private, tried on our mechanisms."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.privacy.accounting.losses import Pure
from sfumato.privacy.mechanisms.gaussian import Gaussian
from sfumato.privacy.mechanisms.laplace import Geometric, Laplace
from sfumato.testing.audit.features import on_grid
from sfumato.testing.audit.verdict import audit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.privacy.noise.entropy import Entropy

GRANULE = Fraction(1, 1 << 10)
DRAWS = 100_000
MECHANISMS = [
    Laplace(epsilon=Fraction(1), l1_sensitivity=Fraction(1), granule=GRANULE),
    Gaussian(rho=Fraction(1, 2), l2_sensitivity_squared=Fraction(1), granule=GRANULE),
]


def floats(mechanism: Any, truth: float, seed: int) -> NDArray[np.float64]:
    steps = np.full(DRAWS, int(truth * (1 << 10)))
    drawn: NDArray[np.float64] = mechanism.sample(steps, SeededEntropy(seed))
    return drawn


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=["laplace", "gaussian"])
@pytest.mark.parametrize("truth", [0.0, 1.0, 2.0**40], ids=["0", "1", "2^40"])
def test_F3_F4_every_bit_below_the_granule_is_zero_whatever_the_truth(
    mechanism: Any, truth: float
) -> None:
    """Least significant bits and precision: outputs lie on the public grid, all of them."""
    drawn = floats(mechanism, truth, seed=1)
    assert on_grid(drawn, float(GRANULE)).all()
    assert len(np.unique(drawn)) > 1000


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=["laplace", "gaussian"])
def test_F4_the_precision_of_an_output_does_not_tell_the_truth(mechanism: Any) -> None:
    """How fine an output is: outputs near 0 and near 1 are on finer grids equally often.

    Shares of outputs that are whole multiples of 4 granules differ by less than 5 standard
    deviations of 0.0019 where the truth moves from 0 to 1.
    """
    coarse = [
        on_grid(floats(mechanism, truth, seed), 4 * float(GRANULE)).mean()
        for seed, truth in enumerate((0.0, 1.0), start=2)
    ]
    assert abs(coarse[0] - coarse[1]) < 5 * 0.0019


def test_F4_a_float_mechanism_fails_the_same_test() -> None:
    draw = np.random.default_rng(3)
    noisy = 1.0 + draw.laplace(0.0, 1.0, DRAWS)
    assert not on_grid(noisy, float(GRANULE)).all()


def test_F8_the_auditor_passes_the_claim_and_catches_half_the_noise() -> None:
    def run(epsilon: Fraction) -> Any:
        def mechanism(value: int, draws: int, entropy: Entropy) -> NDArray[Any]:
            return Geometric(epsilon=epsilon).sample(np.full(draws, value), entropy)

        return mechanism

    claim = Pure(epsilon=Fraction(1))
    right = audit(run(Fraction(1)), (0, 1), claim, entropy=SeededEntropy(4))
    halved = audit(run(Fraction(2)), (0, 1), claim, entropy=SeededEntropy(5))
    assert not right.violated, right.sentence()
    assert right.power >= 0.85
    assert halved.violated, halved.sentence()
