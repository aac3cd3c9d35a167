"""The options of attacks: what the owner assumes of an attacker, with checks and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from sfumato import arguments
from sfumato.errors import ParameterError, option
from sfumato.exact_numbers import positive

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from fractions import Fraction

    import pyarrow as pa

    from sfumato.exact_numbers import Number

    RowsAre = Literal["people's", "nobody's", "counts"]
    Asking = AbstractContextManager[Callable[[str, Fraction], pa.Table]]


@dataclass(frozen=True, kw_only=True)
class AttackOptions:
    """What is supposed of the attacker, where an attack leaves that open."""

    sensitive: str | None = None
    """The column that is guessed; by default the one that the release tells most about."""
    sure: float = 1.0
    """From this belief on an attacker counts as sure."""
    exclude: int = 1
    """So many values the attacker can exclude of a victim, the worst ones."""
    gain: float = 2.0
    """A belief that grows by this factor is one that tells something."""
    near: float = 0.25
    """Numbers in such a share of a column's range are alike."""
    l: int | None = None  # noqa: E741  # the literature's own name
    """The l-diversity that was asked for, where no side-car says it."""
    population_size: int | None = None
    """How many people there are, of whom the release has some."""
    guesses: int = 2_000
    """So many people, descriptions or games are tried, where there are as many."""
    dealt: int | None = None
    """Values are dealt out to so many people at a time, to see what chance does; None for all."""
    together: int = 3
    """So many columns are taken together to single somebody out."""
    first: tuple[str, ...] = ()
    """The columns of the first of two lists; the second has the others."""
    epsilon: Fraction | None = None
    """What all questions of a script to the door may cost together."""
    knows: int | None = None
    """So many points of a path, or items of a list of ratings, are known of a victim."""
    cell: float = 0.01
    """The side of a cell in which a place is known, in the units of its columns."""
    minutes: float = 60.0
    """How exactly a time is known."""
    hops: int = 2
    """How far around a victim a graph is known; 1 is how many neighbours there are."""
    on: tuple[str, ...] = ()
    """The columns by which two tables are joined; by default all quasi-identifiers."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Which column is whose: the person, item, rating, time, and so on of other data."""


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
    """Which column is the person's, the item's and so on: a mapping, or texts like person=user."""
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
