"""What one person can change in a table, the privacy unit, and how far that moves an answer.

All that others read of a unit are its properties; a new unit is one more class here.

Sensitivities are exact, by unit and neighbour relation. A person's rows contribute a sum of at most
`max_rows` terms, each of them nothing or a declared bound in one group. A norm is largest at an
extreme point, where all of a person's rows say the same in one group; so these are the exact
suprema, and the number of groups matters only where each person counts once per group.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import ClassVar, Never

from sfumato import arguments
from sfumato.errors import ParameterError
from sfumato.exact_numbers import bounds, exact

MOST_ROWS = 2**30
"""The largest bound on a person's rows or groups: weights and shares of them then fit 64 bits."""


class Neighbours(StrEnum):
    """Which two tables count as neighbours."""

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"

    def __repr__(self) -> str:
        # Under its first name, which the digests of stored questions hold.
        return f"<Relation.{self.name}: {self.value!r}>"


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Each row is a person of its own."""

    relation: Neighbours = Neighbours.ADD_REMOVE

    column: ClassVar[None] = None
    columns: ClassVar[tuple[str, ...]] = ()
    max_rows: ClassVar[int] = 1
    max_groups: ClassVar[int] = 1
    groups: ClassVar[int] = 1

    by_person: ClassVar[bool] = False
    """Whether a column says whose a row is, so that one person may have several, or none."""

    def bounded(self, max_rows: int, max_groups: int | None = None) -> Entity:
        """The unit where each of its rows may have become so many."""
        return Entity("row", max_rows, max_groups, self.relation)

    def sentence(self) -> str:
        """Say what the unit hides."""
        return f"Hides whether any one row {_VERB[self.relation]}."

    def facts(self) -> dict[str, object]:
        """What a schema or a vault's configuration says of it; nothing where it says "row"."""
        return _unusual(self.relation)


@dataclass(frozen=True)
class Entity:
    """All rows that share a value of `column` belong to one person.

    At most `max_rows` of them are used, in at most `max_groups` groups of any one question.
    """

    column: str
    max_rows: int
    max_groups: int | None = None
    relation: Neighbours = Neighbours.ADD_REMOVE

    by_person: ClassVar[bool] = True

    def __post_init__(self) -> None:
        arguments.text(self.column, "column")
        arguments.require(self.relation, "relation", Neighbours, "one of sf.Neighbours")
        _check_bounds(max_rows=self.max_rows, max_groups=self.groups)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that say whose a row is."""
        return (self.column,)

    @property
    def groups(self) -> int:
        """The groups one person can reach; a person never reaches more groups than rows."""
        return self.max_rows if self.max_groups is None else self.max_groups

    def bounded(self, max_rows: int, max_groups: int | None = None) -> Entity:
        """The same people with other bounds."""
        return Entity(self.column, max_rows, max_groups, self.relation)

    def sentence(self) -> str:
        """Say what the unit hides."""
        return (
            f"Hides whether any one {self.column!r} {_VERB[self.relation]}, "
            f"counting as at most {self.max_rows} rows in at most {self.groups} groups of each."
        )

    def facts(self) -> dict[str, object]:
        """What a schema or a vault's configuration says of it."""
        groups = {} if self.max_groups is None else {"max_groups": self.max_groups}
        facts = {"column": self.column, "max_rows": self.max_rows, **groups}
        return {**facts, **_unusual(self.relation)}


@dataclass(frozen=True)
class Ties:
    """Every row ties two people and belongs to both: hidden is a person with all of their rows.

    Cutting a table down by each person's rows alone bounds nothing here: who leaves frees a place
    at every neighbour. So what people of one owner are asked by is refused (`unit_unsupported`), at
    every property by which other units are bounded; a method of graphs bounds by projection, to at
    most `max_rows` ties of each person (`graph.projection`). Decision `table-forms`.
    """

    people: tuple[str, str]
    max_rows: int

    relation: ClassVar[Neighbours] = Neighbours.ADD_REMOVE

    def __post_init__(self) -> None:
        pair = arguments.names(self.people, "people")
        if len(pair) != 2 or len(set(pair)) < 2:
            raise ParameterError(
                "parameter_type_wrong",
                "people of the privacy unit must be two different columns, not "
                f'{arguments.shown(self.people)}. Write people = ["from", "to"].',
                parameter="people",
            )
        object.__setattr__(self, "people", (pair[0], pair[1]))
        _check_bounds(max_rows=self.max_rows)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that say whose a row is."""
        return self.people

    @property
    def column(self) -> Never:
        """Refused: no one column says whose a row is."""
        raise self._refusal()

    @property
    def by_person(self) -> Never:
        """Refused: rows are of two people each."""
        raise self._refusal()

    @property
    def groups(self) -> Never:
        """Refused: one person can move rows of others."""
        raise self._refusal()

    @property
    def max_groups(self) -> Never:
        """Refused: one person can move rows of others."""
        raise self._refusal()

    @property
    def bounded(self) -> Never:
        """Refused: rows of two people are bounded by projection alone."""
        raise self._refusal()

    def _refusal(self) -> ParameterError:
        first, second = self.people
        return ParameterError(
            "unit_unsupported",
            f"Every row belongs to two people, {first!r} and {second!r}, so that counts of rows "
            "cannot be bounded by person. Publish 'node-degrees', which bounds by projection; or "
            'declare unit = "row", which hides single rows only.',
        )

    def sentence(self) -> str:
        """Say what the unit hides."""
        first, second = self.people
        return (
            f"Hides whether any one person of {first!r} and {second!r} is present with all of "
            f"their rows, of which a projection keeps at most {self.max_rows}."
        )

    def facts(self) -> dict[str, object]:
        """What a schema or a vault's configuration says of it."""
        return {"people": list(self.people), "max_rows": self.max_rows}


