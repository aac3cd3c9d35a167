"""Columns: name, kind, role, domain and hierarchy; and how values are read from TOML and text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from sfumato import arguments
from sfumato.data.schema.domain import Bounds, Scalar, Values
from sfumato.data.schema.names import check_name, count, quoted
from sfumato.errors import ParameterError, SchemaError

if TYPE_CHECKING:
    from sfumato.data.schema.domain import Domain
    from sfumato.data.schema.hierarchy import Hierarchy
    from sfumato.data.schema.spelling import Spelling

LONGEST = 2**16
"""The largest length, in characters, that a schema can declare for a text column."""

USUAL_LENGTH = 1000
"""Characters read of a text where the schema declares neither a length nor values."""


class Role(StrEnum):
    """The role of a column in identifying the person of the row.

    IDENTIFIER names the person (a name, an insurance number). QUASI is known to others and narrows
    down who the person is (age, zip code). SENSITIVE is what nobody may learn about the person (an
    illness). OTHER is none of these.

    Example
    -------
    >>> import sfumato as sf
    >>> age = sf.Column("age", sf.Kind.INTEGER, sf.Role.QUASI)
    >>> sf.Schema("people", (age,)).by_role(sf.Role.QUASI)[0].name
    'age'
    """

    IDENTIFIER = "identifier"
    QUASI = "quasi"
    SENSITIVE = "sensitive"
    OTHER = "other"


class Kind(StrEnum):
    """The type of a column's values: whole numbers, reals, texts, dates or booleans.

    Example
    -------
    >>> import sfumato as sf
    >>> sf.Column("age", sf.Kind.INTEGER).kind.value
    'integer'
    """

    INTEGER = "integer"
    REAL = "real"
    TEXT = "text"
    DATE = "date"
    BOOLEAN = "boolean"

    @property
    def type(self) -> type[Scalar]:
        """The Python type of declared values; reals are `Decimal`, so that they are exact."""
        return _TYPES[self]


_TYPES: dict[Kind, type[Scalar]] = {
    Kind.INTEGER: int,
    Kind.REAL: Decimal,
    Kind.TEXT: str,
    Kind.DATE: date,
    Kind.BOOLEAN: bool,
}


@dataclass(frozen=True)
class Column:
    """One column as its owner declares it. Whatever is declared counts as public.

    Parameters
    ----------
    name : str
        The exact name in the table.
    kind : Kind or str
        The type of the values: "integer", "real", "text", "date" or "boolean".
    role : Role or str
        What the column says about a person: "identifier", "quasi", "sensitive" or "other".
    domain : Values or Bounds, optional
        The values that can occur. Differentially private methods need it.
    hierarchy : Calendar, Mask, Removal, Tree or Widths, optional
        How anonymization makes the values coarser.
    nullable : bool
        Whether values may be missing.
    length : int, optional
        The longest text, from 1 to 65,536 characters, for a text column without a domain.
    spelling : optional
        How dates or numbers are written in a text file, such as 24.12.1976.

    Raises
    ------
    SchemaError
        If the declarations contradict each other, such as text values of an integer column.

    Example
    -------
    >>> import sfumato as sf
    >>> age = sf.Column("age", "integer", "quasi", domain=sf.Bounds(0, 110))
    >>> age.domain.size
    111
    """

    name: str
    kind: Kind
    role: Role = Role.OTHER
    domain: Domain | None = None
    hierarchy: Hierarchy | None = None
    nullable: bool = True
    length: int | None = None
    spelling: Spelling | None = None

    @cached_property
    def public_domain(self) -> Domain | None:
        """The values that are public: the domain, else the leaves of the hierarchy.

        Leaves that `inspect` read from the rows are not public. Decision `schemas`.
        """
        if self.domain is not None or self.hierarchy is None or self.hierarchy.seen:
            return self.domain
        return None if self.hierarchy.listed is None else Values(self.hierarchy.listed)

    @property
    def characters(self) -> int:
        """The number of characters of a text that queries see; the rest is cut off."""
        # One more than the longest declared value has: a longer text, once cut, must not become
        # equal to a declared value.
        known = self.public_domain
        if isinstance(known, Values):
            return 1 + max(len(str(value)) for value in known.values)
        return self.length or USUAL_LENGTH

    def __post_init__(self) -> None:
        check_name(arguments.text(self.name, "The name of a column"), "A column")
        self._check_types()
        self._check_domain()
        self._check_length()
        self._check_hierarchy()
        self._check_spelling()

    def describe(self) -> tuple[str, ...]:
        """One row of the schema overview: name, kind, role, domain, hierarchy, missing values."""
        declared = "nothing"
        if isinstance(self.domain, Values):
            declared = count(self.domain.size, "value")
        elif isinstance(self.domain, Bounds):
            declared = f"{self.domain.low} to {self.domain.high}"
        hierarchy_name = "none" if self.hierarchy is None else type(self.hierarchy).__name__.lower()
        missing = "allowed" if self.nullable else "never"
        return self.name, str(self.kind), str(self.role), declared, hierarchy_name, missing

    def _check_types(self) -> None:
        """Convert names of kinds and roles to enum members; refuse other types."""
        arguments.one_of(self.kind, "kind", tuple(Kind))
        arguments.one_of(self.role, "role", tuple(Role))
        arguments.flag(self.nullable, "nullable")
        object.__setattr__(self, "kind", Kind(self.kind))
        object.__setattr__(self, "role", Role(self.role))
        domains = (Values, Bounds, type(None))
        arguments.require(self.domain, "domain", domains, "sf.Values, sf.Bounds or None")
        if self.kind is Kind.REAL and self.domain is not None:
            object.__setattr__(self, "domain", self.domain.reals())
        if not (self.hierarchy is None or hasattr(self.hierarchy, "grow")):
            raise ParameterError(
                "parameter_type_wrong",
                "hierarchy must be sf.Mask, sf.Widths, sf.Calendar, sf.Removal or sf.Tree, not "
                f"{arguments.shown(self.hierarchy)}.",
                parameter="hierarchy",
                given=arguments.shown(self.hierarchy),
            )

    def _check_domain(self) -> None:
        if self.domain is None:
            return
        if isinstance(self.domain, Bounds):
            check_ordered(self.name, self.kind)
        declared: tuple[Scalar, ...]
        if isinstance(self.domain, Values):
            declared = self.domain.values
        else:
            declared = (self.domain.low, self.domain.high)
            step_type = Decimal if self.kind is Kind.REAL else int
            if self.domain.step is not None and type(self.domain.step) is not step_type:
                raise self._misfit(self.domain.step)
        for value in declared:
            if type(value) is not self.kind.type:
                raise self._misfit(value)

    def _check_spelling(self) -> None:
        """Refuse a spelling of another kind, or one that cannot write a declared value."""
        if self.spelling is None:
            return
        if self.kind not in self.spelling.kinds:
            raise SchemaError(
                "spelling_invalid",
                f"Column {quoted(self.name)} is {self.kind}, but {self.spelling.lines} is for "
                f"{' or '.join(sorted(self.spelling.kinds))} columns.",
                hint="Change one of them.",
                parameter="spelling",
            )
        declared: list[Scalar] = []
        if isinstance(self.domain, Values):
            declared += self.domain.values
        elif self.domain is not None:
            declared += (self.domain.low, self.domain.high)
        if self.hierarchy is not None:
            declared += self.hierarchy.declared or ()
        # A declared value that does not survive writing and reading could never equal a cell.
        for value in declared:
            if self.spelling.read(self.spelling.write(value), self.kind) != value:
                raise SchemaError(
                    "spelling_invalid",
                    f"Column {quoted(self.name)} declares {quoted(str(value))}, which cannot be "
                    f"written as its cells are, by {self.spelling.lines}.",
                    hint="Change one of them.",
                    parameter="spelling",
                )

    def _check_length(self) -> None:
        """Refuse a length unless the column is text without declared values."""
        if self.length is None:
            return
        if self.kind is not Kind.TEXT or self.domain is not None:
            raise SchemaError(
                "bounds_invalid",
                f"Column {quoted(self.name)} cannot have a length: only texts without declared "
                "values can.",
                hint="Remove it.",
                parameter="length",
            )
        if type(self.length) is not int or not 1 <= self.length <= LONGEST:
            raise SchemaError(
                "bounds_invalid",
                f"The length of column {quoted(self.name)} is {arguments.shown(self.length)}; "
                f"allowed is a whole number of characters from 1 to {LONGEST:,}.",
                parameter="length",
            )

    def _misfit(self, value: Scalar) -> SchemaError:
        return SchemaError(
            "domain_invalid",
            f"Column {quoted(self.name)} is {self.kind}, but {quoted(str(value))} in its domain "
            f"is of type {type(value).__name__}; allowed is {self.kind.type.__name__}.",
        )

    def _check_hierarchy(self) -> None:
        if self.hierarchy is None:
            return
        if self.kind not in self.hierarchy.kinds:
            raise SchemaError(
                "hierarchy_invalid",
                f"Column {quoted(self.name)} is {self.kind}, but its hierarchy is for "
                f"{' or '.join(sorted(self.hierarchy.kinds))} columns; change one of them.",
                parameter="hierarchy",
            )
        leaves = self.hierarchy.declared
        if leaves is None or not isinstance(self.domain, Values):
            return
        listed_leaves = set(leaves)
        absent = [value for value in self.domain.values if value not in listed_leaves]
        if absent:
            names = ", ".join(quoted(str(value)) for value in absent[:5])
            absent_count = count(len(absent), "declared value")
            raise SchemaError(
                "value_outside_domain",
                f"The hierarchy of column {quoted(self.name)} has no place for {absent_count}: "
                f"{names}{', ...' if len(absent) > 5 else ''}.",
                hint="Add them to it.",
                parameter="hierarchy",
            )


def check_ordered(name: str, kind: Kind) -> None:
    """Refuse bounds for text and booleans, whose values have no distances."""
    if kind in (Kind.TEXT, Kind.BOOLEAN):
        raise SchemaError(
            "bounds_invalid",
            f"Column {quoted(name)} is {kind} and cannot have bounds; list its values instead.",
            parameter="bounds",
        )


_EXPECTED = {
    Kind.INTEGER: "a whole number such as 42",
    Kind.REAL: "a number such as 0.5",
    Kind.TEXT: 'a text in quotes such as "red"',
    Kind.DATE: "a date that exists, written YYYY-MM-DD",
    Kind.BOOLEAN: "true or false",
}

# Plain forms of values in text files such as hierarchies; digits are ASCII only.
_WRITTEN = {
    Kind.INTEGER: re.compile(r"[+-]?[0-9]{1,19}"),
    Kind.REAL: re.compile(r"[+-]?[0-9]+(\.[0-9]+)?"),
    Kind.DATE: re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    Kind.BOOLEAN: re.compile(r"true|false", re.IGNORECASE),
}


def from_toml(raw: object, kind: Kind) -> Scalar:
    """Convert a value of a TOML document. Reals arrive as `Decimal`, never as floats."""
    value: Scalar | None = None
    match kind, raw:
        case (Kind.BOOLEAN, bool()):
            value = raw
        case (_, bool()):  # bool is a subclass of int: refuse it before the integer case
            pass
        case (Kind.INTEGER, int()):
            value = raw
        case (Kind.REAL, int() | Decimal()):
            value = Decimal(raw)
        case (Kind.DATE, str()):
            value = _day(raw)
        case (Kind.DATE, date()) if not isinstance(raw, datetime):  # a datetime is a date too
            value = raw
        case (Kind.TEXT, str()):
            value = raw
    if value is None:
        raise _unfit(raw, kind)
    return value


def from_text(text: str, kind: Kind) -> Scalar:
    """Convert a value of a text file in its plain spelling, such as 2020-01-31."""
    if kind is Kind.TEXT:
        return text
    if not _WRITTEN[kind].fullmatch(text):
        raise _unfit(text, kind)
    if kind is Kind.DATE:
        return _day(text)
    if kind is Kind.BOOLEAN:
        return text.lower() == "true"
    return int(text) if kind is Kind.INTEGER else Decimal(text)


def _day(text: str) -> date:
    try:
        if not _WRITTEN[Kind.DATE].fullmatch(text):
            raise ValueError
        return date.fromisoformat(text)
    except ValueError:
        raise _unfit(text, Kind.DATE) from None


def _unfit(raw: object, kind: Kind) -> SchemaError:
    return SchemaError(
        "kind_mismatch",
        f"{quoted(str(raw))} is no value of a column of kind {kind}; allowed is {_EXPECTED[kind]}.",
    )
