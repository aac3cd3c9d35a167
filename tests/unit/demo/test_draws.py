from __future__ import annotations

import numpy as np
import pytest

from sfumato.demo.draws import WeightedChoice, bell, below, bits, uniform

COUNTERS = np.arange(100_000, dtype=np.uint64)


def test_mixing_is_the_published_finalizer() -> None:
    """Undone in integers, the bits of two neighbours are one golden step apart."""
    mask = (1 << 64) - 1
    golden = 0x9E3779B97F4A7C15
    first, second = bits("age", np.array([5, 6], dtype=np.uint64)).tolist()

    def unmix(mixed: int) -> int:
        mixed = _unshift(mixed, 31)
        mixed = _unshift(mixed * pow(0x94D049BB133111EB, -1, 1 << 64) & mask, 27)
        return _unshift(mixed * pow(0xBF58476D1CE4E5B9, -1, 1 << 64) & mask, 30)

    assert (unmix(second) - unmix(first)) & mask == golden


def _unshift(mixed: int, by: int) -> int:
    inverse = mixed
    for _ in range(64 // by + 1):
        inverse = mixed ^ (inverse >> by)
    return inverse


def test_facts_have_streams_of_their_own() -> None:
    one, other = uniform("age", COUNTERS), uniform("sex", COUNTERS)
    # A fixed computation, not a random one; independent streams correlate by about 0.003.
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.015


def test_uniform_fills_the_unit_interval_evenly() -> None:
    draws = uniform("age", COUNTERS)
    assert draws.min() >= 0
    assert draws.max() < 1
    counts = np.histogram(draws, bins=100, range=(0, 1))[0]
    # Chi-square with 99 degrees of freedom stays below 178 but for one time in a million.
    assert ((counts - 1000) ** 2 / 1000).sum() < 178


def test_below_and_bell_stay_in_their_ranges() -> None:
    assert set(below("day", COUNTERS, 7).tolist()) == set(range(7))
    values = bell("salary", COUNTERS)
    assert abs(values.mean()) < 0.02
    assert 0.9 < values.std() < 1.05
    assert np.abs(values).max() < 5.1


@pytest.mark.parametrize("group", [0, 1, 2])
def test_choice_follows_the_weights_of_its_group(group: int) -> None:
    weights = np.array([[1.0, 0, 3], [0, 0, 2], [1, 1, 0]])
    chosen = WeightedChoice(weights)("thing", COUNTERS, np.full(len(COUNTERS), group))
    shares = np.bincount(chosen, minlength=3) / len(COUNTERS)
    assert (shares[weights[group] == 0] == 0).all()
    assert shares == pytest.approx(weights[group] / weights[group].sum(), abs=0.008)
