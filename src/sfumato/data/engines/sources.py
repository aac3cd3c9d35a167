"""Open an engine on a source: a path, a URL or a table in memory.

The files of a source and their columns do not depend on any row, so they are public and may be read
before a query is charged.

Decision `charge-order`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from os.path import isfile, lexists
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, runtime_checkable

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import ParseError

from sfumato.data.engines.base import SPARK, column, everything, translating_errors
from sfumato.data.engines.duckdb import MEMORY_LIMIT, DuckDB, translate
from sfumato.data.engines.kinds import chosen_kinds, is_text, kinds_of
from sfumato.data.engines.malformed_cells import looked
from sfumato.data.engines.source_identity import (
    Identity,
    Resolving,
    identity_of_path,
    identity_of_tables,
    tables_read,
)
from sfumato.data.files.cell_conversion import check_names, conform, longest, shortened
from sfumato.data.files.csv import CsvFile, encoding_of
from sfumato.data.files.file_identity import RegularFile, regular_file
from sfumato.data.files.formats import (
    EXCEL,
    READ,
    STATISTICS,
    TEXT,
    ends_in,
    is_parquet,
    is_pattern,
    parquet_paths,
    partition_columns,
)
from sfumato.data.files.parquet import check_alike, footer_schema, parquet_files, rows_of
from sfumato.data.schema.layout import DEFAULT_LAYOUT, FileLayout
from sfumato.data.schema.names import quoted
from sfumato.errors import EngineError, SourceError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from sfumato.data.engines.base import Engine
    from sfumato.data.engines.kinds import Asked
    from sfumato.data.files.file_identity import RegularFile
    from sfumato.data.schema.column import Kind


class ArrowTable(Protocol):
    """A table in memory that speaks Arrow: pyarrow, polars, pandas, DuckDB and others."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Hand the table over."""
        ...


@runtime_checkable
class LazyTable(Protocol):
    """A table that is yet to be computed, such as a polars LazyFrame."""

    def collect(self) -> Any:
        """Compute it."""
        ...


Records = Sequence[Mapping[str, Any]]
Frame = ArrowTable | LazyTable | Records | Mapping[str, Sequence[Any]]
"""The types of tables in memory; a mapping has columns by name."""


def is_spark(source: object) -> bool:
    """Return whether an object is a Spark data frame; works without importing Spark."""
    return type(source).__module__.startswith("pyspark.sql.") and hasattr(source, "sparkSession")


def arrow_table(source: object) -> pa.Table:
    """Convert a table in memory to Arrow; a pandas index is not a column."""
    try:
        if isinstance(source, LazyTable):
            source = source.collect()
        if type(source).__module__.partition(".")[0] == "pandas" and hasattr(source, "columns"):
            return pa.Table.from_pandas(source, preserve_index=False)
        if isinstance(source, list | tuple) and isinstance(source[0], Mapping):
            source = _by_column(source)
        if isinstance(source, Mapping):
            return pa.table(dict(source))
        if isinstance(source, pa.RecordBatch):
            return pa.Table.from_batches([source])
        if hasattr(source, "__arrow_c_stream__"):
            return pa.table(source)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError):
        raise SourceError(
            "source_unsupported",
            "Cannot take over the table: a column mixes types or holds objects, or columns are "
            "of different lengths.",
            hint="Convert its columns to numbers, text, dates or booleans first.",
        ) from None
    raise SourceError(
        "source_unsupported",
        f"Cannot read a table from {type(source).__name__}.",
        hint=(
            "Give a path, a URL, a pandas, polars or pyarrow table, or a list of records such as "
            "[{'age': 30}]."
        ),
    )


