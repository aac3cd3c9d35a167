"""Read the query string of a URL, as strictly as a body."""

from __future__ import annotations

from urllib.parse import parse_qsl

from sfumato.data.schema.names import quoted
from sfumato.errors import ParameterError


def read_query(raw: bytes) -> dict[str, str]:
    """Read the parameters of a query string by name.

    A parameter that is given twice is refused: proxies and servers disagree on which one counts.
    """
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
            "A query string must be written name=value&name=value, in UTF-8.",
        ) from None
    values: dict[str, str] = {}
    for name, value in pairs:
        if name in values:
            raise ParameterError(
                "request_malformed", f"{quoted(name)} is given twice. Give it once."
            )
        values[name] = value
    return values


def check_no_query(raw: bytes) -> None:
    """Refuse a query string where none is read."""
    for name in read_query(raw):
        raise ParameterError(
            "option_unknown", f"{quoted(name)} is not known here; this takes no query string."
        )
