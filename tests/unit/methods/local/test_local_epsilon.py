"""The epsilon of a report: exact, written and read again, never more than claimed."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from sfumato.errors import ParameterError
from sfumato.methods.local.local_epsilon import LocalEpsilon, log, read_epsilon


@pytest.mark.parametrize("epsilon", ["0.000001", "0.1", 1, 2.5, "20", "log(3)", "ln 3", "log 5/4"])
def test_rational_odds_are_below_and_near(epsilon: Any) -> None:
    found = read_epsilon(epsilon)
    for bits in (20, 32, 48):
        odds = found.rational(bits)
        assert found.allows(odds)
        assert not found.allows(odds + Fraction(2, 1 << bits))
        assert odds.denominator <= 1 << bits


def test_logarithms_of_rationals_are_met_exactly() -> None:
    assert log(3).rational(8) == 3
    assert read_epsilon("log(7/2)").rational(8) == Fraction(7, 2)
    assert log(9).share(2) == log(3)
    assert log(81).share(4) == log(3)
    near = log(3).share(2).rational(40) ** 2
    assert near <= 3
    assert near == pytest.approx(3)


def test_the_odds_of_a_logarithm_with_a_long_denominator_are_rounded_down() -> None:
    long = log(Fraction(3 * 10**20 + 1, 10**20))
    assert long.rational(30) == 3
    assert long.allows(long.rational(48))


@pytest.mark.parametrize("epsilon", ["0.5", "log(3)", "log(5/4)", "1/3"])
def test_what_is_written_is_read_again(epsilon: str) -> None:
    assert read_epsilon(str(read_epsilon(epsilon))) == read_epsilon(epsilon)
    assert read_epsilon(read_epsilon(epsilon)) is not None


def test_its_upper_bound_and_its_float() -> None:
    assert read_epsilon("0.5").upper == Fraction(1, 2)
    assert float(log(3)) == math.log(3)
    assert float(log(3).upper) >= math.log(3)


@pytest.mark.parametrize("epsilon", [0, -1, 21, "1e-7", "log(1)", "log(0.5)", "log(x)", None, True])
def test_no_epsilon_for_a_report(epsilon: Any) -> None:
    with pytest.raises(ParameterError):
        read_epsilon(epsilon)


def test_odds_of_any_length_are_read_or_refused() -> None:
    with pytest.raises(ParameterError):
        read_epsilon("log(1e900)")
    long = log(Fraction(3 * 10**390 + 1, 10**390))
    assert float(read_epsilon(long)) == pytest.approx(math.log(3))
    assert long.share(2).rational(40) ** 2 <= 3


def test_shares_of_a_rational_epsilon() -> None:
    assert LocalEpsilon(power=Fraction(1)).share(4) == LocalEpsilon(power=Fraction(1, 4))
    assert read_epsilon(1).share(1) == read_epsilon(1)


@pytest.mark.parametrize("epsilon", ["1e400", "1e-400", 10**400])
def test_numbers_that_float64_does_not_hold_are_refused_in_words(epsilon: Any) -> None:
    with pytest.raises(ParameterError) as refusal:
        read_epsilon(epsilon)
    assert refusal.value.code == "parameter_out_of_range"