def _by_column(rows: Records) -> dict[str, list[Any]]:
    """Return the columns of all records in order of first occurrence; absent values are None."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


# Parquet files are read in place, or copied where that would fail.
#
# *Attack*: one person's cell must not decide whether queries are answered. DuckDB fails at every
# query of a column with a cell that is not UTF-8. So for private use the texts are checked once
# when the files are opened, and files with such a cell are copied, with NULL in its place. DuckDB
# also holds 2,048 cells of a column at once, so cells of megabytes fill its memory before a query
# can cut them. Files with texts longer than declared are copied with the texts cut.
#
# Decisions `malformed-cells` and `private-texts`.


# Rows per batch of files that are copied, because their texts may be megabytes long.
_COPIED_BATCH_ROWS = 1024


def view_parquet(
    engine: DuckDB,
    paths: Sequence[str | Path],
    kinds: Mapping[str, Asked],
    *,
    strict: bool,
    short_texts: bool = False,
) -> None:
    """Make Parquet files the source of the engine, in place where all cells can be read."""
    if not paths:
        raise SourceError(
            "source_missing", "The list of Parquet files is empty.", hint="Name at least one."
        )
    for path in map(Path, paths):
        if parquet_paths(path) == [path] and is_pattern(path):
            raise SourceError(
                "source_missing",
                f"No file matches the pattern {str(path)!r}.",
                hint="Name one that Parquet files match.",
            )
    files = parquet_files([entry for path in paths for entry in parquet_paths(Path(path))])
    check_partitions(files)
    engine.watch(files)
    literals = [exp.Literal.string(file.pattern) for file in files]
    # Otherwise a folder named like 'year=2024' would add or replace a column.
    plain = exp.Kwarg(this=exp.Var(this="hive_partitioning"), expression=exp.false())
    reading = [exp.Array(expressions=literals), plain]
    relation = exp.Table(this=exp.Anonymous(this="read_parquet", expressions=reading))
    longest_texts = {name: longest(asked) for name, asked in kinds.items()} if short_texts else {}
    if strict or _is_readable(engine, relation, longest_texts):
        engine.adopt(relation, kinds, rows=rows_of(files), strict=strict)
        return
    chosen = chosen_kinds(kinds_of(footer_schema(files[0])), kinds)
    rows = rows_of(files, batch_rows=_COPIED_BATCH_ROWS)
    engine.load(conform(rows, chosen, strict=False, short_texts=short_texts), chosen)


def check_partitions(files: Sequence[RegularFile]) -> None:
    """Refuse files where the names of folders (year=2024) hold a column that the files lack."""
    partition_names = partition_columns(file.path for file in files)
    if partition_names and partition_names[0] not in footer_schema(files[0]).names:
        raise SourceError(
            "source_unsupported",
            f"Cannot read these Parquet files as one table: {quoted(partition_names[0])} stands in "
            "the names of their folders and not in the files.",
            hint=(
                "Read the folder through Spark, as spark+parquet:///folder/, or write the column "
                "into the files."
            ),
        )


def _is_readable(engine: DuckDB, relation: exp.Expr, longest_texts: Mapping[str, int]) -> bool:
    """Whether all texts can be read in place: valid UTF-8 and no longer than `longest_texts`.

    Columns without an entry there are not limited: no query reads them.
    """
    schema = engine.run(everything(relation).limit(0)).schema
    texts = [field.name for field in schema if is_text(field.type)]
    if not texts:
        return True
    lengths = (
        exp.Max(this=exp.Length(this=column(name))).as_(f"sf_{at}") for at, name in enumerate(texts)
    )
    try:
        longest_cells = engine.run(exp.select(*lengths).from_(relation.copy()))
    except (SourceError, EngineError) as error:
        too_long = bool(longest_texts) and error.code == "engine_out_of_memory"
        if error.code != "not_utf8" and not too_long:
            raise
        return False
    return all(
        (length.as_py() or 0) <= longest_texts[name]
        for name, (length,) in zip(texts, longest_cells.columns, strict=True)
        if name in longest_texts
    )


Source = str | Path | Sequence[str | Path] | Frame


class TableFile(Protocol):
    """An open file whose rows are copied into an engine. Close it at the end."""

    names: list[str]
    layout: FileLayout

    @property
    def held(self) -> dict[str, Kind]:
        """The kinds of the columns where no others are asked."""
        ...

    def read(self, kinds: Mapping[str, Asked], *, strict: bool = True) -> Iterator[pa.RecordBatch]:
        """Read all rows, once, as the given kinds."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


POSTGRES = ("postgresql", "postgres")
"""The schemes of PostgreSQL addresses."""

# The name under which a DuckDB file is attached.
_ATTACHED = "attached"


def open_source(
    source: Source,
    *,
    kinds: Mapping[str, Asked] | None = None,
    layout: FileLayout = DEFAULT_LAYOUT,
    declared: Collection[str] = (),
    memory_limit: str = MEMORY_LIMIT,
    ours: bool = False,
    strict: bool = True,
    short_texts: bool = False,
) -> Engine:
    """Open an engine on a source.

    Parameters
    ----------
    source
        A path, a list of Parquet files, a URL or a table in memory.
    kinds : mapping, optional
        For columns by name the kind to convert them to. Others keep the kind they have; columns of
        a CSV file are text.
    layout : FileLayout
        What is declared of the file.
    declared : collection of str
        Names of declared columns. With them, or with kinds, the layout is detected from the header
        alone; otherwise rows are read for it too.
    memory_limit : str
        The memory of DuckDB, such as "2GB".
    ours : bool
        Whether Sfumato wrote the file, with text guarded against spreadsheets.
    strict : bool
        Whether cells that do not fit their kind are refused; else they are read as NULL.
    short_texts : bool
        Whether a copy is limited to the characters of a text that private methods read.

    Raises
    ------
    SourceError
        If the source cannot be read.
    """
    if isinstance(source, str):
        scheme = source.partition("://")[0]
        if scheme in POSTGRES:
            from sfumato.data.engines.postgres import Postgres

            return looked(Postgres.open(source))
        if scheme in SPARK:
            from sfumato.data.engines.spark.sources import open_spark

            return looked(open_spark(source))
        _check_scheme(source)
    if is_spark(source):
        from sfumato.data.engines.spark.sources import open_frame

        return looked(open_frame(source))
    return open_duckdb(
        source,
        kinds=kinds,
        layout=layout,
        declared=declared,
        memory_limit=memory_limit,
        ours=ours,
        strict=strict,
        short_texts=short_texts,
    )


