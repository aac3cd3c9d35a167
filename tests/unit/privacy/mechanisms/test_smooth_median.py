"""The smooth-sensitivity median: its sensitivity, its noise, and what it refuses."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.data.schema.unit import Neighbours, Rows
from sfumato.errors import ParameterError
from sfumato.privacy.accounting.events import ApproxEvent, PureEvent
from sfumato.privacy.mechanisms.quantile import Counted, Quantile
from sfumato.privacy.mechanisms.smooth_median import SmoothMedian
from sfumato.privacy.noise import discrete
from sfumato.privacy.noise.discrete import rounded_cauchy
from sfumato.testing.audit import fit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

ONE = Fraction(1)
DELTA = Fraction(1, 10**6)
DRAWS = 100_000


def cauchy_mass(points: NDArray[Any], scale: float) -> NDArray[np.float64]:
    ends = np.arctan(np.stack((points - 0.5, points + 0.5)) / scale) / math.pi
    return np.asarray(ends[1] - ends[0])


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(7)])
def test_rounded_cauchy_has_its_law(scale: Fraction) -> None:
    draws = rounded_cauchy(scale, DRAWS, SeededEntropy(1))
    # Far out cells of a Cauchy are rare and wide apart: look at the middle, the rest is one cell.
    near = np.clip(draws, -300, 300).astype(np.int64)

    def mass(points: NDArray[np.int64]) -> NDArray[np.float64]:
        law = cauchy_mass(points, float(scale))
        tail = 0.5 - math.atan(299.5 / float(scale)) / math.pi
        return np.where(np.abs(points) == 300, tail, law)

    assert fit(near, mass).p_value > 1e-6


def test_rounded_cauchy_is_the_same_when_every_draw_is_decided_exactly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Floating point only decides sooner what whole numbers decide: shut it off and compare."""

    class Long(SeededEntropy):
        """Bits beyond the first come from elsewhere, so that both ways read the same first ones."""

        def words(self, count: int) -> NDArray[np.uint64]:
            return super().words(count) if count > 1 else np.array([2**63], dtype=np.uint64)

    quick = rounded_cauchy(Fraction(1000, 7), 2_000, Long(2))
    monkeypatch.setattr(discrete, "_LARGEST_FLOAT", 0.0)
    exact = rounded_cauchy(Fraction(1000, 7), 2_000, Long(2))
    assert np.array_equal(quick, exact)


def test_huge_cauchy_draws_do_not_overflow() -> None:
    draws = rounded_cauchy(Fraction(2**62), 5_000, SeededEntropy(3))
    assert draws.dtype == object
    assert max(abs(int(draw)) for draw in draws) > 2**63
    assert rounded_cauchy(ONE, 0, SeededEntropy(3)).size == 0


def test_points_at_the_rim_are_decided_by_more_bits() -> None:
    rim = np.array([2**53 - 1, 0, int(2**53 * math.sqrt(0.5))])
    inside = discrete._inside_disk(rim, rim[::-1].copy(), SeededEntropy(4))
    assert inside.shape == (3,)
    assert not discrete._inside_exactly(2**53 - 1, 2**53 - 1, SeededEntropy(4))
    assert discrete._inside_exactly(1, 1, SeededEntropy(4))


def test_laplace_noise_of_the_known_sensitivity() -> None:
    """Equal rows at an end: S = (size - 1) exp(-beta (distance to the other end))."""
    mechanism = SmoothMedian(epsilon=ONE, delta=DELTA, rows=3, size=101, resolution=4)
    table = np.array([0, 0, 0])
    beta = 1 / (2 * math.log(2e6))
    expected = 100 * math.exp(-beta)  # the top of the range stands at 3, the median at 1
    assert mechanism.smooth_sensitivity(table) == pytest.approx(expected, rel=1e-8)
    assert float(mechanism.beta) == pytest.approx(beta, rel=1e-12)
    assert mechanism.beta <= Fraction(beta) * (1 + Fraction(1, 2**50))


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), ONE, Fraction(5), Fraction(10), Fraction(50)])
@pytest.mark.parametrize("delta", [Fraction(1, 2), Fraction(1, 100), DELTA, Fraction(1, 10**12)])
def test_beta_keeps_the_tail_of_laplace_noise_within_delta(
    epsilon: Fraction, delta: Fraction
) -> None:
    """What stretching by e^beta costs beyond epsilon / 2 has probability at most delta."""
    beta = float(SmoothMedian(epsilon=epsilon, delta=delta, rows=3, size=5).beta)
    reach = (float(epsilon) / 2 + beta) / math.expm1(beta)
    assert math.exp(-reach) <= float(delta)
    assert beta <= float(epsilon) / (2 * math.log(2 / float(delta))) * (1 + 1e-12)


