"""The meaning of a privacy budget in plain words, and the terms that pages explain."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.privacy.accounting.losses import Zcdp, zcdp_to_approx
from sfumato.report.blocks import Glossary

if TYPE_CHECKING:
    from collections.abc import Mapping

_ASSUMED_DELTA = Fraction(1, 10**6)
"""A rho gives an epsilon for every delta; pages state the one for this delta."""
_ONE_ROW = "any one row"
"""A unit with these words hides one row, whoever it is of."""
_REPLACED = "is itself or another"
"""A unit with these words replaces people by others, instead of leaving them out."""

TERMS = {
    "quasi-identifier": "A column that could help to find a person, because others may know it "
    "too, such as age, postcode or job.",
    "sensitive": "A column with facts that nobody should learn about a person, such as an illness.",
    "class": "Rows with the same values in all quasi-identifiers.",
    "anonymity": "k-anonymity: each row has the same quasi-identifiers as at least k - 1 other "
    "rows.",
    "map": "k-map: each row fits at least k people of a population.",
    "presence": "Delta-presence: a bound on how sure anyone can be that a person is in the table.",
    "diversity": "l-diversity: each class has at least l different sensitive values.",
    "closeness": "t-closeness: in each class the sensitive values are distributed almost as in the "
    "whole table; t bounds the difference.",
    "disclosure": "Delta-disclosure privacy: knowing the class of a person makes no value much "
    "more or much less likely.",
    "likeness": "Beta-likeness: knowing the class of a person makes no value much more likely.",
    "suppressed": "Left out of the release, or left blank in it.",
    "loss": "How much detail is lost, from 0 (nothing) to 1 (everything).",
    "differential privacy": "Noise is added so that a release would look almost the same with or "
    "without any one person in the data.",
    "epsilon": "How much one person may change the release. A smaller epsilon protects better.",
    "rho": "Like epsilon, in the unit that suits Gaussian noise.",
    "delta": "A very small probability, set in advance, that the promise fails.",
    "standard deviation": "The typical error due to noise. Most numbers are off by less.",
    "95 % bound": "In 95 of 100 cases the number is off by at most this.",
}
"""Terms of the field that pages use, with their meaning."""


def glossary(*texts: str) -> list[Glossary]:
    """Return a glossary of the terms that occur in these texts; an empty list if none do."""
    text = " ".join(texts).lower()
    terms = [(term, meaning) for term, meaning in TERMS.items() if re.search(rf"\b{term}", text)]
    return [Glossary(terms)] if terms else []


def promises(cost: Mapping[str, Any]) -> list[str]:
    """Return what an epsilon or a rho, with its delta, promises to a person, rounded up.

    Noise at epsilon multiplies the odds of any output by at most e^epsilon, so an even prior belief
    becomes at most e^epsilon / (1 + e^epsilon).
    """
    budget = _epsilon_and_delta(cost)
    if budget is None:
        return []
    epsilon, delta = budget
    # Bayes: prior odds of 1 times the factor e^epsilon give the belief e^epsilon / (1 +
    # e^epsilon).
    factor, belief = _at_most(math.exp(epsilon)), _round_up(100 / (1 + math.exp(-epsilon)), 1)
    unit = str(cost.get("unit"))
    # The unit says what is hidden: one row, or a person with all their rows.
    noun = "row" if _ONE_ROW in unit else "person"
    present = f"with a given {noun} in the data"
    if _REPLACED in unit:
        alternative = f"with another {noun} in its place"
        question = (
            f"which of two {noun}s is in the data"
            if noun == "row"
            else ("which of two people is in the data")
        )
    else:
        alternative, question = f"without that {noun}", f"whether a {noun} is in the data"
    sentences = [
        (
            f"Any result of this release is at most {factor} times as likely {present} as "
            f"{alternative}. This holds whatever else anyone knows, now or later."
        ),
        (
            f"Someone who is unsure {question} (50 %) can be at most {belief:g} % sure after "
            "reading the release."
        ),
    ]
    if delta:
        sentences.append(
            "The promise may fail with a probability of at most "
            f"{_two_digits_up(delta)}, about one in {math.floor(1 / delta):,}."
        )
    return sentences


def limits(cost: Mapping[str, Any]) -> list[str]:
    """Return what a budget does not protect against.

    Group privacy for two people: epsilon doubles, and delta grows by the factor 1 + e^epsilon.
    """
    budget = _epsilon_and_delta(cost)
    if budget is None:
        return []
    epsilon, delta = budget
    # Group privacy of two: (2 epsilon, (1 + e^epsilon) delta), through the table between the two.
    twice, failure = _at_most(math.exp(2 * epsilon)), _at_most(1 + math.exp(epsilon))
    more = f", and the probability of failure is {failure} times as large" if delta else ""
    return [
        (
            "The release does not hide what is true of many people: it exists to show that. "
            "Anyone can apply it to a person, whether or not that person is in the data."
        ),
        (
            "Several people together, such as a family, are protected less than one person: for "
            f"two people the factor is {twice}{more}."
        ),
        (
            "Every further release about the same people adds to this one. The budget of the data "
            "set limits the sum."
        ),
    ]


def _epsilon_and_delta(cost: Mapping[str, Any]) -> tuple[float, Fraction] | None:
    """Return the epsilon and delta of a cost; None if it has neither epsilon nor rho."""
    delta = Fraction(cost.get("delta") or 0)
    if cost.get("epsilon") is not None:
        return float(Fraction(cost["epsilon"])), delta
    if cost.get("rho") is None:
        return None
    loss = zcdp_to_approx(Zcdp(rho=Fraction(cost["rho"])), delta=_ASSUMED_DELTA)
    return float(loss.epsilon), loss.delta + delta


def _at_most(factor: float) -> str:
    """Write a factor, rounded up: two decimals, or four digits if it is large."""
    digits = 2 if factor < 1000 else 3 - math.floor(math.log10(factor))
    return f"{_round_up(factor, digits):,.10g}"


def _two_digits_up(probability: Fraction) -> str:
    """Write a small probability with two digits, rounded up."""
    exponent = math.floor(math.log10(probability)) - 1
    return f"{math.ceil(probability / Fraction(10) ** exponent) * 10.0**exponent:.2g}"


def _round_up(value: float, places: int) -> float:
    """Round a number up, so that "at most" stays true."""
    return math.ceil(value * 10.0**places) / 10.0**places
