"""Guarantees in plain words: what a budget means to a person, and a glossary on the spot."""

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
"""A rho promises an epsilon for every delta; it is told for this one."""
_REPLACED = "is itself or another"
"""How a unit says that people are replaced by others, not left out."""

TERMS = {
    "quasi-identifier": "A column by which a person could be found, because others may know it "
    "too, such as age, postcode or job.",
    "sensitive": "A column that says what nobody should learn about a person, such as an illness.",
    "class": "Rows that read the same in every column that can identify a person.",
    "anonymity": "k-anonymity: each row reads the same as at least k - 1 others in every column "
    "that can identify a person.",
    "map": "k-map: each row fits at least k people of a population.",
    "presence": "Delta-presence: nobody can be surer than agreed that a person is in the table.",
    "diversity": "l-diversity: in each group that looks alike there are at least l values that a "
    "person may have.",
    "closeness": "t-closeness: in each group that looks alike the values are spread nearly as in "
    "the whole table, where t says how nearly.",
    "disclosure": "Delta-disclosure privacy: no value becomes much likelier or unlikelier by "
    "knowing the group.",
    "likeness": "Beta-likeness: no value becomes much likelier by knowing the group.",
    "suppressed": "Left out of the release, or blank in it.",
    "loss": "How much detail is gone, from 0, which is nothing, to 1, which is everything.",
    "differential privacy": "Noise is added so that a release would look nearly the same whether "
    "or not a person is in the data.",
    "epsilon": "How much one person may change what is released; the smaller, the more private.",
    "rho": "The same as epsilon, counted in the way that suits bell-shaped noise.",
    "delta": "A very small chance, set in advance, with which the promise may fail.",
    "standard deviation": "How far noise usually moves a figure: in about two of three cases by "
    "less than this.",
    "95 % bound": "In 95 of 100 cases the figure is off by at most this.",
}
"""Words of the field that pages use, each with what it means."""


def glossary(*texts: str) -> list[Glossary]:
    """The words of the field that occur in these texts; nothing where none do."""
    said = " ".join(texts).lower()
    found = [(name, told) for name, told in TERMS.items() if re.search(rf"\b{name}", said)]
    return [Glossary(found)] if found else []


def promises(cost: Mapping[str, Any]) -> list[str]:
    """What an epsilon or a rho, with its delta, means to a person; rounded against us."""
    told = _epsilon(cost)
    if told is None:
        return []
    epsilon, delta = told
    factor, sure = _up(math.exp(epsilon), 2), _up(100 / (1 + math.exp(-epsilon)), 1)
    other, unknown = "as without that person", "that a person is in the data"
    if _REPLACED in str(cost.get("unit")):
        other, unknown = "as with any other in that place", "which of two rows a person has there"
    odds = (
        f"Whatever stands in this release is at most {factor:,g} times as likely with a person in "
        f"the data {other}, whatever else anyone knows or will know."
    )
    belief = (
        f"Someone who thinks it as likely as not {unknown} can, after reading it, be at most "
        f"{sure:g} % sure."
    )
    said = [odds, belief]
    if delta:
        said.append(
            f"The promise may fail with a chance of at most {float(delta):.0e}, about one in "
            f"{round(1 / delta):,}."
        )
    return said


def limits(cost: Mapping[str, Any]) -> list[str]:
    """What a budget does not protect against."""
    told = _epsilon(cost)
    if told is None:
        return []
    epsilon, delta = told
    twice, fails = _up(math.exp(2 * epsilon), 2), _up(1 + math.exp(epsilon), 1)
    more = f", and the chance of failing {fails:g} times as large" if delta else ""
    common = (
        "What is true of many people is not hidden: that is what the figures are for. It can be "
        "applied to someone whether or not that person is in the data."
    )
    together = (
        "Several people together, such as a family, are protected less than one: for two the "
        f"factor is {twice:,g}{more}."
    )
    further = (
        "Each further release about the same people adds to this one. The budget of the data set "
        "limits their sum."
    )
    return [common, together, further]


def _epsilon(cost: Mapping[str, Any]) -> tuple[float, Fraction] | None:
    """The epsilon and delta of a cost; None where it has none."""
    delta = Fraction(cost.get("delta") or 0)
    if cost.get("epsilon") is not None:
        return float(Fraction(cost["epsilon"])), delta
    if cost.get("rho") is None:
        return None
    loss = zcdp_to_approx(Zcdp(rho=Fraction(cost["rho"])), delta=_ASSUMED_DELTA)
    return float(loss.epsilon), loss.delta + delta


def _up(value: float, places: int) -> float:
    """A number rounded up, so that "at most" stays true."""
    return math.ceil(value * 10.0**places) / 10.0**places
