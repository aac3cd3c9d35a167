"""What to write into a schema where something is not declared: one sentence for every door."""

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
"""For each kind an example of a line that declares which values there can be."""

NOT_NULLABLE = "nullable = false"


def key(name: str) -> str:
    """A name as a key of TOML, in quotes where it must be."""
    if _BARE_KEY.fullmatch(name):
        return name
    escaped = _ESCAPED.sub(lambda sign: f"\\u{ord(sign[0]):04x}", name)
    return f'"{escaped}"'


def section(name: str) -> str:
    """The head of a column's section."""
    return f"[columns.{key(name)}]"


def add_line(name: str, line: str, *, schema: str = "its schema") -> str:
    """Say which line to add for a column, as the end of a message."""
    return f"Add to {section(name)} in {schema}: {line}"
