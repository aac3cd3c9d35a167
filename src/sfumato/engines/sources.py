"""From what a person names, a path, a URL or a table in memory, to an engine opened on it.

What a source tells without its rows, which files it is and which columns they have, is public:
nothing of that depends on any row, so it may be looked at before a charge.

Decision 0178.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from sqlglot import exp
from sqlglot.errors import ParseError

from sfumato.engines.base import everything, translating_errors
from sfumato.engines.duckdb import MEMORY_LIMIT, DuckDB, translate
from sfumato.engines.files.cells import check_names, conform
from sfumato.engines.files.csv import CsvFile, names_told
from sfumato.engines.files.parquet import parquet_files, rows_of, schema_told
from sfumato.engines.files.regular import RegularFile, regular_file
from sfumato.engines.frames import Frame, arrow_table
from sfumato.engines.identity import Identity, Resolving, of_path, of_tables, tables_read
from sfumato.engines.kinds import chosen_kinds, kinds_of
from sfumato.errors import SourceError
from sfumato.schema.column import Kind

if TYPE_CHECKING:
    from collections.abc import Collection

    from sfumato.engines.base import Engine
    from sfumato.engines.kinds import Asked


Source = str | Path | Sequence[str | Path] | Frame

_ATTACHED = "attached"
"""What the catalogue of a DuckDB file is called in the engine that reads it."""


def open_source(
    source: Source,
    *,
    kinds: Mapping[str, Asked] | None = None,
    memory_limit: str = MEMORY_LIMIT,
    ours: bool = False,
    strict: bool = True,
) -> Engine:
    """Open an engine on a source: a file, several Parquet files, a URL or a table in memory.

    Columns are converted to the asked kinds; without one they are what they hold, in a CSV text.
    A cell that is not of the asked kind is refused or, unless `strict`, read as NULL. A file that
    is `ours` is read as we write them.
    """
    if isinstance(source, str):
        scheme = source.partition("://")[0]
        if scheme in {"postgresql", "postgres"}:
            from sfumato.engines.postgres import Postgres

            return Postgres.open(source)
        if scheme == "spark":
            from sfumato.engines.spark import Spark

            return Spark.open(source)
    return open_duckdb(source, kinds=kinds, memory_limit=memory_limit, ours=ours, strict=strict)


def identify(source: str, engine: Engine | None = None) -> Identity:
    """Find out what a path or a URL stands for, in an engine that is open on it, or in a new one.

    A path needs none: its files are asked for what they are, and nothing in them is read.
    """
    if "://" not in source:
        return of_path(Path(source))
    if engine is None:
        opening = _open_catalogue if source.startswith("duckdb://") else open_source
        with closing(opening(source)) as opened:
            return identify(source, opened)
    if isinstance(engine, DuckDB):
        file, table = duckdb_file(source)
        return of_tables(file, tables_read(engine, table))
    assert isinstance(engine, Resolving)
    return engine.identity()


@translating_errors(translate)
def _open_catalogue(url: str) -> Engine:
    """Open DuckDB on the catalogue of a file alone: a view that fails to run is listed there."""
    engine = DuckDB()
    try:
        attached(engine, url)
        engine.lock()
    except BaseException:
        engine.close()
        raise
    return engine


@translating_errors(translate)
def open_duckdb(
    source: Source,
    *,
    kinds: Mapping[str, Asked] | None = None,
    memory_limit: str = MEMORY_LIMIT,
    ours: bool = False,
    strict: bool = True,
) -> DuckDB:
    """Open DuckDB on a file, several Parquet files, a duckdb:/// URL or a table in memory."""
    asked = kinds or {}
    engine = DuckDB(memory_limit=memory_limit)
    try:
        if isinstance(source, str) and source.startswith("duckdb://"):
            engine.adopt(attached(engine, source), asked, strict=strict)
        elif isinstance(source, str | Path):
            _read_path(engine, Path(source), asked, ours=ours, strict=strict)
        elif _names_files(source):
            _view_parquet(engine, source, asked, strict=strict)
        else:
            _copy_table(engine, source, asked, strict=strict)
        engine.lock()
    except BaseException:
        engine.close()
        raise
    return engine


def _names_files(source: Source) -> TypeGuard[Sequence[str | Path]]:
    return isinstance(source, Sequence) and all(isinstance(one, str | Path) for one in source)