@pytest.mark.parametrize("delta", [Fraction(0), DELTA])
def test_release_is_centred_and_scaled(delta: Fraction) -> None:
    rows, size = 201, 10_001
    mechanism = SmoothMedian(epsilon=ONE, delta=delta, rows=rows, size=size)
    table = np.arange(rows) * 3 + 4000
    spread = 2 * mechanism.smooth_sensitivity(table)
    answers = mechanism.sample(np.broadcast_to(table, (50_000, rows)), SeededEntropy(5))
    assert np.median(answers) == pytest.approx(4300, abs=0.05 * spread + 1)
    middle = np.abs(answers - 4300)
    median_of_size = spread * (math.log(2) if delta else 1.0)
    assert np.median(middle) == pytest.approx(median_of_size, rel=0.05)


def test_tables_of_one_call_keep_their_places() -> None:
    mechanism = SmoothMedian(epsilon=Fraction(10), rows=101, size=1001)
    tables = np.repeat(np.array([[10], [900], [10]]), 101, axis=1)
    assert mechanism.sample(tables, SeededEntropy(6)).tolist() == [10, 900, 10]
    assert mechanism.sample(np.zeros((0, 101), dtype=np.int64), SeededEntropy(6)).size == 0


def test_values_outside_are_moved_and_order_does_not_matter() -> None:
    mechanism = SmoothMedian(epsilon=ONE, rows=5, size=11)
    first = mechanism.sample(np.array([[-5, 3, 99, 4, 2]]), SeededEntropy(7))
    second = mechanism.sample(np.array([[4, 10, 0, 2, 3]]), SeededEntropy(7))
    assert np.array_equal(first, second)


def test_noise_never_vanishes() -> None:
    """A million equal rows have no sensitivity to speak of, and still there is some noise."""
    mechanism = SmoothMedian(epsilon=ONE, rows=100_001, size=3)
    assert mechanism.smooth_sensitivity(np.ones(100_001, dtype=np.int64)) > 0


def test_smooth_median_against_the_exponential_one_on_well_spread_rows() -> None:
    """Both medians of the same rows; the smooth one claims only replace-one."""
    rows = np.arange(2001)
    smooth = SmoothMedian(epsilon=ONE, delta=DELTA, rows=2001, size=2001)
    spread = smooth.sample(np.broadcast_to(rows, (500, 2001)), SeededEntropy(8)) - 1000
    choose = Quantile(
        epsilon=ONE, rank=Fraction(1, 2), size=2001, unit=Rows(relation=Neighbours.REPLACE_ONE)
    )
    one = Counted.of(rows)
    chosen = choose.sample(
        Counted(
            np.tile(one.points, 500), np.tile(one.counts, 500), np.repeat(np.arange(500), 2001), 500
        ),
        SeededEntropy(9),
    )
    assert np.abs(chosen - 1000).mean() < np.abs(spread).mean() < 200


def test_costs_and_bounds() -> None:
    pure = SmoothMedian(epsilon=ONE, rows=5, size=11)
    assert pure.event == PureEvent(epsilon=ONE)
    approximate = SmoothMedian(epsilon=ONE, delta=DELTA, rows=5, size=11)
    assert approximate.event == ApproxEvent(epsilon=ONE, delta=DELTA)
    assert pure.bound(0.01) == approximate.bound(0.01) == 10
    loose = SmoothMedian(epsilon=Fraction(100), delta=DELTA, rows=5, size=11)
    assert loose.bound(0.05) == pytest.approx(0.2 * math.log(20))
    assert SmoothMedian(epsilon=Fraction(100), rows=5, size=11).bound(0.5) == pytest.approx(0.2)


def test_refusals() -> None:
    with pytest.raises(ParameterError) as caught:
        SmoothMedian(epsilon=ONE, rows=5, size=11, relation=Neighbours.ADD_REMOVE)
    assert caught.value.code == "unit_unsupported"
    with pytest.raises(ParameterError) as caught:
        SmoothMedian(epsilon=Fraction(1, 10**10), rows=5, size=11)
    assert caught.value.code == "parameter_out_of_range"
    with pytest.raises(ParameterError) as caught:
        SmoothMedian(epsilon=ONE, rows=5, size=11).sample([[1, 2, 3]], SeededEntropy(10))
    assert caught.value.code == "parameter_out_of_range"
    with pytest.raises(ParameterError):
        SmoothMedian(epsilon=ONE, rows=5, size=11, delta=ONE)
