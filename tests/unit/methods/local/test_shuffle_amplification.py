"""Shuffled reports: the published figures, and the accountant against all outcomes."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import ParameterError
from sfumato.methods.local.shuffle_amplification import shuffle


def test_the_figures_of_the_paper() -> None:
    found = shuffle(epsilon=1, people=10_000, delta="1e-6")
    assert found.epsilon == pytest.approx(0.0530, abs=5e-5)
    assert found.closed_form == pytest.approx(0.2140, abs=5e-5)
    assert found.closed_form_limit == pytest.approx(math.log(1e4 / (16 * math.log(2e6))))


def by_hand(people: int, local: float, epsilon: float) -> float:
    """The divergence of the numbers of clones, over all outcomes."""
    chance, truth = math.exp(-local), math.exp(local) / (1 + math.exp(local))
    masses: dict[tuple[int, int], list[float]] = {}
    for clones in range(people):
        weight = math.comb(people - 1, clones) * chance**clones
        weight *= (1 - chance) ** (people - 1 - clones)
        for first in range(clones + 1):
            part = weight * math.comb(clones, first) / 2**clones
            for own, odds in ((1, (truth, 1 - truth)), (0, (1 - truth, truth))):
                pair = masses.setdefault((first + own, clones + 1 - first - own), [0.0, 0.0])
                pair[0] += part * odds[0]
                pair[1] += part * odds[1]
    return sum(max(p - math.exp(epsilon) * q, 0.0) for p, q in masses.values())


@pytest.mark.parametrize("people", [2, 3, 12, 40])
@pytest.mark.parametrize("local", [0.3, 1.0, 3.0])
def test_deltas_are_those_of_all_outcomes(people: int, local: float) -> None:
    found = shuffle(epsilon=local, people=people, delta="1e-6")
    for epsilon in (0.0, 0.1 * local, 0.5 * local, 0.9 * local):
        exact = by_hand(people, local, epsilon)
        assert exact - 1e-15 <= found.delta_at(epsilon) <= exact * (1 + 1e-6) + 1e-14


def test_epsilon_keeps_its_delta() -> None:
    found = shuffle(epsilon=2, people=30, delta="1e-3")
    assert by_hand(30, 2.0, found.epsilon) <= 1e-3
    assert by_hand(30, 2.0, found.epsilon * 0.999) > 1e-3


def test_bins_of_clones_cost_hardly_anything() -> None:
    """A million people are counted in bins; one clone more or less decides nothing there."""
    found = shuffle(epsilon=1, people=1_000_000, delta="1e-6")
    assert 0.0043 < found.epsilon < 0.0044


def test_more_people_hide_better_and_epsilon_is_never_above_the_reports_own() -> None:
    found = [shuffle(epsilon=2, people=n, delta="1e-8").epsilon for n in (1, 10, 1000, 10**5)]
    assert found == sorted(found, reverse=True)
    assert found[0] == 2.0
    assert shuffle(epsilon=20, people=100, delta="1e-9").epsilon <= 20


def test_the_closed_form_says_when_it_does_not_hold() -> None:
    assert shuffle(epsilon=4, people=10_000, delta="1e-6").closed_form is None
    assert "does not apply" in str(shuffle(epsilon=4, people=10_000, delta="1e-6")._card().facts)


def test_a_logarithm_is_an_epsilon_too() -> None:
    found = sf.local.shuffle(epsilon=sf.local.log(3), people=10_000, delta="1e-6")
    near = sf.local.shuffle(epsilon=math.log(3), people=10_000, delta="1e-6")
    assert found.epsilon == pytest.approx(near.epsilon, rel=1e-5)
    assert repr(found).startswith("<Shuffled: epsilon 0.06086 at delta 1e-6")


def test_what_makes_no_sense_is_refused() -> None:
    for people, delta, code in (
        (0, "1e-6", "parameter_out_of_range"),
        (10, 0, "parameter_out_of_range"),
    ):
        with pytest.raises(ParameterError) as raised:
            shuffle(epsilon=1, people=people, delta=delta)
        assert raised.value.code == code


def test_binomial_masses_keep_their_digits() -> None:
    from sfumato.methods.local.shuffle_amplification import _binomial

    counts = np.arange(0.0, 31.0)
    exact = [math.comb(30, n) * 0.3**n * 0.7 ** (30 - n) for n in range(31)]
    assert _binomial(counts, 30.0, 0.3) == pytest.approx(exact, rel=1e-13)


@pytest.mark.parametrize("delta", ["1e-400", "1e-320"])
def test_a_delta_below_any_float_is_refused(delta: str) -> None:
    with pytest.raises(ParameterError) as raised:
        sf.local.shuffle(epsilon=1, people=100, delta=delta)
    assert raised.value.code == "parameter_out_of_range"
    assert sf.local.shuffle(epsilon=1, people=100, delta="1e-300").epsilon <= 1
