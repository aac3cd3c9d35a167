"""Check the types of arguments of the Python interface, before any work is done.

A message quotes plain values only. For any other value it names the type, because the `repr` of a
table quotes private rows. Decision `operations`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from pathlib import Path
from typing import Any

from sfumato.errors import ParameterError

_LONGEST = 40
"""The most characters of a value that a message quotes."""
_MOST_BITS = 10_000
"""The most bits of a number that is written out; Python refuses to convert far larger ones."""
_PLAIN = (str, int, float, bool, type(None))


def require(value: object, name: str, kind: type | tuple[type, ...], allowed: str) -> Any:
    """Return a value of one of the types, and refuse any other; `allowed` describes the types.

    True and False are not numbers here, although Python's bool is a subclass of int.
    """
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise ParameterError(
            "parameter_type_wrong",
            f"{name} must be {allowed}, not {shown(value)}.",
            parameter=name,
            given=shown(value),
            allowed=allowed,
        )
    return value


def text(value: object, name: str) -> str:
    """Read a text."""
    checked: str = require(value, name, str, "a text")
    return checked


def maybe_text(value: object, name: str) -> str | None:
    """Read a text or None."""
    checked: str | None = require(value, name, (str, type(None)), "a text or None")
    return checked


def path(value: object, name: str) -> Path:
    """Read the path of a file."""
    # Python raises ValueError for a NUL deep inside a read; here the message names the parameter.
    checked = Path(require(value, name, (str, Path), "a path, as text or pathlib.Path"))
    if "\0" in str(checked):
        raise ParameterError(
            "parameter_type_wrong", f"{name} must be a path that a file can have.", parameter=name
        )
    return checked


def whole(value: object, name: str) -> int:
    """Read a whole number."""
    checked: int = require(value, name, int, "a whole number")
    return checked


def seconds(value: object, name: str) -> float:
    """Read a time limit in seconds."""
    # Also refuses NaN, which no comparison holds for.
    limit = float(require(value, name, (int, float), "a number of seconds"))
    if not 0 <= limit <= threading.TIMEOUT_MAX:
        raise ParameterError(
            "parameter_type_wrong",
            f"{name} must be a number of seconds from 0 on, not {shown(value)}.",
            parameter=name,
            given=shown(value),
        )
    return limit


def flag(value: object, name: str) -> bool:
    """Read a truth value."""
    checked: bool = require(value, name, bool, "True or False")
    return checked


def maybe_flag(value: object, name: str) -> bool | None:
    """Read a truth value or None."""
    return None if value is None else flag(value, name)


def names(value: object, name: str, noun: str = "names") -> tuple[str, ...]:
    """Read one text or a list of texts; `noun` says in messages what they are."""
    # A single text would otherwise be read as a list of its letters.
    entries = (value,) if isinstance(value, str) else value
    if not isinstance(entries, list | tuple):
        raise ParameterError(
            "parameter_type_wrong",
            f"{name} must be a list of {noun}, not {shown(value)}.",
            parameter=name,
            given=shown(value),
        )
    for entry in entries:
        if not isinstance(entry, str):
            raise ParameterError(
                "parameter_type_wrong",
                f"{name} must be a list of {noun}, each of them a text, but has {shown(entry)}.",
                parameter=name,
                given=shown(entry),
            )
    return tuple(entries)


def amounts(value: object, name: str) -> Mapping[str, Any] | None:
    """Read a mapping of names to numbers, or None."""
    if value is None:
        return None
    checked: Mapping[str, Any] = require(value, name, (Mapping,), "numbers by name, as {'n': 2}")
    for key in checked:
        text(key, f"A name in {name}")
    return checked


def plain(value: Any, name: str) -> Any:
    """Read a value that JSON can hold, and return it as JSON holds it.

    Decimals and fractions become texts, days YYYY-MM-DD; arrays of NumPy become lists.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and isfinite(value):
        return float(value)
    if isinstance(value, Decimal | Fraction):
        return str(value)
    if isinstance(value, date):
        return (value.date() if isinstance(value, datetime) else value).isoformat()
    if isinstance(value, Mapping):
        return {str(key): plain(entry, name) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry, name) for entry in value]
    if hasattr(value, "tolist"):  # of NumPy: finer times than days would become numbers
        days = value.astype("datetime64[D]") if value.dtype.kind == "M" else value
        return plain(days.tolist(), name)
    raise ParameterError(
        "request_malformed",
        f"{name} must be plain: numbers, texts, truth values, dates, or lists of them, not "
        f"{shown(value)}.",
        parameter=name,
    )


def one_of(value: object, name: str, allowed: tuple[str, ...]) -> None:
    """Refuse a value that is none of the allowed words."""
    if not isinstance(value, str) or value not in allowed:
        choices = ", ".join(repr(str(choice)) for choice in allowed)
        raise ParameterError(
            "choice_unknown",
            f"{name} must be one of {choices}, not {shown(value)}.",
            parameter=name,
            given=shown(value),
            allowed=[str(choice) for choice in allowed],
        )


def shown(value: object) -> str:
    """Write a value for a message: plain values as they are, others by their type."""
    if not isinstance(value, _PLAIN):
        return f"a value of type {type(value).__name__}"
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return "a number of very many digits"
    # Only plain values get here: the repr of a table would quote its rows.
    literal = repr(value)
    return literal if len(literal) <= _LONGEST else f"{literal[: _LONGEST - 3]}..."
