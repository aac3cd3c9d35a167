"""Advice on a missing declaration: the line to add to the schema."""

from __future__ import annotations

import re

from sfumato.data.schema.column import Kind

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPED = re.compile(r'["\\\x00-\x1f\x7f]')

DOMAIN = {
    Kind.INTEGER: "bounds = [0, 110]",
    Kind.REAL: "bounds = [0.0, 100.0]",
    Kind.DATE: "bounds = [2020-01-01, 2025-12-31]",
    Kind.TEXT: 'values = ["one", "another"]',
    Kind.BOOLEAN: "values = [false, true]",
}
"""For each kind an example of a line that declares the domain."""

NOT_NULLABLE = "nullable = false"


def key(name: str) -> str:
    """A name as a TOML key, quoted where it must be."""
    if _BARE_KEY.fullmatch(name):
        return name
    escaped = _ESCAPED.sub(lambda sign: f"\\u{ord(sign[0]):04x}", name)
    return f'"{escaped}"'


def section(name: str) -> str:
    """The header of the section of a column."""
    return f"[columns.{key(name)}]"


def add_line(name: str, line: str, *, schema: str = "its schema") -> str:
    """The end of a message: the line to add to the section of a column."""
    return f"Add to {section(name)} in {schema}: {line}"
