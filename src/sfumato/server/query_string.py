"""Read the query string of a URL, as strictly as a body."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from sfumato.data.schema.names import quoted
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.server.request_schemas import Input

# At most 18 digits: longer numbers are slow to convert and fit no parameter.
_INTEGER = re.compile(r"-?\d{1,18}", re.ASCII)
_FLAGS = {"true": True, "false": False}


def read_query(form: Iterable[Input], raw: bytes) -> dict[str, Any]:
    """Read the parameters of a query string by name.

    A parameter that is given twice is refused: proxies and servers disagree on which one counts.
    """
    kinds = {parameter.name: parameter.schema.get("type") for parameter in form}
    # 50 fields are far more than any route takes; parsing thousands would take time.
    try:
        pairs = parse_qsl(
            raw.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(raw),
            encoding="utf-8",
            errors="strict",
            max_num_fields=50,
        )
    except ValueError:
        raise ParameterError(
            "request_malformed",
            "The query string must be written name=value&name=value, in UTF-8.",
        ) from None
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise ParameterError(
                "request_malformed", f"{quoted(name)} is given twice. Give it once."
            )
        values[name] = _read(value, kinds.get(name))
    if kinds or not values:
        return values
    name = next(iter(values))
    raise ParameterError(
        "option_unknown", f"{quoted(name)} is unknown: this path takes no query string."
    )


def _read(value: str, kind: str | None) -> object:
    if kind == "integer" and _INTEGER.fullmatch(value):
        return int(value)
    return _FLAGS.get(value, value) if kind == "boolean" else value
