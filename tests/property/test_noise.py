"""Laws of the samplers over many parameters: float and exact decisions agree, bounds hold."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.privacy.accounting.elementary import exp_down, exp_up, log_down, log_up
from sfumato.privacy.noise import exponential, selection
from sfumato.privacy.noise.discrete import _gaussian_trials, discrete_laplace, laplace_trials
from sfumato.privacy.noise.exponential import bernoulli_exp
from sfumato.privacy.noise.selection import choose, permutation, uniform_below
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

seeds = st.integers(0, 2**32)
scales = st.fractions(Fraction(1, 1000), 2**24).filter(lambda value: value > 0)
few = settings(max_examples=15, deadline=None)


def both_ways(draw: Callable[[], list[object]]) -> tuple[list[object], list[object]]:
    """The same draws with float bounds, and with bounds so wide that all are decided exactly."""
    fast = draw()
    kept = exponential.ERROR, exponential.EXP_ERROR, selection.MARGIN
    exponential.ERROR, exponential.EXP_ERROR, selection.MARGIN = 1e9, 1e9, 1e9
    try:
        return fast, draw()
    finally:
        exponential.ERROR, exponential.EXP_ERROR, selection.MARGIN = kept


@few
@given(scale=scales, seed=seeds)
def test_laplace_draws_decided_by_floats_are_those_decided_exactly(
    scale: Fraction, seed: int
) -> None:
    fast, exact = both_ways(lambda: laplace_trials(scale, 64, SeededEntropy(seed)).values.tolist())
    assert fast == exact


@few
@given(stddev=scales, seed=seeds)
def test_gaussian_draws_decided_by_floats_are_those_decided_exactly(
    stddev: Fraction, seed: int
) -> None:
    fast, exact = both_ways(
        lambda: _gaussian_trials(stddev**2, 64, SeededEntropy(seed)).values.tolist()
    )
    assert fast == exact


@few
@given(
    scores=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=6),
    rate=st.fractions(Fraction(1, 1000), 10),
    seed=seeds,
)
def test_choices_decided_by_floats_are_those_decided_exactly(
    scores: list[int], rate: Fraction, seed: int
) -> None:
    rows = np.array([scores] * 5, dtype=np.int64)
    fast, exact = both_ways(lambda: choose(rows, rate=rate, entropy=SeededEntropy(seed)).tolist())
    assert fast == exact
    wide = choose(rows.astype(object), rate=rate, entropy=SeededEntropy(seed)).tolist()
    assert fast == wide


def test_scores_at_both_ends_of_int64_do_not_wrap() -> None:
    rows = np.array([[-(2**63), 2**63 - 1]] * 50)
    assert choose(rows, rate=Fraction(1), entropy=SeededEntropy(1)).tolist() == [1] * 50


@few
@given(rate=st.fractions(0, 1000), seed=seeds)
def test_a_gap_of_zero_is_always_kept(rate: Fraction, seed: int) -> None:
    assert bernoulli_exp(np.zeros(2000, np.int64), rate=rate, entropy=SeededEntropy(seed)).all()


@few
@given(limits=st.lists(st.integers(1, 2**63), min_size=1, max_size=50), seed=seeds)
def test_uniform_integers_stay_below_their_limits(limits: list[int], seed: int) -> None:
    drawn = uniform_below(np.array(limits, dtype=np.uint64), SeededEntropy(seed)).tolist()
    assert all(0 <= value < limit for value, limit in zip(drawn, limits, strict=True))


@few
@given(size=st.integers(0, 3000), seed=seeds)
def test_a_permutation_has_every_place_once(size: int, seed: int) -> None:
    assert sorted(permutation(size, SeededEntropy(seed)).tolist()) == list(range(size))


@settings(max_examples=200, deadline=None)
@given(uniform=st.floats(2.0**-127, 1 - 2.0**-20), level=st.floats(0, 600))
def test_the_library_is_as_accurate_as_the_error_bounds_assume(
    uniform: float, level: float
) -> None:
    """In arrays of several lengths, as vectorised code takes other paths than scalars do."""
    point, share = Fraction(uniform), Fraction(1, 2**48)
    chances = exp_down(-Fraction(level), 120), exp_up(-Fraction(level), 120)
    for length in (1, 7, 1024):
        uniforms = np.full(length, uniform)
        for place in {0, length - 1}:
            for computed, argument in ((np.log(uniforms), point), (np.log1p(-uniforms), 1 - point)):
                low, high = log_down(argument, 200), log_up(argument, 200)
                allowed = -low * share
                assert low - allowed <= Fraction(float(computed[place])) <= high + allowed
            chance = Fraction(float(np.exp(-np.full(length, level))[place]))
            assert chances[0] * (1 - share) <= chance <= chances[1] * (1 + share)


def test_undecided_draws_do_not_favour_any_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decided exactly throughout, draws have the law of the definition, summed by brute force.

    Chi-square with 6 cells: above 36 with probability below 1e-6.
    """
    monkeypatch.setattr(exponential, "ERROR", 1e9)
    drawn = discrete_laplace(Fraction(3, 2), 6000, SeededEntropy(9))
    weights = {k: float(exp_down(Fraction(-2 * abs(k), 3))) for k in range(-60, 61)}
    total = sum(weights.values())
    statistic = 0.0
    rest_seen, rest_expected = 6000, 6000.0
    for k in (-2, -1, 0, 1, 2):
        seen, expected = int((drawn == k).sum()), 6000 * weights[k] / total
        statistic += (seen - expected) ** 2 / expected
        rest_seen, rest_expected = rest_seen - seen, rest_expected - expected
    assert statistic + (rest_seen - rest_expected) ** 2 / rest_expected < 36
