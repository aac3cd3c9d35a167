"""Format numbers, values and named figures for readers: on pages, in pictures, in terminals."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.exact_numbers import plain
from sfumato.text import share

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["SHARES", "VERBATIM", "figure_name", "figure_text", "labelled", "ratios_to_decimals",
           "share", "show", "value_text"]  # fmt: skip

_RATIO = re.compile(r"\b\d+/\d+\b")
_NAMES = {
    "sd": "standard deviation",
    "bias_sd": "bias in standard deviations",
    "bound95": "95 % bound",
    "rank_bound95": "95 % bound of the rank",
    "kept95": "kept with 95 % chance from",
    "mse": "mean squared error",
    "workload_mse": "mean squared error of the workload",
    "cell": "each number",
    "one_way": "noise in one column (total variation distance)",
    "two_way": "noise in a measured pair of columns (total variation distance)",
    "largest95": "95 % bound of the largest error",
}
"""What people call figures whose names are meant for programs."""
SHARES = {"one_way", "two_way"}
"""Figures that are shares of all rows."""
VERBATIM = {"columns", "marginals", "name", "made by", "shares", "shuffled", "tables", "weights"}
"""Figures whose values are names or texts of the user, which are shown unchanged."""


def show(number: float, *, percent: bool = False) -> str:
    """Write a number for people: thousands separated, fractions to three digits, or in percent."""
    if percent:
        return share(number)
    if number == int(number) or abs(number) >= 1000:
        return f"{number:,.0f}"
    return f"{number:.3g}"


def ratios_to_decimals(text: str) -> str:
    """A text with ratios such as 1/2 written as decimals such as 0.5, rounded up."""
    return _RATIO.sub(lambda ratio: plain(Fraction(ratio[0]), digits=6, up=True), text)


def value_text(value: Any, *, verbatim: bool = False) -> str:
    """Write any value for people: numbers short, None as a dash, mappings as names with values.

    Names and texts of the user are `verbatim`: they stay as they are.
    """
    if value is None:
        return "–"
    if isinstance(value, bool | str):
        return str(value) if verbatim else ratios_to_decimals(str(value))
    if isinstance(value, int | float):
        return show(value)
    if isinstance(value, dict):
        return _mapping_text(value, verbatim=verbatim)
    keys = {tuple(item) if isinstance(item, dict) else () for item in value}
    if len(keys) == 1 and len(*keys) == 1:  # many figures of one name: write the name once
        ((name,),) = keys
        return f"{figure_name(name)} {'; '.join(value_text(item[name]) for item in value)}"
    return "; ".join(value_text(item, verbatim=verbatim) for item in value)


def labelled(name: str, value: Any) -> str:
    """A figure with its name, such as "standard deviation: 2"."""
    return f"{figure_name(name)}: {figure_text(name, value)}"


def figure_text(name: str, value: Any) -> str:
    """Return the value of a figure; its name may say that it is a share or a text of the user."""
    if name in SHARES and value is not None:
        return share(value)
    return value_text(value, verbatim=name in VERBATIM)


def figure_name(key: str) -> str:
    """Return the name of a figure as people say it."""
    return _NAMES.get(key, ratios_to_decimals(key.replace("_", " ")))


def _mapping_text(facts: Mapping[str, Any], *, verbatim: bool) -> str:
    """Figures with their names in one sentence, then each remark as a sentence of its own."""
    remarks = [ratios_to_decimals(value) for value in facts.values() if _is_remark(value)]
    figures = [
        f"{name} {value_text(value)}"
        if verbatim
        else f"{figure_name(name)} {figure_text(name, value)}"
        for name, value in facts.items()
        if not _is_remark(value)
    ]
    sentences = [", ".join(figures)] if figures else []
    if not remarks:
        return "".join(sentences)
    return " ".join(
        f"{sentence[:1].upper()}{sentence[1:].removesuffix('.')}."
        for sentence in [*sentences, *remarks]
    )


def _is_remark(value: object) -> bool:
    """Return whether a value is a sentence, which needs no name before it."""
    return isinstance(value, str) and value.count(" ") > 2
