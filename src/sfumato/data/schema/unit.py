"""The privacy unit: what one person can change in a table, and the sensitivity that follows.

Callers use only the properties of a unit; a new unit is one more class here.

Sensitivities are exact for each unit and neighbour relation. A person's rows contribute a sum of at
most `max_rows` terms, each of them zero or a declared bound in one group. A norm is convex, so it
is largest at an extreme point, where all rows of a person have one value in one group. These are
therefore exact suprema. The number of groups matters only where each person counts once per group.
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
"""The largest bound on a person's rows or groups; weights and products with it fit 64 bits."""


class Neighbours(StrEnum):
    """The pairs of tables that count as neighbours in the definition of differential privacy.

    ADD_REMOVE: one table has one person more. REPLACE_ONE: both have the same number of people, and
    one of them differs.

    Example
    -------
    >>> import sfumato as sf
    >>> sf.Rows(relation=sf.Neighbours.REPLACE_ONE).relation.value
    'replace-one'
    """

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"

    def __repr__(self) -> str:
        # The digests of stored requests contain this text, so it keeps the first name of the class.
        return f"<Relation.{self.name}: {self.value!r}>"


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The privacy unit of a table in which each row is another person.

    Parameters
    ----------
    relation : Neighbours
        Which tables are neighbours.

    Example
    -------
    >>> import sfumato as sf
    >>> sf.Rows().sentence()
    'Hides whether any one row is present.'
    """

    relation: Neighbours = Neighbours.ADD_REMOVE

    column: ClassVar[None] = None
    columns: ClassVar[tuple[str, ...]] = ()
    max_rows: ClassVar[int] = 1
    max_groups: ClassVar[int] = 1
    groups: ClassVar[int] = 1

    by_person: ClassVar[bool] = False
    """Whether a column names the owner of each row, so that a person may have several rows."""

    def bounded(self, max_rows: int, max_groups: int | None = None) -> Entity:
        """Return the unit after a transformation that turns each row into up to `max_rows` rows."""
        return Entity("row", max_rows, max_groups, self.relation)

    def sentence(self) -> str:
        """Say what the unit hides."""
        return f"Hides whether any one row {_VERB[self.relation]}."

    def facts(self) -> dict[str, object]:
        """Return the keys of the unit in a schema or configuration; empty for the default "row"."""
        return _unusual(self.relation)


@dataclass(frozen=True)
class Entity:
    """The privacy unit of a table in which a person can have several rows.

    All rows with one value of `column` belong to one person. Methods use at most `max_rows` of
    them, in at most `max_groups` groups of a query.

    Parameters
    ----------
    column : str
        The column that names the person.
    max_rows : int
        The largest number of rows of one person that a method uses, at most 2^30. Noise grows
        with it.
    max_groups : int, optional
        The largest number of groups of one person in a query; `max_rows` unless given.
    relation : Neighbours
        Which tables are neighbours.

    Raises
    ------
    ParameterError
        If a bound is below 1 or above 2^30.

    Example
    -------
    >>> import sfumato as sf
    >>> sf.Entity("patient", max_rows=10).groups
    10
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
        """The number of groups that one person can reach; never more than rows."""
        return self.max_rows if self.max_groups is None else self.max_groups

    def bounded(self, max_rows: int, max_groups: int | None = None) -> Entity:
        """Return this unit with other bounds."""
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
    """The privacy unit of a graph: each row belongs to two people, and a person has all their rows.

    Keeping at most so many rows of each person bounds nothing here: a person who leaves frees a
    place at every neighbour, who then keeps another row. So the properties by which other units are
    bounded refuse (`unit_unsupported`). Graph methods bound by projection instead, to at most
    `max_rows` rows of each person (`graph.projection`). Decision `table-forms`.

    Parameters
    ----------
    people : tuple of str
        The two columns that name the people of a row.
    max_rows : int
        The largest number of rows of one person that a projection keeps.

    Raises
    ------
    ParameterError
        If the columns are not two different ones, or the bound is not from 1 to 2^30.
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
    """The largest change of a vector of answers in both norms; L2 is squared to stay rational."""

    l1: Fraction
    l2_squared: Fraction


def count_sensitivity(unit: Unit, *, grouped: bool = False) -> Sensitivity:
    """Bound COUNT over rows, in total or per group (a histogram)."""
    return sum_sensitivity(unit, 1, 1, grouped=grouped)


def people_sensitivity(unit: Unit, *, grouped: bool = False) -> Sensitivity:
    """Bound the count of people, each counted once, in total or per group."""
    reached = unit.groups  # raises for `Ties`
    groups = Fraction(reached if grouped else 1)
    if grouped and unit.relation is Neighbours.REPLACE_ONE:
        # One person leaves all of its groups and another one enters as many other ones.
        groups *= 2
    return Sensitivity(l1=groups, l2_squared=groups)


def sum_sensitivity(
    unit: Unit, lower: object, upper: object, *, grouped: bool = False, optional: bool = True
) -> Sensitivity:
    """Bound SUM of values clamped to [lower, upper], in total or per group.

    `optional` means that a row may contribute nothing, as under a WHERE or with a NULL; only rows
    that always contribute keep a replacement within upper - lower.
    """
    low, high = bounds(lower, upper, constant=True)
    rows, by_person = unit.max_rows, unit.by_person  # raises for `Ties`
    largest = rows * max(abs(low), abs(high))
    if unit.relation is Neighbours.ADD_REMOVE:
        return Sensitivity(l1=largest, l2_squared=largest**2)
    if optional or grouped or by_person:
        # A row may also contribute nothing, so the interval of its contribution includes zero.
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
    rows = unit.max_rows if unit.by_person else 1  # raises for `Ties`
    if unit.relation is Neighbours.REPLACE_ONE:
        # The number of rows below changes by at most one for each row of the person.
        return Fraction(rows)
    return rows * max(share, 1 - share)
