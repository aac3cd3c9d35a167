"""What stands behind the question mark of an address, read as strictly as a body."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from sfumato.data.schema.names import quoted
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.server.request_schemas import Input

_WHOLE = re.compile(r"-?\d{1,18}", re.ASCII)
_FLAGS = {"true": True, "false": False}


def read_query(form: Iterable[Input], raw: bytes) -> dict[str, Any]:
    """The parameters of an address by name; one that comes twice is refused."""
    kinds = {one.name: one.schema.get("type") for one in form}
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
            "What stands behind the '?' must be written name=value&name=value, in UTF-8.",
        ) from None
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ParameterError(
                "request_malformed", f"{quoted(name)} is given twice. Give it once."
            )
        found[name] = _read(value, kinds.get(name))
    if kinds or not found:
        return found
    name = next(iter(found))
    raise ParameterError(
        "option_unknown", f"{quoted(name)} is not known here; nothing may stand behind the '?'."
    )


def _read(value: str, kind: str | None) -> object:
    if kind == "integer" and _WHOLE.fullmatch(value):
        return int(value)
    return _FLAGS.get(value, value) if kind == "boolean" else value
