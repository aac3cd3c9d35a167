"""From a query tree to the words of one engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import ErrorLevel, exp
from sqlglot.errors import ParseError

from sfumato.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping


def render(tree: exp.Expr, dialect: str) -> str:
    """Write a tree in a dialect: every identifier quoted, no comments, nothing unsupported."""
    return tree.sql(
        dialect=dialect, identify=True, comments=False, unsupported_level=ErrorLevel.RAISE
    )


def named(name: str) -> exp.Table:
    """Refer to a table by one exact name."""
    return exp.Table(this=exp.to_identifier(name, quoted=True))


def column(name: str) -> exp.Column:
    """Refer to a column by its exact name."""
    return exp.Column(this=exp.to_identifier(name, quoted=True))


def everything(table: exp.Expr) -> exp.Select:
    """Select all columns of a table."""
    return exp.select(exp.Star()).from_(table)


def casting(table: exp.Expr, types: Mapping[str, str | None]) -> exp.Select:
    """Select the named columns, each cast to a type, or as it is where the type is None."""
    return exp.select(
        *(
            column(name) if to is None else exp.cast(column(name), to).as_(name, quoted=True)
            for name, to in types.items()
        )
    ).from_(table)


def created(kind: str, name: str, query: exp.Query) -> exp.Create:
    """Make a new view or table from a query."""
    return exp.Create(this=named(name), kind=kind, expression=query)


def dropped(kind: str, table: exp.Table) -> exp.Drop:
    """Remove a view or table."""
    return exp.Drop(tables=[table.copy()], kind=kind)


def source_table(url: str, dialect: str) -> tuple[str, exp.Table]:
    """Split a URL into its address and the table named after the '#'."""
    address, _, name = url.partition("#")
    try:
        table = exp.to_table(name, dialect=dialect)
    except ParseError:
        table = None
    parts = {part for part, value in table.args.items() if value} if table else set()
    if table is None or not {"this"} <= parts <= {"this", "db", "catalog"}:
        raise SourceError(
            "source_url_malformed",
            f"The address of a {dialect} source must end in #table or #schema.table.",
        )
    return address, table
