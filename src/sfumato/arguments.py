"""What callers of the library give: a wrong type is refused in words, at the door.

Messages that name a flag of the command line name the keyword instead to those who call Python.
Values that are not plain are told by their type alone: the text of a table quotes its rows.
Decision 0226.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from sfumato.errors import ParameterError

P = ParamSpec("P")
R = TypeVar("R")

_LONGEST = 40
_MOST_BITS = 10_000
_PLAIN = (str, int, float, bool, type(None))


def require(value: object, name: str, kind: type | tuple[type, ...], allowed: str) -> Any:
    """Refuse a value that is not of a kind; `allowed` says in words what is."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise ParameterError("type_wrong", f"{name} must be {allowed}, not {shown(value)}.")
    return value


def text(value: object, name: str) -> str:
    """Read a text."""
    found: str = require(value, name, str, "a text")
    return found


def maybe_text(value: object, name: str) -> str | None:
    """Read a text, or nothing."""
    found: str | None = require(value, name, (str, type(None)), "a text or None")
    return found


def path(value: object, name: str) -> Path:
    """Read where a file is or goes."""
    found = Path(require(value, name, (str, Path), "a path, as text or pathlib.Path"))
    if "\0" in str(found):
        raise ParameterError("type_wrong", f"{name} must be a path that a file can have.")
    return found


def whole(value: object, name: str) -> int:
    """Read a whole number."""
    found: int = require(value, name, int, "a whole number")
    return found


def seconds(value: object, name: str) -> float:
    """Read how long to wait at most."""
    found = float(require(value, name, (int, float), "a number of seconds"))
    if not 0 <= found <= threading.TIMEOUT_MAX:
        raise ParameterError(
            "type_wrong", f"{name} must be a number of seconds from 0 on, not {shown(value)}."
        )
    return found


def flag(value: object, name: str) -> bool:
    """Read a truth value."""
    found: bool = require(value, name, bool, "True or False")
    return found


def maybe_flag(value: object, name: str) -> bool | None:
    """Read a truth value, or nothing."""
    return None if value is None else flag(value, name)


def names(value: object, name: str, what: str = "names") -> tuple[str, ...]:
    """Read names, or other texts: one, or a list of them."""
    found = (value,) if isinstance(value, str) else value
    if not isinstance(found, list | tuple):
        raise ParameterError("type_wrong", f"{name} must be a list of {what}, not {shown(value)}.")
    for one in found:
        if not isinstance(one, str):
            raise ParameterError(
                "type_wrong",
                f"{name} must be a list of {what}, each of them a text, but has {shown(one)}.",
            )
    return tuple(found)


def amounts(value: object, name: str) -> Mapping[str, Any] | None:
    """Read numbers by name, or nothing."""
    if value is None:
        return None
    found: Mapping[str, Any] = require(value, name, (Mapping,), "numbers by name, as {'n': 2}")
    for one in found:
        text(one, f"A name in {name}")
    return found


def one_of(value: object, name: str, allowed: tuple[str, ...]) -> None:
    """Refuse what is none of some words."""
    if not isinstance(value, str) or value not in allowed:
        words = ", ".join(repr(str(one)) for one in allowed)
        raise ParameterError("word_unknown", f"{name} must be one of {words}, not {shown(value)}.")


def shown(value: object) -> str:
    """A value in a message: plain ones as they are written, others by their type."""
    if not isinstance(value, _PLAIN):
        return f"a value of type {type(value).__name__}"
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return "a number of very many digits"  # which Python refuses to write
    written = repr(value)
    return written if len(written) <= _LONGEST else f"{written[: _LONGEST - 3]}..."