_VERB = {Neighbours.ADD_REMOVE: "is present", Neighbours.REPLACE_ONE: "is itself or another"}

Unit = Rows | Entity | Ties
UNITS = (Rows, Entity, Ties)


def _check_bounds(**bounds: object) -> None:
    for name, value in bounds.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ParameterError(
                "parameter_out_of_range",
                f"{name} of the privacy unit must be a whole number of at least 1, "
                f"not {arguments.shown(value)}.",
                parameter=name,
            )
        if value > MOST_ROWS:
            raise ParameterError(
                "parameter_out_of_range",
                f"{name} of the privacy unit is {value:,}; at most {MOST_ROWS:,} is allowed. "
                "Noise grows with it: declare what people really have.",
                parameter=name,
            )


def _unusual(relation: Neighbours) -> dict[str, object]:
    return {} if relation is Neighbours.ADD_REMOVE else {"relation": str(relation)}


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """The largest move of a vector of answers, in both norms; the L2 norm squared, so rational."""

    l1: Fraction
    l2_squared: Fraction


def count_sensitivity(unit: Unit, *, grouped: bool = False) -> Sensitivity:
    """Bound COUNT over rows, in total or per group (a histogram)."""
    return sum_sensitivity(unit, 1, 1, grouped=grouped)


def people_sensitivity(unit: Unit, *, grouped: bool = False) -> Sensitivity:
    """Bound the count of people, each counted once, in total or per group."""
    reached = unit.groups  # which refuses rows of two people
    groups = Fraction(reached if grouped else 1)
    if grouped and unit.relation is Neighbours.REPLACE_ONE:
        # One person leaves all of its groups and another one enters as many other ones.
        groups *= 2
    return Sensitivity(l1=groups, l2_squared=groups)


def sum_sensitivity(
    unit: Unit, lower: object, upper: object, *, grouped: bool = False, optional: bool = True
) -> Sensitivity:
    """Bound SUM of values clamped to [lower, upper], in total or per group.

    `optional` says that a row may contribute nothing, as under a WHERE or with a NULL; only rows
    that always contribute keep a replacement within upper - lower.
    """
    low, high = bounds(lower, upper, constant=True)
    rows, by_person = unit.max_rows, unit.by_person  # which refuses rows of two people
    largest = rows * max(abs(low), abs(high))
    if unit.relation is Neighbours.ADD_REMOVE:
        return Sensitivity(l1=largest, l2_squared=largest**2)
    if optional or grouped or by_person:
        low, high = min(low, Fraction(0)), max(high, Fraction(0))
    spread = rows * (high - low)
    if grouped:
        # Either the rows change their group, or they change their value within it.
        return Sensitivity(l1=2 * largest, l2_squared=max(2 * largest**2, spread**2))
    return Sensitivity(l1=spread, l2_squared=spread**2)


def quantile_sensitivity(unit: Unit, quantile: object) -> Fraction:
    """Bound the score -|#(rows below) - quantile * #(rows)| of a candidate value."""
    share = exact(quantile, "quantile")
    if not 0 <= share <= 1:
        raise ParameterError(
            "parameter_out_of_range",
            f"quantile must be from 0 to 1, but {share} was given.",
            parameter="quantile",
        )
    rows = unit.max_rows if unit.by_person else 1  # which refuses rows of two people
    if unit.relation is Neighbours.REPLACE_ONE:
        return Fraction(rows)
    return rows * max(share, 1 - share)
