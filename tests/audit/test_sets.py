"""Releases of items keep what they claim, as a whole; planted wrong ones do not."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.methods.itemsets.counts import KeyNoise
from sfumato.privacy.accounting.losses import Approx
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.mechanisms.threshold_keys import ThresholdKeys
from sfumato.testing.audit import audit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.privacy.noise.entropy import Entropy

    Told = Callable[[NDArray[np.int64], Entropy], tuple[NDArray[Any], NDArray[Any]]]

ROWS = 3
EPSILON, DELTA = Fraction(2), Fraction(1, 100)
ABSENT = -(10**6)


def chosen(epsilon: Fraction) -> KeyNoise:
    """The choice of queries of a log in which a person has three rows."""
    noise = Geometric(epsilon=epsilon, l1_sensitivity=Fraction(ROWS))
    return KeyNoise(noise, ThresholdKeys(noise=noise, delta=DELTA, max_groups=ROWS, max_count=ROWS))


def as_log(choice: KeyNoise, noise: Geometric) -> Told:
    """What a search log tells, of a choice and of noise for counts."""

    def told(counts: NDArray[np.int64], entropy: Entropy) -> tuple[NDArray[Any], NDArray[Any]]:
        places, _ = choice.sample(counts, entropy)
        return places, noise.steps(counts[places], entropy)

    return told


def run(told: Told) -> Callable[[int, int, Entropy], NDArray[Any]]:
    """A query of so many rows, told of or not, many times."""

    def outputs(rows: int, count: int, entropy: Entropy) -> NDArray[Any]:
        seen = np.full(count, ABSENT)
        if rows:
            places, noisy = told(np.full(count, rows), entropy)
            seen[places] = noisy
        return seen

    return outputs


def halves() -> Told:
    half = EPSILON / 2
    return as_log(chosen(half), Geometric(epsilon=half, l1_sensitivity=Fraction(ROWS)))


@pytest.mark.parametrize("rows", [3, 12, 25])
def test_a_search_log_keeps_its_price(rows: int) -> None:
    claim = Approx(epsilon=EPSILON, delta=DELTA)
    found = audit(run(halves()), (rows, rows - ROWS), claim, entropy=SeededEntropy(1))
    assert not found.violated, found.sentence()


def test_counts_for_which_nobody_paid_are_caught() -> None:
    """The threshold pays for the choice alone: fresh counts at the full epsilon are not free."""
    wrong = as_log(chosen(EPSILON), Geometric(epsilon=EPSILON, l1_sensitivity=Fraction(ROWS)))
    claim = Approx(epsilon=EPSILON, delta=DELTA)
    level = chosen(EPSILON).threshold
    assert level is not None
    pair = (level.threshold - 1, level.threshold - 1 - ROWS)
    found = audit(run(wrong), pair, claim, entropy=SeededEntropy(2))
    assert found.violated, found.sentence()


def test_a_threshold_for_less_noise_than_is_added_is_caught() -> None:
    right = chosen(EPSILON)
    assert right.threshold is not None
    louder = Geometric(epsilon=EPSILON / 2, l1_sensitivity=Fraction(ROWS))

    def wrong(counts: NDArray[np.int64], entropy: Entropy) -> tuple[NDArray[Any], NDArray[Any]]:
        assert right.threshold is not None
        noisy = louder.steps(counts, entropy)
        places = np.flatnonzero(noisy >= right.threshold.threshold)
        return places, noisy[places]

    claim = Approx(epsilon=EPSILON / 2, delta=DELTA)
    kept = replace(right.threshold, noise=louder)
    assert kept.threshold > right.threshold.threshold
    found = audit(run(wrong), (ROWS, 0), claim, entropy=SeededEntropy(3))
    assert found.violated
