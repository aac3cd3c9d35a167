"""What an owner supposes of an attacker, checked as it comes from a command line or from Python."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Any, TypedDict

from sfumato import arguments
from sfumato.attack.case import AttackOptions
from sfumato.errors import ParameterError, option
from sfumato.exact_numbers import positive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.exact_numbers import Number


class AttackKeywords(TypedDict, total=False):
    """What is supposed of attackers of answers, of synthetic tables and of other data."""

    guesses: int
    """So many people, descriptions or games are tried."""
    epsilon: Number
    """What a script of questions costs together."""
    together: int
    """Columns that are taken together to single out."""
    first: Sequence[str] | str
    """Columns of the first of two lists."""
    on: Sequence[str] | str
    """Columns by which two tables are joined."""
    knows: int
    """Points or items that are known of a victim."""
    cell: float
    """How exactly a place is known."""
    minutes: float
    """How exactly a time is known."""
    hops: int
    """How far around a victim a graph is known."""
    columns: Mapping[str, str] | Sequence[str]
    """Which column is the person, item, rating, time and so on."""


_BETWEEN = {"sure": (0, 1), "near": (0, 1), "gain": (1, inf), "cell": (0, inf), "minutes": (0, inf)}
_AT_LEAST = {
    "exclude": 0,
    "l": 2,
    "population_size": 1,
    "guesses": 1,
    "together": 1,
    "knows": 1,
    "hops": 1,
}


def attack_options(**asked: Any) -> AttackOptions:
    """What is supposed of an attacker, with numbers that make sense."""
    wanted = {name: one for name, one in asked.items() if one is not None}
    for listed in ("first", "on"):
        if listed in wanted:
            wanted[listed] = arguments.names(wanted[listed], listed, "columns")
    if "epsilon" in wanted:
        wanted["epsilon"] = positive(wanted["epsilon"], "epsilon")
    if "columns" in wanted:
        wanted["columns"] = _columns(wanted["columns"])
    found = AttackOptions(**wanted)
    arguments.maybe_text(found.sensitive, "sensitive")
    for name, (low, high) in _BETWEEN.items():
        value = arguments.require(getattr(found, name), name, (int, float), "a number")
        if not low < value <= high:
            raise ParameterError(
                "attack_option",
                f"{option(name)} must be above {low}"
                + (f" and at most {high}" if high < inf else "")
                + f", not {value:g}.",
            )
    for name, least in _AT_LEAST.items():
        value = getattr(found, name)
        if value is not None and arguments.whole(value, name) < least:
            raise ParameterError(
                "attack_option",
                f"{option(name)} must be at least {least}, not {value}.",
            )
    return found


def _columns(asked: object) -> dict[str, str]:
    """Which column is the person's, the item's and so on: a mapping, or texts like person=user."""
    if isinstance(asked, Mapping):
        return {
            arguments.text(role, "columns"): arguments.text(name, role)
            for role, name in asked.items()
        }
    found = {}
    for one in arguments.names(asked, "columns", "pairs like person=user"):
        role, equals, name = one.partition("=")
        if not (role and equals and name):
            raise ParameterError(
                "attack_option",
                f"{option('column')} must be a pair like person=user, not {one!r}. Name what a "
                "column is, and the column.",
            )
        found[role] = name
    return found