def _check_scheme(source: str) -> None:
    """Refuse a malformed address; it may hold a password, so the message does not show it."""
    match = re.match(r"\s*([a-z][a-z0-9+.-]+):/", source, re.IGNORECASE)  # C:/ is a disk
    if match is None or source.startswith("duckdb://") or lexists(source):
        return
    scheme = match[1].lower()
    if scheme in {*POSTGRES, *SPARK, "duckdb"}:
        needed = f"Write {scheme}:// at its very beginning, in small letters and with two slashes"
    else:
        needed = (
            f"Files of another machine are not read, and {scheme}:// is no database known here. "
            "Fetch the file and name its path, or let Spark read it as spark+parquet://host/folder/"
        )
    raise SourceError("address_malformed", f"Cannot read this address. {needed}.")


def identify(source: str, engine: Engine | None = None) -> Identity:
    """Return the identity of a path or URL, from an engine that is open on it or a new one.

    A path needs no engine: only metadata of its files is read.
    """
    if "://" not in source:
        return identity_of_path(Path(source))
    if engine is None:
        opening = _open_catalogue if source.startswith("duckdb://") else open_source
        with closing(opening(source)) as opened:
            return identify(source, opened)
    if isinstance(engine, DuckDB):
        file, table = duckdb_file(source)
        return identity_of_tables(file, tables_read(engine, table))
    assert isinstance(engine, Resolving)
    return engine.identity()


@translating_errors(translate)
def _open_catalogue(url: str) -> Engine:
    """Open DuckDB on a file without reading a table, so that a broken view can be identified."""
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
    layout: FileLayout = DEFAULT_LAYOUT,
    declared: Collection[str] = (),
    memory_limit: str = MEMORY_LIMIT,
    ours: bool = False,
    strict: bool = True,
    short_texts: bool = False,
) -> DuckDB:
    """Open DuckDB on a file, several Parquet files, a duckdb:/// URL or a table in memory."""
    asked = kinds or {}
    engine = DuckDB(memory_limit=memory_limit)
    try:
        if isinstance(source, str) and source.startswith("duckdb://"):
            engine.adopt(attached(engine, source), asked, strict=strict)
        elif isinstance(source, str | Path):
            known = declared or asked.keys()
            reading = _Reading(
                Path(source), layout, known, ours=ours, strict=strict, short_texts=short_texts
            )
            reading.into(engine, asked)
        elif _names_files(source):
            view_parquet(engine, source, asked, strict=strict, short_texts=short_texts)
        else:
            _copy_table(engine, source, asked, strict=strict, short_texts=short_texts)
        engine.lock()
    except BaseException:
        engine.close()
        raise
    return engine


def _names_files(source: Source) -> TypeGuard[Sequence[str | Path]]:
    return isinstance(source, Sequence) and all(isinstance(path, str | Path) for path in source)


@dataclass(frozen=True)
class _Reading:
    """A path with all that decides how it is read."""

    path: Path
    layout: FileLayout
    declared: Collection[str]
    ours: bool = field(default=False, kw_only=True)
    strict: bool = field(default=True, kw_only=True)
    short_texts: bool = field(default=False, kw_only=True)

    def into(self, engine: DuckDB, kinds: Mapping[str, Asked]) -> None:
        """Make the file, or the Parquet files of a folder or pattern, the source of an engine."""
        if is_parquet(self.path):
            view_parquet(
                engine, [self.path], kinds, strict=self.strict, short_texts=self.short_texts
            )
        else:
            try:
                self._copy(engine, kinds)
            except SourceError as error:
                if error.code != "not_utf8" or self.declared or self.layout.encoding:
                    raise
                layout = replace(self.layout, encoding=encoding_of(self.path))
                replace(self, layout=layout)._copy(engine, kinds)  # noqa: SLF001  one of us

    def _copy(self, engine: DuckDB, kinds: Mapping[str, Asked]) -> None:
        with closing(self.opened()) as file:
            chosen = chosen_kinds(file.held, kinds)
            rows = file.read(chosen, strict=self.strict)
            engine.load(shortened(rows, chosen) if self.short_texts else rows, chosen)
            engine.layout = file.layout

    def opened(self) -> TableFile:
        """Open a file of any format but Parquet."""
        name = self.path.name
        if ends_in(name, TEXT):
            return CsvFile(
                self.path, self.layout, declared=self.declared, ours=self.ours, strict=self.strict
            )
        if ends_in(name, EXCEL):
            from sfumato.data.files.excel import ExcelFile

            return ExcelFile(self.path, self.layout, declared=self.declared, strict=self.strict)
        if ends_in(name, STATISTICS):
            from sfumato.data.files.statistics import StatisticsFile

            return StatisticsFile(self.path, self.layout, declared=self.declared)
        regular_file(self.path)
        raise SourceError(
            "format_unknown",
            f"Cannot tell the format of {str(self.path)!r}. Its name must end in "
            f"{', '.join(READ)}. Save another kind of spreadsheet as .xlsx. For a table of a "
            "DuckDB file, write duckdb:///file.duckdb#table.",
        )


