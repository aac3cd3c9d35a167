"""Declared values as people write them, in TOML and in text files, read by their column's kind."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from sfumato.errors import SchemaError
from sfumato.schema.column import Kind
from sfumato.schema.names import quoted

if TYPE_CHECKING:
    from sfumato.schema.domain import Scalar

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
