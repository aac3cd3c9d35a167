"""Read the options of a method: Python callers pass values, the command line passes texts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sfumato import arguments
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence


def whole(value: object, name: str, *, least: int, most: int) -> int:
    """Read a whole number between two bounds."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ParameterError(
            "parameter_out_of_range",
            f"{name} must be a whole number from {least:,} to {most:,}, not "
            f"{arguments.shown(value)}.",
            parameter=name,
            given=arguments.shown(value),
        )
    return value


def choice(value: object, name: str, allowed: Sequence[str]) -> str:
    """Read one of the allowed texts."""
    if value not in allowed:
        text = value if isinstance(value, str) else arguments.shown(value)
        raise ParameterError(
            "option_not_applicable",
            f"{name} cannot be {quoted(text)}; {suggestion(text, list(allowed))}",
        )
    return str(value)


def several(value: object, name: str) -> tuple[str, ...]:
    """Read a list of texts, or one text with commas between them."""
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(entry, str) for entry in names):
        raise ParameterError(
            "parameter_type_wrong",
            f"{name} must be a list of names, not {arguments.shown(value)}.",
            parameter=name,
            given=arguments.shown(value),
        )
    return tuple(entry.strip() for entry in names)
