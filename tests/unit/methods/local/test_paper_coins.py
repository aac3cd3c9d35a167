"""Coins and dice: what a person who follows the steps reports is k-ary of exactly its epsilon."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import product

import pytest

from sfumato.methods.local import log, oracle
from sfumato.methods.local.local_epsilon import read_epsilon
from sfumato.methods.local.paper_coins import (
    _DEVICES,
    HandDevice,
    device,
    likelihood_ratio,
    second_throw,
)


def faces_that_say_truth(one: HandDevice) -> Fraction:
    """The chance that the words of a device say, by counting throws."""
    if "die" in one.throw:
        return Fraction(len(re.findall(r"\d", one.honest)), 6)
    coins = {"a coin": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
    count = next(number for word, number in coins.items() if word in one.throw)
    throws = list(product((True, False), repeat=count))
    asked = any if "at least one" in one.honest else all
    return Fraction(sum(asked(throw) for throw in throws), len(throws))


@pytest.mark.parametrize("one", _DEVICES, ids=lambda one: str(one.truth))
def test_the_words_of_a_device_have_its_chance(one: HandDevice) -> None:
    assert faces_that_say_truth(one) == one.truth


@pytest.mark.parametrize("choices", [2, 3, 5, 6, 7, 36])
@pytest.mark.parametrize("one", _DEVICES, ids=lambda one: str(one.truth))
def test_the_channel_is_that_of_k_ary_exactly(one: HandDevice, choices: int) -> None:
    ratio = likelihood_ratio(one.truth, choices)
    mechanism = oracle("k-ary", domain=choices, epsilon=log(ratio))
    lie = (1 - one.truth) / choices
    assert mechanism.q == lie  # type: ignore[attr-defined]
    assert mechanism.p == one.truth + lie  # type: ignore[attr-defined]
    assert mechanism.channel().ratio == ratio


@pytest.mark.parametrize("epsilon", ["0.05", "0.5", "1", "log(3)", "2", "4"])
@pytest.mark.parametrize("choices", [2, 3, 6, 10, 36])
def test_no_device_reveals_more_than_the_round_promises(epsilon: str, choices: int) -> None:
    claimed = read_epsilon(epsilon)
    found = device(choices, claimed)
    if found is None:
        assert not claimed.allows(likelihood_ratio(Fraction(1, 64), choices))
    else:
        assert claimed.allows(likelihood_ratio(found.truth, choices))


def test_the_coins_of_the_textbook() -> None:
    found = device(2, log(3))
    assert found is not None
    assert (found.throw, found.truth) == ("Flip a coin.", Fraction(1, 2))
    assert device(2, read_epsilon("1.0986")).truth == Fraction(1, 3)  # type: ignore[union-attr]


def test_above_36_choices_there_is_none() -> None:
    assert device(36, read_epsilon(10)) is not None
    assert device(37, read_epsilon(10)) is None


@pytest.mark.parametrize("choices", range(2, 37))
def test_the_second_throw_reaches_every_choice_equally_often(choices: int) -> None:
    words = second_throw(choices)
    if choices == 2:
        reached = [1, 2]
    elif choices <= 6:
        assert "Roll a die" in words
        reached = list(range(1, 7))
    else:
        reached = [6 * first - 6 + second for first in range(1, 7) for second in range(1, 7)]
    assert sorted(one for one in reached if one <= choices) == list(range(1, choices + 1))
    assert ("again" in words) == (max(reached) > choices)
