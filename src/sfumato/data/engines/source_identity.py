"""The identity of a source, however it is named: the files of a path, the tables of a name.

A vault compares identities, so that no table has two budgets under two names. The catalogue of a
DuckDB file says which tables a view reads, at any depth.

Decision `source-identity`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from sfumato.data.engines.base import table_missing
from sfumato.data.files.file_identity import RegularFile, regular_file
from sfumato.data.files.formats import files_beneath, is_parquet, parquet_paths
from sfumato.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from sfumato.data.engines.duckdb import DuckDB


@dataclass(frozen=True)
class Identity:
    """The files or tables that a source reads.

    `names` are paths or qualified tables; they stay when a file or table is replaced. `also` are
    names of parts and containers: the files of a folder, the parent of a partition. `nodes` are
    device and inode; they survive a move, but a file system reuses them after deletion. `version`
    identifies the state of the files; it is None if a server keeps the rows.
    """

    names: frozenset[str]
    also: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    version: str | None = None

    def matches(self, other: Identity) -> bool:
        """Return whether both may read some of the same rows; a common container does not count."""
        return bool(
            self.names & (other.names | other.also)
            or self.also & other.names
            or self.nodes & other.nodes
        )


@runtime_checkable
class Resolving(Protocol):
    """An engine that finds the identity of its table in a catalogue."""

    def identity(self) -> Identity:
        """Return the identity of the table of the engine."""
        ...


def identity_of_path(path: Path) -> Identity:
    """The identity of a file, a folder of Parquet files or a pattern, by real paths and inodes.

    A pattern stands for the files that match it now. The folders above are in `also`, because one
    of them may be registered and contain these files.
    """
    if not is_parquet(path):
        file = regular_file(path)
        return _identity([file.path], [], [file])
    files = [regular_file(entry) for entry in parquet_paths(path) if not entry.is_dir()]
    paths = [file.path for file in files]
    if not path.is_dir():
        return _identity(paths, {above for entry in paths for above in entry.parents}, files)
    real = path.resolve()
    strange = [entry for entry in paths if real not in entry.parents]
    return _identity([real, *strange], {*paths, *real.parents}.difference(strange), files)


def identity_of_folder(folder: Path) -> Identity:
    """Return the identity of a folder that a server reads, with all files in it."""
    files = files_within(folder)
    return _identity([folder.resolve()], [file.path for file in files], files)


def files_within(folder: Path) -> list[RegularFile]:
    """Return the files of a folder that a server reads; it skips names that begin with . or _."""
    files = (file for file in files_beneath(folder) if file.name[0] not in "._")
    return [regular_file(file) for file in sorted(files)]


def identity_of_tables(file: RegularFile, tables: Iterable[str]) -> Identity:
    """Return the identity of tables of a DuckDB file, by their names in the catalogue."""
    listed = list(tables)
    return Identity(
        frozenset(f"duckdb://{file.path}#{table}" for table in listed),
        nodes=frozenset(f"{_node(file)}#{table}" for table in listed),
        version=_version([file]),
    )


def unresolved(reason: str) -> SourceError:
    """Return the refusal of a source that may read unknown tables."""
    return SourceError(
        "source_unsupported",
        f"Cannot tell which rows this source reads: {reason}.",
        hint="Add the tables that it reads, or copy its rows into a table of its own.",
    )


def _identity(
    names: Iterable[Path], also: Iterable[Path], files: Iterable[RegularFile]
) -> Identity:
    return Identity(
        frozenset(map(str, names)),
        frozenset(map(str, also)),
        frozenset(map(_node, files)),
        _version(files),
    )


def _node(file: RegularFile) -> str:
    return f"{file.version.device}:{file.version.node}"


def _version(files: Iterable[RegularFile]) -> str:
    return repr(sorted((str(file.path), repr(file.version)) for file in files))


QualifiedName = tuple[str, str]
"""Schema and name in lower case, because DuckDB ignores case."""

_RELATIONS = """
SELECT LOWER(schema_name) AS home, LOWER(table_name) AS name, NULL AS definition
FROM duckdb_tables() WHERE database_name = '{catalogue}'
UNION ALL
SELECT LOWER(schema_name), LOWER(view_name), sql
FROM duckdb_views() WHERE database_name = '{catalogue}' AND NOT internal
"""
# A view that calls a macro may read any table, so files with macros have no known identity.
_MACROS = """
SELECT COUNT(*) AS n FROM duckdb_functions() WHERE database_name = '{catalogue}' AND NOT internal
"""


def tables_read(engine: DuckDB, table: exp.Table) -> set[str]:
    """Return the table and, if it is a view, all tables that it reads, as schema.name."""
    relations = _rows(engine, _RELATIONS, table.catalog)
    definitions = {(row["home"], row["name"]): row["definition"] for row in relations}
    start = (table.db.lower(), table.name.lower())
    if start not in definitions:
        raise table_missing("DuckDB", f"{start} is not in the catalogue")
    if definitions[start] is not None and _rows(engine, _MACROS, table.catalog)[0]["n"]:
        raise unresolved("it is a view in a file with macros, which may read any table")
    reached: set[QualifiedName] = set()
    waiting = [start]
    while waiting:
        relation = waiting.pop()
        if relation not in reached:
            reached.add(relation)
            if definition := definitions[relation]:
                waiting += _named_in(definition, relation[0], definitions)
    return {f"{home}.{name}" for home, name in reached}


def _rows(engine: DuckDB, sql: str, catalogue: str) -> list[dict[str, str]]:
    query = parse_one(sql.format(catalogue=catalogue), dialect="duckdb")
    assert isinstance(query, exp.Query)
    rows: list[dict[str, str]] = engine.run(query).to_pylist()
    return rows


def _named_in(view: str, home: str, known: dict[QualifiedName, str]) -> set[QualifiedName]:
    """The relations that the SQL of a view may read; a name in two schemas counts as both."""
    try:
        tree = parse_one(view, dialect="duckdb")
    except SqlglotError:
        raise unresolved("it is a view in words that are not understood") from None
    local_names = {table.alias.lower() for table in tree.find_all(exp.CTE)}
    relations: set[QualifiedName] = set()
    query = tree.expression
    if query is None:
        raise unresolved("it is a view in words that are not understood")
    for table in query.find_all(exp.Table):
        name, homes = table.name.lower(), [table.db.lower()] if table.db else [home, "main"]
        candidates = {(schema, name) for schema in homes} & known.keys()
        plain = isinstance(table.this, exp.Identifier)
        if not plain or (not candidates and (table.db or name not in local_names)):
            raise unresolved("it is a view that reads something outside its file")
        relations |= candidates
    return relations
