"""Figures of local frequency oracles: variances as published, and what a report realises."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.methods import local

K = 1024
EPSILONS: list[Any] = ["0.5", "1", "log(3)", "2", "4"]
# n times the variance of a rare value's share, k = 1024, at epsilon 0.5, 1, 2 and 4.
VARIANCES = {
    "k-ary": (2432.4, 347.07, 25.218, 0.37476),
    "sue": (15.917, 3.9177, 0.92067, 0.18102),
    "oue": (15.671, 3.6827, 0.72406, 0.076022),
    "olh": (15.817, 3.6917, 0.72459, 0.076023),
    "subset": (15.638, 3.6736, 0.72070, 0.073908),
    "hadamard": (16.671, 4.6827, 1.7241, 1.0760),
}
SMALL: dict[str, dict[str, Any]] = {
    "k-ary": {},
    "grid": {"columns": 3},
    "sue": {},
    "oue": {},
    "rappor": {"bits": 6, "cohorts": 3},
    "olh": {},
    "subset": {},
    "hadamard": {},
    "apple-cms": {"rows": 2, "columns": 8},
    "apple-hcms": {"rows": 2, "columns": 8},
}


@pytest.mark.parametrize("name", VARIANCES)
def test_variances_are_those_published(name: str) -> None:
    for epsilon, expected in zip((0.5, 1.0, 2.0, 4.0), VARIANCES[name], strict=True):
        found = local.oracle(name, K, epsilon=epsilon).variance(1)
        assert found == pytest.approx(expected, rel=5e-5)


def test_warner_is_as_published() -> None:
    assert local.oracle("warner", 2, epsilon=1).variance(1) == pytest.approx(0.92067, rel=1e-5)
    for share in (0.0, 0.3, 1.0):  # whatever the true share
        oracle = local.oracle("warner", 2, epsilon=1)
        assert oracle.variance(1, share) == pytest.approx(0.92067, rel=1e-5)
    coin = local.oracle("warner", ["yes", "no"], epsilon=local.log(3))
    assert coin.p == Fraction(3, 4)  # type: ignore[attr-defined]


def test_the_true_cell_of_a_grid_of_ten_by_ten_is_said_with_three_in_hundred_and_two() -> None:
    oracle: Any = local.oracle("k-ary", 100, epsilon=local.log(3))
    assert (oracle.p, oracle.q) == (Fraction(3, 102), Fraction(1, 102))
    assert oracle.ratio == oracle.channel().ratio == 3


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", SMALL)
def test_a_report_realises_what_it_claims(name: str, epsilon: str) -> None:
    """By the whole matrix of chances, which also sum to 1 exactly."""
    oracle = local.oracle(name, 6, epsilon=epsilon, **SMALL[name])
    channel = oracle.channel()
    assert {sum(row) for row in channel.weights.tolist()} == {channel.total}
    ratio = channel.ratio
    assert ratio is not None
    assert ratio == oracle.ratio
    assert oracle.epsilon.allows(ratio)  # proven, not computed nearly
    assert math.log(ratio) == pytest.approx(float(oracle.epsilon), rel=1e-9)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_warner_realises_what_it_claims(epsilon: str) -> None:
    oracle = local.oracle("warner", 2, epsilon=epsilon)
    assert oracle.channel().ratio == oracle.ratio
    assert oracle.epsilon.allows(oracle.ratio)
    assert oracle.realised == pytest.approx(float(oracle.epsilon), rel=1e-12)


def test_hadamard_with_blocks_realises_what_it_claims() -> None:
    for blocks in (2, 4):
        oracle = local.oracle("hadamard", 6, epsilon=2, blocks=blocks)
        assert oracle.channel().ratio == oracle.ratio


def test_rappor_is_as_published() -> None:
    """f = 1/2, p = 1/2, q = 3/4, two hashes."""
    oracle: Any = local.oracle("rappor", 6, epsilon=local.log(81), bits=6, cohorts=3)
    assert oracle.f == Fraction(1, 2)
    assert (oracle.often, oracle.seldom) == (Fraction(11, 16), Fraction(9, 16))
    assert oracle.realised == pytest.approx(4.39445, rel=1e-5)
    assert oracle.one_report == pytest.approx(1.07429, rel=1e-5)
    assert oracle.one_report_channel().epsilon == pytest.approx(oracle.one_report)


def test_on_a_square_grid_half_of_the_scale_would_be_wasted() -> None:
    """exp(-epsilon d / 2D) realises about half of epsilon, D the largest distance."""
    oracle: Any = local.oracle("grid", 100, epsilon=local.log(3))
    diameter = math.hypot(9, 9)
    assert float(oracle.scale) == pytest.approx(math.log(3) / diameter, rel=1e-6)
    half = local.oracle("grid", 100, epsilon=local.log(3), scale=float(oracle.scale) / 2)
    assert half.realised < 0.56 * math.log(3)


TRUTH = np.array([0.3, 0.5, 0.0, 0.2])


def estimates(name: str, runs: int, options: dict[str, Any]) -> Any:
    """Estimated shares of 1,000 people in many runs; of sketches each has other hashes."""
    values = np.repeat([0, 1, 3], [300, 500, 200])
    if "rows" in options:
        oracles = [local.oracle(name, 4, epsilon=1, seed=run, **options) for run in range(runs)]
        rows = [oracle.randomize(values).rows for oracle in oracles]
    else:
        oracles = [local.oracle(name, 4, epsilon=1, **options)] * runs
        rows = np.split(oracles[0].randomize(np.tile(values, runs)).rows, runs)
    return np.array(
        [oracle._shares(oracle.sum_rows(own)) for oracle, own in zip(oracles, rows, strict=True)]
    )


@pytest.mark.parametrize("name", [*SMALL, "blocks"])
def test_estimates_are_unbiased_and_as_far_off_as_told(name: str) -> None:
    """Fresh randomness; means within 6 standard errors, and variances within 6 of theirs."""
    options = {"blocks": 2} if name == "blocks" else dict(SMALL[name])
    options.pop("columns" if name == "grid" else "", None)
    name = "hadamard" if name == "blocks" else name
    runs = 600
    found, truth = estimates(name, runs, options), TRUTH
    oracle: Any = local.oracle(name, 4, epsilon=1, **options)
    squares = (truth**2).sum()
    for at, share in enumerate(truth):
        if name in {"apple-cms", "apple-hcms"}:
            expected = oracle.variance(1000, share, squares - share**2)
        elif name == "grid":
            chances = oracle.channel().probabilities()
            inverse = np.linalg.inv(chances.T)
            expected = ((inverse[at] ** 2) @ (chances.T @ truth) - share) / 1000
        elif name == "rappor":
            expected = oracle._spread(truth)[at] / 1000
        elif options.get("blocks"):
            expected = oracle.variance(1000, share, truth[at % 2 :: 2].sum())
        else:
            expected = oracle.variance(1000, share)
        off = abs(found[:, at].mean() - share) / math.sqrt(expected / runs)
        assert off < 6, (at, off)
        ratio = found[:, at].var() / expected
        assert abs(ratio - 1) < 6 * math.sqrt(2 / runs), (at, ratio)
