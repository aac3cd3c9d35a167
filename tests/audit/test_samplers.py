"""Every sampler follows its exact law: chi-square over a million draws, and the test has power.

Each test rejects the truth with probability 1e-6, and must reject a scale that is 5 % off.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import stats
from tests.fixtures.statistics import FALSE_ALARM

from sfumato.privacy.noise.discrete import discrete_gaussian, discrete_laplace, geometric
from sfumato.privacy.noise.exponential import bernoulli_exp
from sfumato.privacy.noise.selection import choose
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

DRAWS = 1_000_000


def laplace_weights(values: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    return np.exp(-np.abs(values) / scale)


def gaussian_weights(values: NDArray[np.float64], stddev: float) -> NDArray[np.float64]:
    return np.exp(-(values**2) / (2 * stddev**2))


def geometric_weights(values: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    return np.where(values >= 0, np.exp(-np.abs(values) / scale), 0.0)


def p_value(
    drawn: NDArray[np.int64], weights: Callable[..., NDArray[np.float64]], scale: float
) -> float:
    """Chi-square of draws against a law given by its weights, in about 200 cells."""
    reach = int(45 * scale) + 50
    values = np.arange(-reach, reach + 1, dtype=np.float64)
    law = weights(values, scale)
    law /= law.sum()
    cells = np.minimum((np.cumsum(law) * 200).astype(int), 199)
    observed = np.bincount(cells[drawn + reach], minlength=200)
    expected = np.bincount(cells, weights=law, minlength=200) * len(drawn)
    used = expected > 5
    rest_observed = observed[~used].sum()
    rest_expected = expected[~used].sum()
    statistic = ((observed[used] - expected[used]) ** 2 / expected[used]).sum()
    if rest_expected > 0:
        statistic += (rest_observed - rest_expected) ** 2 / max(rest_expected, 1.0)
    return float(stats.chi2.sf(statistic, used.sum()))


@pytest.mark.parametrize("scale", ["1/3", "1", "10", "1000"])
@pytest.mark.parametrize(
    ("draw", "weights"),
    [(geometric, geometric_weights), (discrete_laplace, laplace_weights)],
    ids=["geometric", "laplace"],
)
def test_laplace_and_geometric_follow_their_law(
    scale: str,
    draw: Callable[..., NDArray[np.int64]],
    weights: Callable[..., NDArray[np.float64]],
) -> None:
    drawn = draw(Fraction(scale), DRAWS, SeededEntropy(1))
    assert p_value(drawn, weights, float(Fraction(scale))) > FALSE_ALARM
    assert p_value(drawn, weights, 1.05 * float(Fraction(scale))) < FALSE_ALARM
    assert p_value(drawn, weights, 0.95 * float(Fraction(scale))) < FALSE_ALARM


@pytest.mark.parametrize("stddev", ["1/2", "1", "10", "1000"])
def test_gaussian_follows_its_law(stddev: str) -> None:
    drawn = discrete_gaussian(Fraction(stddev) ** 2, DRAWS, SeededEntropy(2))
    assert p_value(drawn, gaussian_weights, float(Fraction(stddev))) > FALSE_ALARM
    assert p_value(drawn, gaussian_weights, 1.05 * float(Fraction(stddev))) < FALSE_ALARM


@pytest.mark.parametrize("power", [40, 60])
def test_large_scales_follow_the_continuous_law(power: int) -> None:
    """Divided by the scale, draws are Laplace or Gaussian up to 2^-40: Kolmogorov-Smirnov."""
    scale = 1 << power
    drawn = discrete_laplace(Fraction(scale), DRAWS // 5, SeededEntropy(3)).astype(np.float64)
    assert stats.kstest(drawn / scale, "laplace").pvalue > FALSE_ALARM
    assert stats.kstest(drawn / scale / 1.05, "laplace").pvalue < FALSE_ALARM
    normal = discrete_gaussian(Fraction(scale) ** 2, DRAWS // 5, SeededEntropy(4)).astype(float)
    assert stats.kstest(normal / scale, "norm").pvalue > FALSE_ALARM
    assert stats.kstest(normal / scale / 1.05, "norm").pvalue < FALSE_ALARM


def test_coins_come_up_with_exponential_chance() -> None:
    gaps = np.repeat(np.arange(6), DRAWS // 6)
    heads = bernoulli_exp(gaps, rate=Fraction(2, 5), entropy=SeededEntropy(5))
    for gap in range(1, 6):
        shown = int(heads[gaps == gap].sum())
        chance = np.exp(-0.4 * gap)
        assert stats.binomtest(shown, DRAWS // 6, chance).pvalue > FALSE_ALARM
        assert stats.binomtest(shown, DRAWS // 6, np.exp(-0.42 * gap)).pvalue < FALSE_ALARM


def test_choices_have_the_chances_of_the_exponential_mechanism() -> None:
    scores = np.array([0, 2, 5, 5, -1000])
    weights = [Fraction(3), Fraction(1), Fraction(1, 7), Fraction(1), Fraction(1)]
    rows = np.broadcast_to(scores, (DRAWS // 4, 5))
    chosen = choose(rows, rate=Fraction(1, 4), weights=weights, entropy=SeededEntropy(6))
    counts = np.bincount(chosen, minlength=5)
    law = np.array([float(w) for w in weights]) * np.exp(0.25 * (scores - 5))
    expected = law / law.sum() * len(chosen)
    assert counts[4] == 0
    assert stats.chisquare(counts[:4], expected[:4]).pvalue > FALSE_ALARM
    wrong = np.exp(0.25 * (scores - 5))
    assert (
        stats.chisquare(counts[:4], (wrong / wrong[:4].sum() * len(chosen))[:4]).pvalue
        < FALSE_ALARM
    )