def _read_path(
    engine: DuckDB, path: Path, kinds: Mapping[str, Asked], *, ours: bool, strict: bool
) -> None:
    """Read a file by the end of its name; a directory is its Parquet files."""
    name = path.name.lower()
    if _is_directory(path):
        _view_parquet(engine, parquet_paths(path), kinds, strict=strict)
    elif name.endswith(".parquet"):
        _view_parquet(engine, [path], kinds, strict=strict)
    elif name.endswith((".csv", ".csv.gz")):
        with closing(CsvFile(path)) as file:
            chosen = chosen_kinds(dict.fromkeys(file.names, Kind.TEXT), kinds)
            engine.load(file.read(chosen, ours=ours, strict=strict), chosen)
    else:
        regular_file(path)
        raise SourceError(
            "source_format_unknown",
            f"Cannot tell the format of {str(path)!r}. Its name must end in .csv, .csv.gz or "
            ".parquet; a table of a DuckDB file is named duckdb:///file.duckdb#table.",
        )


def parquet_paths(directory: Path) -> list[Path]:
    """The Parquet files that make a directory a table."""
    return sorted(directory.glob("*.parquet")) or [directory]


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _view_parquet(
    engine: DuckDB, paths: Sequence[str | Path], kinds: Mapping[str, Asked], *, strict: bool
) -> None:
    """Look at Parquet files where they are."""
    if not paths:
        raise SourceError(
            "source_missing", "The list of Parquet files is empty. Name at least one."
        )
    files = parquet_files(paths)
    engine.watch(files)
    literals = [exp.Literal.string(file.pattern) for file in files]
    # Otherwise a directory named like 'year=2024' would add or replace a column.
    plain = exp.Kwarg(this=exp.Var(this="hive_partitioning"), expression=exp.false())
    reading = [exp.Array(expressions=literals), plain]
    relation = exp.Table(this=exp.Anonymous(this="read_parquet", expressions=reading))
    engine.adopt(relation, kinds, rows=rows_of(files), strict=strict)


def duckdb_file(url: str) -> tuple[RegularFile, exp.Table]:
    """The file and the table that a URL names; duckdb:///a/b is /a/b or, failing that, a/b."""
    location, _, name = url.removeprefix("duckdb://").rpartition("#")
    try:
        table = exp.to_table(name, dialect="duckdb")
    except ParseError:
        table = None
    if not location.startswith("/") or table is None or not isinstance(table.this, exp.Identifier):
        raise SourceError(
            "source_url_malformed",
            f"Cannot read {url!r} as a table of a DuckDB file. Write duckdb:///file.duckdb#table.",
        )
    try:
        file = regular_file(location)
    except SourceError:
        file = regular_file(location.lstrip("/"))
    table.set("db", table.args.get("db") or exp.to_identifier("main", quoted=True))
    table.set("catalog", exp.to_identifier(_ATTACHED, quoted=True))
    return file, table


def attached(engine: DuckDB, url: str) -> exp.Table:
    """Let an engine look at one table of a DuckDB file."""
    file, table = duckdb_file(url)
    with file.open() as stream:
        if stream.read(12)[8:] != b"DUCK":
            raise SourceError("not_duckdb", f"{file.given!r} is not a DuckDB file. Name another.")
    engine.watch([file])
    engine.attach(file, _ATTACHED)
    return table


def _copy_table(
    engine: DuckDB, source: Source, kinds: Mapping[str, Asked], *, strict: bool
) -> None:
    """Copy a table in memory into the engine."""
    table = arrow_table(source)
    check_names(table.schema.names)
    chosen = chosen_kinds(kinds_of(table.schema), kinds)
    engine.load(conform(table.to_batches(), chosen, strict=strict), chosen)


def files_of(source: str) -> tuple[RegularFile, ...]:
    """The files that a source is made of, as they are now."""
    if source.startswith("duckdb://"):
        return (duckdb_file(source)[0],)
    path = Path(source)
    return tuple(map(regular_file, parquet_paths(path) if path.is_dir() else [path]))


def missing_columns(source: str, declared: Collection[str]) -> list[str]:
    """Declared columns that the files of a source do not have."""
    if source.startswith("duckdb://"):
        ways = [_columns_of_table(source)]
    elif source.lower().endswith((".csv", ".csv.gz")):
        ways = names_told(source)
    else:
        ways = [schema_told(file).names for file in files_of(source)[:1]]
    absent = [[name for name in declared if name not in names] for names in ways]
    return min(absent, key=len)


def _columns_of_table(url: str) -> list[str]:
    engine = DuckDB()
    try:
        names: list[str] = engine.run(everything(attached(engine, url)).limit(0)).schema.names
    finally:
        engine.close()
    return names