def open_file(
    path: Path, layout: FileLayout, *, declared: Collection[str], ours: bool = False
) -> TableFile:
    """Open a file of any format but Parquet."""
    return _Reading(path, layout, declared, ours=ours).opened()


def duckdb_parts(url: str) -> tuple[str, str]:
    """Return the path and the table name of a duckdb:// URL; a name may have '#' only in quotes."""
    match = re.fullmatch(r'duckdb://(.*)#((?:[^#"]|"[^"]*")*)', url, re.DOTALL)
    return ("", "") if match is None else (match[1], match[2])


def duckdb_file(url: str) -> tuple[RegularFile, exp.Table]:
    """Return the file and the table of a URL; duckdb:///a/b is /a/b or, if that is missing, a/b."""
    location, name = duckdb_parts(url)
    try:
        table = exp.to_table(name, dialect="duckdb")
    except ParseError:
        table = None
    if not location.startswith("/") or table is None or not isinstance(table.this, exp.Identifier):
        raise SourceError(
            "address_malformed",
            f"Cannot read {url!r} as a table of a DuckDB file.",
            hint="Write duckdb:///file.duckdb#table.",
        )
    try:
        file = regular_file(location)
    except SourceError:
        file = regular_file(location.lstrip("/"))
    table.set("db", table.args.get("db") or exp.to_identifier("main", quoted=True))
    table.set("catalog", exp.to_identifier(_ATTACHED, quoted=True))
    return file, table


def attached(engine: DuckDB, url: str) -> exp.Table:
    """Attach a DuckDB file to an engine; return the table of the URL."""
    file, table = duckdb_file(url)
    with file.open() as stream:
        if stream.read(12)[8:] != b"DUCK":
            raise SourceError(
                "file_malformed", f"{file.name!r} is not a DuckDB file.", hint="Name another."
            )
    engine.watch([file])
    engine.attach(file, _ATTACHED)
    return table


def _copy_table(
    engine: DuckDB,
    source: Source,
    kinds: Mapping[str, Asked],
    *,
    strict: bool,
    short_texts: bool,
) -> None:
    """Copy a table in memory into the engine."""
    table = arrow_table(source)
    check_names(table.schema.names)
    chosen = chosen_kinds(kinds_of(table.schema), kinds)
    rows = conform(table.to_batches(), chosen, strict=strict, short_texts=short_texts)
    engine.load(rows, chosen)


def files_of(source: str) -> tuple[RegularFile, ...]:
    """Return the files of a source in their present state."""
    if source.startswith("duckdb://"):
        return (duckdb_file(source)[0],)
    if isfile(source):  # noqa: PTH113  a name that no file can have is none
        return (regular_file(source),)
    return tuple(map(regular_file, parquet_paths(Path(source))))


def missing_columns(
    source: str,
    declared: Collection[str],
    layout: FileLayout = DEFAULT_LAYOUT,
    known: Collection[RegularFile] = (),
) -> list[str]:
    """Return the declared columns that the files of a source do not have.

    Several files must agree. Files in `known` are unchanged since a check in which they agreed.
    """
    path = Path(source)
    if source.startswith("duckdb://"):
        names = _columns_of_table(source)
    elif is_parquet(path):
        files = files_of(source)
        check_partitions(files)
        # One known file stands for all known files.
        looked_at = [*[file for file in files if file in known][:1], *set(files).difference(known)]
        check_alike(looked_at)
        names = footer_schema(looked_at[0]).names
    else:
        with closing(_Reading(path, layout, declared, strict=False).opened()) as file:
            names = file.names
    return [name for name in declared if name not in names]


def _columns_of_table(url: str) -> list[str]:
    engine = DuckDB()
    try:
        names: list[str] = engine.run(everything(attached(engine, url)).limit(0)).schema.names
    finally:
        engine.close()
    return names
