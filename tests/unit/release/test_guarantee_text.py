"""Guarantees in plain words."""

from __future__ import annotations

import math

import pytest

from sfumato.release.guarantee_text import glossary, limits, promises
from sfumato.report.value_text import ratios_to_decimals


@pytest.mark.parametrize(
    ("epsilon", "factor", "sure"), [("1/2", "1.65", "62.3"), ("1", "2.72", "73.2")]
)
def test_an_epsilon_is_odds_rounded_against_us(epsilon: str, factor: str, sure: str) -> None:
    odds, belief = promises({"epsilon": epsilon})
    assert f"at most {factor} times as likely" in odds
    assert f"at most {sure} % sure" in belief
    exact = math.exp(eval(epsilon))  # noqa: S307  # a number written above
    assert float(factor) >= exact > float(factor) - 0.01
    assert float(sure) >= 100 * exact / (1 + exact) > float(sure) - 0.1


def test_a_rho_is_told_as_the_epsilon_that_it_gives_but_for_one_in_a_million() -> None:
    odds, _, failure = promises({"rho": "1/20"})
    # rho + 2 sqrt(rho ln(1/delta)), the simplest bound, is above what is told.
    assert float(odds.split("at most ")[1].split()[0]) <= math.exp(
        0.05 + 2 * (0.05 * 13.816) ** 0.5
    )
    assert "one in 1,000,000" in failure


def test_replaced_people_are_not_said_to_be_absent() -> None:
    unit = "Hides whether any one row is itself or another."
    odds, belief = promises({"epsilon": "1", "unit": unit})
    assert "without" not in odds
    assert "in the data can" not in belief


def test_two_people_are_protected_by_the_square() -> None:
    assert any("for two people the factor is 7.39." in one for one in limits({"epsilon": "1"}))
    # Group privacy of two: epsilon doubles, and delta becomes (1 + e^epsilon) delta.
    small = limits({"epsilon": "1", "delta": "1/1000000"})
    assert any(
        "is 7.39, and the probability of failure is 3.72 times as large" in one for one in small
    )


def test_nothing_is_promised_of_nothing() -> None:
    assert promises({}) == limits({}) == []


def test_ratios_are_written_as_decimals() -> None:
    assert ratios_to_decimals("epsilon 1/2 and delta 1/1000000") == "epsilon 0.5 and delta 1e-6"
    assert ratios_to_decimals("epsilon 1/3") == "epsilon 0.333334"


def test_a_glossary_has_the_words_that_were_used_and_no_others() -> None:
    (found,) = glossary("4-anonymity".replace("-", " "), "epsilon 1")
    assert [name for name, _ in found.terms] == ["anonymity", "epsilon"]
    assert glossary("nothing of the kind") == []
