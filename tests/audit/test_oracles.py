"""Other libraries as oracles: the same parameters give the same law and the same declared loss."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.privacy.mechanisms.gaussian import Gaussian
from sfumato.privacy.mechanisms.laplace import Geometric, Laplace
from sfumato.privacy.mechanisms.randomized_response import RandomizedResponse
from sfumato.privacy.mechanisms.selection import Exponential, PermuteAndFlip
from sfumato.testing.audit import fit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

DRAWS = 10_000
FEW = 3_000


@pytest.fixture(scope="module")
def opendp() -> Any:
    prelude = pytest.importorskip("opendp.prelude")
    prelude.enable_features("contrib")
    return prelude


def same_law(first: NDArray[Any], second: NDArray[Any]) -> bool:
    """Compare two samples: fit the smaller to the smoothed frequencies of ten times as many."""
    low, high = int(min(first.min(), second.min())), int(max(first.max(), second.max()))
    counts = np.bincount(second - low, minlength=high - low + 1)
    mass = (counts + 1e-3) / (counts + 1e-3).sum()
    found = fit(first, lambda points: mass[points - low])
    # The reference has a tenth of the sample's variance, which inflates chi-square by 1.1. Laurent
    # & Massart 2000: it exceeds k + 2 sqrt(14 k) + 28 with probability at most exp(-14) < 1e-6.
    freedom = found.freedom
    return found.statistic / 1.1 < freedom + 2 * math.sqrt(14 * freedom) + 28


def test_geometric_agrees_with_opendp(opendp: Any) -> None:
    space = opendp.vector_domain(opendp.atom_domain(T=int)), opendp.l1_distance(T=int)
    theirs = opendp.m.make_geometric(*space, 4.0)
    ours = Geometric(epsilon=Fraction(1, 2), l1_sensitivity=Fraction(2))
    assert theirs.map(2) == pytest.approx(float(ours.event.epsilon))
    drawn = ours.sample(np.zeros(10 * DRAWS, dtype=np.int64), SeededEntropy(1))
    assert same_law(np.array(theirs([0] * DRAWS)), drawn)
    wrong = Geometric(epsilon=Fraction(3, 5), l1_sensitivity=Fraction(2))
    other = wrong.sample(np.zeros(10 * DRAWS, dtype=np.int64), SeededEntropy(2))
    assert not same_law(np.array(theirs([0] * DRAWS)), other)


def test_gaussian_agrees_with_opendp(opendp: Any) -> None:
    space = opendp.vector_domain(opendp.atom_domain(T=int)), opendp.l2_distance(T=float)
    theirs = opendp.m.make_gaussian(*space, 3.0)
    ours = Gaussian(rho=Fraction(1, 18))
    assert theirs.map(1.0) == pytest.approx(float(ours.event.rho))
    drawn = ours.steps(np.zeros(10 * DRAWS, dtype=np.int64), SeededEntropy(3))
    assert same_law(np.array(theirs([0] * DRAWS)), drawn)


@pytest.mark.parametrize(
    ("ours", "measure"),
    [
        (PermuteAndFlip(epsilon=Fraction(1), candidates=4), "max_divergence"),
        (Exponential(epsilon=Fraction(1), candidates=4), "zero_concentrated_divergence"),
    ],
    ids=["permute-and-flip", "exponential"],
)
def test_selection_agrees_with_opendp(opendp: Any, ours: Any, measure: str) -> None:
    """Their noisy max has exponential noise for a pure loss and Gumbel noise for a concentrated."""
    space = opendp.vector_domain(opendp.atom_domain(T=int)), opendp.linf_distance(T=int)
    theirs = opendp.m.make_noisy_max(*space, getattr(opendp, measure)(), 2.0)
    assert theirs.map(1) == pytest.approx(1.0 if measure == "max_divergence" else 1 / 8)
    scores = [0, 3, 1, 2]
    drawn = ours.sample(np.broadcast_to(scores, (10 * FEW, 4)), SeededEntropy(4))
    assert same_law(np.array([theirs(scores) for _ in range(FEW)]), drawn)


def test_randomized_response_agrees_with_opendp(opendp: Any) -> None:
    ours = RandomizedResponse(epsilon=Fraction(3, 2), categories=4)
    theirs = opendp.m.make_randomized_response([0, 1, 2, 3], ours.truth)
    assert theirs.map(1) == pytest.approx(1.5)
    drawn = ours.sample(np.full(10 * FEW, 2), SeededEntropy(5))
    assert same_law(np.array([theirs(2) for _ in range(FEW)]), drawn)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:pydp")
def test_laplace_agrees_with_python_dp() -> None:
    mechanisms = pytest.importorskip("pydp.algorithms.numerical_mechanisms")
    theirs = mechanisms.LaplaceMechanism(epsilon=0.5, sensitivity=1.0)
    ours = Laplace(epsilon=Fraction(1, 2), l1_sensitivity=Fraction(1), granule=Fraction(1, 16))
    drawn = ours.sample(np.zeros(10 * DRAWS, dtype=np.int64), SeededEntropy(6))
    added = np.array([theirs.add_noise(0.0) for _ in range(DRAWS)])
    halves = [np.floor(values * 2 + 0.5).astype(np.int64) for values in (added, drawn)]
    assert same_law(halves[0], halves[1])
