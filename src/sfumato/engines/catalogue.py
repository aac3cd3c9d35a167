"""The catalogue of a DuckDB file: which tables a name stands for, through views of any depth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from sfumato.engines.failure import table_missing
from sfumato.engines.identity import unresolved

if TYPE_CHECKING:
    from sfumato.engines.duckdb import DuckDB

Key = tuple[str, str]
"""Schema and name, in small letters: DuckDB does not tell case apart."""

_RELATIONS = """
SELECT LOWER(schema_name) AS home, LOWER(table_name) AS name, NULL AS words
FROM duckdb_tables() WHERE database_name = '{catalogue}'
UNION ALL
SELECT LOWER(schema_name), LOWER(view_name), sql
FROM duckdb_views() WHERE database_name = '{catalogue}' AND NOT internal
"""
_MACROS = """
SELECT COUNT(*) AS n FROM duckdb_functions() WHERE database_name = '{catalogue}' AND NOT internal
"""


def tables_read(engine: DuckDB, table: exp.Table) -> set[str]:
    """Name the table, and all that it reads if it is a view, as the catalogue knows them."""
    relations = _rows(engine, _RELATIONS, table.catalog)
    words = {(row["home"], row["name"]): row["words"] for row in relations}
    start = (table.db.lower(), table.name.lower())
    if start not in words:
        raise table_missing("DuckDB", f"{start} is not in the catalogue")
    if words[start] is not None and _rows(engine, _MACROS, table.catalog)[0]["n"]:
        raise unresolved("it is a view in a file with macros, which may read any table")
    found: set[Key] = set()
    waiting = [start]
    while waiting:
        here = waiting.pop()
        if here not in found:
            found.add(here)
            waiting += _named_in(words[here], here[0], words) if words[here] else ()
    return {f"{home}.{name}" for home, name in found}


def _rows(engine: DuckDB, words: str, catalogue: str) -> list[dict[str, str]]:
    query = parse_one(words.format(catalogue=catalogue), dialect="duckdb")
    assert isinstance(query, exp.Query)
    found: list[dict[str, str]] = engine.run(query).to_pylist()
    return found


def _named_in(view: str, home: str, known: dict[Key, str]) -> set[Key]:
    """The relations that a view's words may mean; a name found in two schemas means both."""
    try:
        tree = parse_one(view, dialect="duckdb")
    except SqlglotError:
        raise unresolved("it is a view in words that are not understood") from None
    within = {one.alias.lower() for one in tree.find_all(exp.CTE)}
    found: set[Key] = set()
    query = tree.expression
    if query is None:
        raise unresolved("it is a view in words that are not understood")
    for table in query.find_all(exp.Table):
        name, homes = table.name.lower(), [table.db.lower()] if table.db else [home, "main"]
        meant = {(one, name) for one in homes} & known.keys()
        plain = isinstance(table.this, exp.Identifier)
        if not plain or (not meant and (table.db or name not in within)):
            raise unresolved("it is a view that reads something outside its file")
        found |= meant
    return found
