"""A column: its name, kind, role, domain and hierarchy; and its values as people write them."""

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
    from sfumato.data.schema.hierarchy.base import Hierarchy
    from sfumato.data.schema.spelling import Spelling

LONGEST = 2**16
"""The largest length that can be declared of a text, in characters."""

USUAL_LENGTH = 1000
"""How many characters of a text are read where neither a length nor values are declared."""


class Role(StrEnum):
    """What a column says about the person in the row."""

    IDENTIFIER = "identifier"
    QUASI = "quasi"
    SENSITIVE = "sensitive"
    OTHER = "other"


class Kind(StrEnum):
    """What the values of a column are."""

    INTEGER = "integer"
    REAL = "real"
    TEXT = "text"
    DATE = "date"
    BOOLEAN = "boolean"

    @property
    def type(self) -> type[Scalar]:
        """The Python type of its declared values."""
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
    """One column as its steward declared it. What is declared is public."""

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
        """What everybody may know of its values: the domain, else the leaves of its hierarchy.

        Leaves that were only seen among the rows are not public. Decision `schemas`.
        """
        if self.domain is not None or self.hierarchy is None or self.hierarchy.seen:
            return self.domain
        return None if self.hierarchy.listed is None else Values(self.hierarchy.listed)

    @property
    def characters(self) -> int:
        """How many characters of a text whoever asks a vault can learn of; the rest is cut off.

        One more than the longest declared value has, so that a longer text equals none of them.
        """
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
        """What is declared of it, for people; at the end whether values may be missing."""
        declared = "nothing"
        if isinstance(self.domain, Values):
            declared = count(self.domain.size, "value")
        elif isinstance(self.domain, Bounds):
            declared = f"{self.domain.low} to {self.domain.high}"
        hierarchy_name = "none" if self.hierarchy is None else type(self.hierarchy).__name__.lower()
        missing = "allowed" if self.nullable else "never"
        return self.name, str(self.kind), str(self.role), declared, hierarchy_name, missing

    def _check_types(self) -> None:
        """Read a kind and a role by their words too; refuse what is no domain or hierarchy."""
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
        """A spelling is of the column's kind, and what is declared can be written by it."""
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
        """A length is for texts that are not listed."""
        if self.length is None:
            return
        if self.kind is not Kind.TEXT or self.domain is not None:
            raise SchemaError(
                "length_invalid",
                f"Column {quoted(self.name)} cannot have a length: only texts without declared "
                "values can.",
                hint="Remove it.",
                parameter="length",
            )
        if type(self.length) is not int or not 1 <= self.length <= LONGEST:
            raise SchemaError(
                "length_invalid",
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
    """Refuse bounds for a kind whose values have no distances."""
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

_WRITTEN = {
    Kind.INTEGER: re.compile(r"[+-]?[0-9]{1,19}"),
    Kind.REAL: re.compile(r"[+-]?[0-9]+(\.[0-9]+)?"),
    Kind.DATE: re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    Kind.BOOLEAN: re.compile(r"true|false", re.IGNORECASE),
}


def from_toml(raw: object, kind: Kind) -> Scalar:
    """Read a value of a TOML document; decimals there are Decimals, never floats."""
    value: Scalar | None = None
    match kind, raw:
        case (Kind.BOOLEAN, bool()):
            value = raw
        case (_, bool()):
            pass
        case (Kind.INTEGER, int()):
            value = raw
        case (Kind.REAL, int() | Decimal()):
            value = Decimal(raw)
        case (Kind.DATE, str()):
            value = _day(raw)
        case (Kind.DATE, date()) if not isinstance(raw, datetime):
            value = raw
        case (Kind.TEXT, str()):
            value = raw
    if value is None:
        raise _unfit(raw, kind)
    return value


def from_text(text: str, kind: Kind) -> Scalar:
    """Read a value of a text file."""
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
        "value_kind",
        f"{quoted(str(raw))} is no value of a column of kind {kind}; allowed is {_EXPECTED[kind]}.",
    )
