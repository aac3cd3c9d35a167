"""The options of attacks: the owner's assumptions about an attacker, with checks and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, TypedDict

from sfumato import arguments
from sfumato.errors import ParameterError, option
from sfumato.exact_numbers import positive

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from sfumato.exact_numbers import Number


@dataclass(frozen=True, kw_only=True)
class AttackOptions:
    """Assumptions about an attacker. Each attack reads only the options that concern it."""

    sensitive: str | None = None
    """The column to guess; by default the sensitive column that leaks most."""
    sure: float = 1.0
    """The belief, from 0 to 1, from which an attacker counts as certain."""
    exclude: int = 1
    """The number of values that the attacker can exclude for a victim, the worst ones."""
    gain: float = 2.0
    """The factor by which a belief must grow to count in `skewness`."""
    near: float = 0.25
    """The share of a column's range within which numbers are similar."""
    l: int | None = None  # noqa: E741  # the literature's own name
    """The l of the l-diversity that was required, if no side-car has it."""
    population_size: int | None = None
    """The number of people in the population that the release is a sample of."""
    guesses: int = 2_000
    """The number of people, descriptions or games to try, if there are as many."""
    dealt: int | None = None
    """The rows that each random dealing of values fills, for the baseline; None for all."""
    together: int = 3
    """The number of columns in a description that singles somebody out."""
    first: tuple[str, ...] = ()
    """The columns of the first of two lists; the second has the others."""
    epsilon: Fraction | None = None
    """The cost of all questions of a script together."""
    knows: int | None = None
    """The number of points of a trajectory, or of rated items, known of a victim."""
    cell: float = 0.01
    """The side of the cell in which a place is known, in the units of its columns."""
    minutes: float = 60.0
    """The length of the interval in which a time is known, in minutes."""
    hops: int = 2
    """How far around a victim the graph is known; 1 is the number of neighbours."""
    on: tuple[str, ...] = ()
    """The columns by which two tables are joined; by default all quasi-identifiers."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """The column of each role, such as person, item, rating or time, in other data."""


class AttackKeywords(TypedDict, total=False):
    """Assumptions about attackers of answers, of synthetic tables and of other data."""

    guesses: int
    """The number of people, descriptions or games to try."""
    epsilon: Number
    """The cost of all questions of a script together."""
    together: int
    """The number of columns in a description that singles somebody out."""
    first: Sequence[str] | str
    """Columns of the first of two lists."""
    on: Sequence[str] | str
    """Columns by which two tables are joined."""
    knows: int
    """The number of points or items known of a victim."""
    cell: float
    """The side of the cell in which a place is known."""
    minutes: float
    """The length of the interval in which a time is known, in minutes."""
    hops: int
    """How far around a victim the graph is known."""
    columns: Mapping[str, str] | Sequence[str]
    """The column of each role, such as person, item, rating or time."""


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
    """Check options, fill in defaults, and return them; None stands for the default.

    Raises
    ------
    ParameterError
        If an option has a wrong type or lies outside its range.
    """
    given_options = {name: argument for name, argument in asked.items() if argument is not None}
    for listed in ("first", "on"):
        if listed in given_options:
            given_options[listed] = arguments.names(given_options[listed], listed, "columns")
    if "epsilon" in given_options:
        given_options["epsilon"] = positive(given_options["epsilon"], "epsilon")
    if "columns" in given_options:
        given_options["columns"] = _columns(given_options["columns"])
    options = AttackOptions(**given_options)
    arguments.maybe_text(options.sensitive, "sensitive")
    for name, (low, high) in _BETWEEN.items():
        value = arguments.require(getattr(options, name), name, (int, float), "a number")
        if not low < value <= high:
            raise ParameterError(
                "parameter_out_of_range",
                f"{option(name)} must be above {low}"
                + (f" and at most {high}" if high < inf else "")
                + f", not {value:g}.",
                parameter=name,
                given=value,
            )
    for name, least in _AT_LEAST.items():
        value = getattr(options, name)
        if value is not None and arguments.whole(value, name) < least:
            raise ParameterError(
                "parameter_out_of_range",
                f"{option(name)} must be at least {least}, not {value}.",
                parameter=name,
                given=value,
            )
    return options


def _columns(asked: object) -> dict[str, str]:
    """Read the column of each role from a mapping, or from texts like person=user."""
    if isinstance(asked, Mapping):
        return {
            arguments.text(role, "columns"): arguments.text(name, role)
            for role, name in asked.items()
        }
    column_of_role = {}
    for pair in arguments.names(asked, "columns", "pairs like person=user"):
        role, equals, name = pair.partition("=")
        if not (role and equals and name):
            raise ParameterError(
                "parameter_out_of_range",
                f"{option('column')} must be a pair like person=user, not {pair!r}. Name what a "
                "column is, and the column.",
                parameter="column",
            )
        column_of_role[role] = name
    return column_of_role
