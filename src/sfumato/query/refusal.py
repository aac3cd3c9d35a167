"""Where in a question something stands, for messages: the part, its line and its column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot.errors import SqlglotError
from sqlglot.generator import Generator

from sfumato.errors import QueryError
from sfumato.schema.names import quoted

if TYPE_CHECKING:
    from sqlglot import exp


class _Words(Generator):
    """Writes what the parser accepts: DIV, which else becomes a cast of a quotient."""

    def intdiv_sql(self, expression: exp.IntDiv) -> str:
        """x DIV y, as it was written."""
        return self.binary(expression, "DIV")


def part(node: exp.Expr) -> str:
    """Name a part of a question: its words and, where known, its place."""
    try:
        words = _Words(comments=False).generate(node)
    except (SqlglotError, ValueError, RecursionError):
        words = type(node).__name__
    return f"{quoted(words)}{place(node)}"


def place(node: exp.Expr) -> str:
    """Say at which line and column a part begins; nothing where the parser did not note it."""
    starts = [
        (found.meta["line"], found.meta["col"] - (found.meta["end"] - found.meta["start"]))
        for found in node.walk()
        if "line" in found.meta
    ]
    if not starts:
        return ""
    line, column = min(starts)
    return f" (line {line}, column {column})"


def check_modifiers(node: exp.Expr, allowed: set[str]) -> None:
    """Refuse a node with parts that its rule would overlook, so that none is silently dropped."""
    strange = {name for name, given in node.args.items() if given} - allowed
    if strange:
        raise QueryError(
            "modifier_not_allowed",
            f"Cannot use {part(node)} with {', '.join(sorted(strange)).upper()}. Leave that out.",
        )
