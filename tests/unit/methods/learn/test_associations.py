from __future__ import annotations

import numpy as np
import pytest

from sfumato.methods.itemsets.privbasis import NoisySupports
from sfumato.methods.itemsets.transactions import Profiles
from sfumato.methods.learn.rules import associations

BASES = [np.array([0, 1, 2]), np.array([1, 2, 3])]


def profiles() -> Profiles:
    draw = np.random.default_rng(1)
    marks = draw.random((4000, 4)) < [0.5, 0.4, 0.3, 0.2]
    marks[:, 1] |= marks[:, 0] & (draw.random(4000) < 0.8)
    return Profiles(marks, np.ones(4000, dtype=np.int64))


def test_without_noise_figures_are_those_of_the_rows() -> None:
    held = profiles()
    found = NoisySupports(BASES, [held.bins(one) for one in BASES], 1e-9)
    rules = {
        (one.antecedent, one.consequent): one
        for one in associations(found, 50, size=3, confidence=0)
    }
    assert ((0,), 3) not in rules  # of no common base
    for (given, then), rule in rules.items():
        has = held.marks[:, list(given)].all(axis=1)
        both = has & held.marks[:, then]
        assert rule.set_count == pytest.approx(both.sum())
        assert rule.support.value == pytest.approx(both.mean())
        assert rule.confidence.value == pytest.approx(both.sum() / has.sum())
        lift = both.mean() / (has.mean() * held.marks[:, then].mean())
        assert rule.lift.value == pytest.approx(lift)
        assert rule.confidence.sd < 1e-6
        assert not rule.approximate


def test_deviations_are_those_of_many_draws() -> None:
    """Within 12 % of what 1,500 draws of noise have."""
    held, draw = profiles(), np.random.default_rng(3)
    exact = [held.bins(one) for one in BASES]
    drawn = []
    for _ in range(1500):
        noisy = [np.rint(one + draw.normal(0, 8, len(one))).astype(np.int64) for one in exact]
        rules = associations(NoisySupports(BASES, noisy, 64.0), 50, size=2, confidence=0)
        drawn.append(next(one for one in rules if one.antecedent == (0,) and one.consequent == 1))
    for name in ("support", "confidence", "lift"):
        spread = np.std([getattr(one, name).value for one in drawn])
        assert getattr(drawn[0], name).sd == pytest.approx(spread, rel=0.12)


def test_what_noise_could_explain_is_left_out_and_rough_figures_say_so() -> None:
    held = profiles()
    bins = [held.bins(one) for one in BASES]
    assert associations(NoisySupports(BASES, bins, 1e9), 50, size=3, confidence=0) == []
    rough = associations(NoisySupports(BASES, bins, 300.0**2), 50, size=2, confidence=0)
    assert rough
    assert all(one.approximate for one in rough)


def test_the_surest_come_first_and_unsure_ones_not_at_all() -> None:
    held = profiles()
    found = NoisySupports(BASES, [held.bins(one) for one in BASES], 900.0)
    rules = associations(found, 50, size=3, confidence=0.5)
    sure = [min(one.confidence.value, 1) - 1.64 * one.confidence.sd for one in rules]
    assert sure == sorted(sure, reverse=True)
    values = [one.confidence.value for one in rules]
    assert values != sorted(values, reverse=True)  # so that the deviation is what orders them
    assert min(values) >= 0.5
    assert len(associations(found, 50, size=3, confidence=0)) > len(rules)


def test_a_left_side_that_noise_could_explain_makes_no_rule() -> None:
    """Of item 0 there are 55, whose deviation is 2.8 or 40."""
    bins = [np.array([0, -5, 1000, 60])]  # neither, 0 alone, 1 alone, both
    calm, loud = (NoisySupports([np.array([0, 1])], bins, one) for one in (4.0, 800.0))
    told = [
        {one.antecedent for one in associations(each, 10, size=2, confidence=0)}
        for each in (calm, loud)
    ]
    assert told == [{(0,), (1,)}, {(1,)}]
