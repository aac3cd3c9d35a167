"""DuckDB, the embedded engine. It is locked: it reads its source and nothing else."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from threading import current_thread, get_ident, main_thread
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar

import duckdb
import pyarrow as pa
from sqlglot import exp

from sfumato.data.engines.base import (
    REAL,
    TEXT,
    FolderTarget,
    TableTarget,
    Traits,
    casting,
    created,
    dropped,
    engine_failed,
    everything,
    named,
    not_utf8,
    render,
    stream_translating_errors,
    table_missing,
    translating_errors,
)
from sfumato.data.engines.kinds import chosen_kinds, fits, kind_asked, kinds_of, stored_schema
from sfumato.data.files.cell_conversion import check_names, conform
from sfumato.data.files.writers import check_local, write_file, write_folder
from sfumato.data.schema.column import Kind
from sfumato.data.schema.layout import DEFAULT_LAYOUT
from sfumato.errors import EngineError, OutputError
from sfumato.filesystem import Scratch, temporary_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from sfumato.data.engines.base import Target
    from sfumato.data.engines.kinds import Asked
    from sfumato.data.files.file_identity import RegularFile

R = TypeVar("R")

_NOT_UTF8 = "is not valid UTF8!"
MEMORY_LIMIT = "2GB"
"""The memory DuckDB may use before it spills to its private directory."""

_STORED_AS = {
    Kind.INTEGER: "BIGINT",
    Kind.REAL: REAL,
    Kind.TEXT: TEXT,
    Kind.DATE: "DATE",
    Kind.BOOLEAN: "BOOLEAN",
}


def translate(error: Exception) -> BaseException:
    """Translate an error of DuckDB into one of ours."""
    if isinstance(error, RuntimeError) and str(error) == "Query interrupted":
        return KeyboardInterrupt()  # DuckDB's error for a Ctrl-C that it noticed itself
    detail = f"{type(error).__name__}: {error}"
    if isinstance(error, duckdb.CatalogException) and "does not exist" in detail:
        return table_missing("DuckDB", detail)
    if isinstance(error, duckdb.OutOfMemoryException | MemoryError):
        return EngineError(
            "engine_out_of_memory",
            "DuckDB ran out of memory.",
            hint="Allow it more memory, or ask for less at a time.",
            detail=detail,
        )
    return not_utf8(detail) if _NOT_UTF8 in detail else engine_failed("DuckDB", detail)


def _hashed(salt: str, values: Sequence[exp.Expr]) -> exp.Expr:
    """Return the hash of a text and values, as `Traits.hashed`."""
    # DuckDB combines the hashes of several values by XOR; a second hash spreads the result evenly.
    joined = exp.Anonymous(this="HASH", expressions=[exp.convert(salt), *values])
    unsigned = exp.Anonymous(this="HASH", expressions=[joined])
    return exp.cast(exp.BitwiseRightShift(this=unsigned, expression=exp.convert(1)), "BIGINT")


def _from_hex(digits: exp.Expr) -> exp.Expr:
    return exp.cast(exp.DPipe(this=exp.convert("0x"), expression=digits), "BIGINT")


class DuckDB:
    """An embedded database with one source, locked so that no query reaches anything else."""

    dialect: ClassVar[str] = "duckdb"
    traits: ClassVar[Traits] = Traits(
        creates_tables=False, hashed=_hashed, from_hex=_from_hex, keeps_source=True
    )

    @translating_errors(translate)
    def __init__(self, *, memory_limit: str = MEMORY_LIMIT) -> None:
        self._connection = duckdb.connect(
            config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
        )
        self.layout = DEFAULT_LAYOUT
        """The layout of the source where it is a file."""
        self._files: list[RegularFile] = []
        self._running: list[tuple[int, duckdb.DuckDBPyConnection]] = []
        self._source_kind = "TABLE"
        # Spilled cells are in clear text: only this user can read the folder, and a later process
        # removes it if this one is killed.
        self._spill = Scratch(temporary_folder(), "sfumato-")
        self._set("temp_directory", exp.Literal.string(str(self._spill.path / "duckdb")))
        self._set("memory_limit", exp.Literal.string(memory_limit))

    @property
    def table(self) -> exp.Table:
        """The table the engine was opened on."""
        return named("source")

    @translating_errors(translate)
    def attach(self, file: RegularFile, name: str) -> None:
        """Attach a DuckDB file for reading, under a name for its catalogue."""
        attached = exp.alias_(exp.Literal.string(str(file.path)), name, quoted=True)
        reading = exp.AttachOption(this=exp.Var(this="READ_ONLY"))
        self._execute(exp.Attach(this=attached, expressions=[reading]))

    @translating_errors(translate)
    def adopt(
        self,
        relation: exp.Expr,
        kinds: Mapping[str, Asked],
        *,
        rows: Iterator[pa.RecordBatch] | None = None,
        strict: bool = True,
    ) -> None:
        """Make a relation the source: a view where its types suffice, else a converted copy.

        A copy is made of `rows` where they are given: Arrow reads some files that DuckDB cannot.
        """
        schema = self.run(everything(relation).limit(0)).schema
        check_names(schema.names)
        chosen = chosen_kinds(kinds_of(schema), kinds)
        if not all(fits(field.type, kind_asked(chosen[field.name])) for field in schema):
            read = self.stream(everything(relation)) if rows is None else rows
            self.load(conform(read, chosen, strict=strict), chosen)
            return
        types = {name: _STORED_AS[kind_asked(asked)] for name, asked in chosen.items()}
        self._execute(created("VIEW", self.table.name, casting(relation, types)))
        self._source_kind = "VIEW"

    @translating_errors(translate)
    def load(self, batches: Iterable[pa.RecordBatch], kinds: Mapping[str, Asked]) -> None:
        """Copy batches of the stored types of these kinds as the source."""
        self._load(self.table.name, batches, kinds)

    @translating_errors(translate)
    def watch(self, files: Sequence[RegularFile]) -> None:
        """Allow queries to read these files; every query checks that they did not change."""
        self._files = list(files)
        paths = {path for file in files for path in (str(file.path), file.pattern)}
        literals = [exp.Literal.string(path) for path in sorted(paths)]
        self._set("allowed_paths", exp.Array(expressions=literals))

    @translating_errors(translate)
    def lock(self) -> None:
        """Forbid access to other files and settings for the life of the connection."""
        self._set("enable_external_access", exp.false())
        self._set("lock_configuration", exp.true())

    @translating_errors(translate)
    def retype(self, kinds: Mapping[str, Asked], *, strict: bool = True) -> None:
        """Convert the source to other kinds; a cell that does not fit is refused, or NULL."""
        current = self.columns(self.table)
        chosen = chosen_kinds(current, kinds)
        if all(kind_asked(asked) is current[name] for name, asked in chosen.items()):
            return
        new = f"source_{token_hex(8)}"
        rows = self.stream(everything(self.table))
        self._load(new, conform(rows, chosen, strict=strict), chosen)
        self._execute(dropped(self._source_kind, self.table))
        renaming = exp.AlterRename(this=self.table)
        self._execute(exp.Alter(this=named(new), kind="TABLE", actions=[renaming]))
        self._source_kind = "TABLE"

    @translating_errors(translate)
    def columns(self, table: exp.Table) -> dict[str, Kind]:
        """Return the columns of a table, in order, and their kinds."""
        return kinds_of(self.run(everything(table).limit(0)).schema)

    @translating_errors(translate)
    def run(self, query: exp.Query) -> pa.Table:
        """Run a query and fetch its whole result."""
        sql = render(query, self.dialect)
        with self._cursor() as cursor:
            result = _interruptible(cursor, lambda: cursor.sql(sql).to_arrow_table())
        self._check_files()
        return result

    @translating_errors(translate)
    def stream(self, query: exp.Query, *, batch_rows: int = 65_536) -> pa.RecordBatchReader:
        """Run a query and fetch its result batch by batch."""
        with ExitStack() as stack:
            cursor = stack.enter_context(self._cursor())
            sql = render(query, self.dialect)
            reader = _interruptible(cursor, lambda: cursor.sql(sql).to_arrow_reader(batch_rows))
            stack.callback(reader.close)
            prefetch = stack.enter_context(_BatchPrefetch(cursor, lambda: next(reader, None)))
            opened = stack.pop_all()

        def advance() -> pa.RecordBatch | None:
            batch = prefetch.next_batch()
            if batch is None:
                self._check_files()
            return batch

        return stream_translating_errors(reader.schema, advance, translate, opened.close)

    @contextmanager
    def lend(self, table: pa.Table) -> Iterator[exp.Table]:
        """Copy a small table into the engine as a temporary table, dropped at the end."""
        name = f"lent_{token_hex(8)}"
        self._create_from(name, table)
        with self._dropping("TABLE", name):
            yield named(name)

    @contextmanager
    def view(self, query: exp.Query) -> Iterator[exp.Table]:
        """Make a temporary view of a query, dropped at the end."""
        name = f"view_{token_hex(8)}"
        translating_errors(translate)(self._execute)(created("VIEW", name, query))
        with self._dropping("VIEW", name):
            yield named(name)

    @contextmanager
    def _dropping(self, kind: str, name: str) -> Iterator[None]:
        """Drop a table or view at the end."""
        try:
            yield
        except BaseException:
            # An unfinished stream may still hold it; then it is dropped with the engine. While the
            # interpreter shuts down, rendering SQL may fail because it imports.
            if not sys.is_finalizing():
                with suppress(duckdb.Error):
                    self._execute(dropped(kind, named(name)))
            raise
        self._execute(dropped(kind, named(name)))

    @translating_errors(translate)
    def write(self, query: exp.Query, target: Target, *, overwrite: bool = False) -> None:
        """Write a query's result to a file or a folder, atomically; tables are refused."""
        if isinstance(target, Path):
            write_file(lambda: self.stream(query), target, overwrite=overwrite, layout=self.layout)
        elif isinstance(target, FolderTarget):
            write_folder("DuckDB", lambda: self.stream(query), target, overwrite=overwrite)
        else:
            self.check(target)

    @translating_errors(translate)
    def check(self, target: Target, *, overwrite: bool = False) -> None:
        """Refuse every table, and files or folders that cannot be written on this machine."""
        if isinstance(target, TableTarget):
            raise _no_tables(target)
        check_local("DuckDB", target, overwrite=overwrite)

    def draft(
        self,
        query: exp.Query,  # noqa: ARG002
        target: TableTarget,
        *,
        overwrite: bool = False,  # noqa: ARG002
    ) -> AbstractContextManager[exp.Table]:
        """Refuse: this engine creates no tables."""
        raise _no_tables(target)

    def cancel(self, thread: int) -> None:
        """Stop the queries that a thread of this process is running."""
        for owner, cursor in list(self._running):
            if owner == thread:
                cursor.interrupt()

    def close(self) -> None:
        """Stop running queries, close the connection and remove what was spilled to disk."""
        for _, cursor in list(self._running):
            cursor.interrupt()
        # An interrupted call may still be returning; the connection is closed when it has.
        with suppress(duckdb.Error):
            self._connection.close()
        self._spill.close()

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor for one query: a connection holds only one result at a time."""
        self._check_files()
        cursor = self._connection.cursor()
        running = (get_ident(), cursor)
        self._running.append(running)
        try:
            yield cursor
        finally:
            self._running.remove(running)
            # An interrupted call may still be returning and keep its cursor busy: such a cursor is
            # closed with the connection.
            with suppress(duckdb.Error):
                cursor.close()

    @translating_errors(translate)
    def _create_from(self, name: str, data: pa.Table | pa.RecordBatchReader) -> None:
        """Copy Arrow data into a table: all cursors see it, unlike registered data."""
        with self._cursor() as cursor:
            arrow = f"arrow_{token_hex(8)}"
            sql = render(created("TABLE", name, everything(named(arrow))), self.dialect)

            def copy() -> None:
                # Run outside the main thread, where a Ctrl-C inside Arrow's callback would be lost.
                cursor.register(arrow, data)
                try:
                    cursor.execute(sql)
                finally:
                    cursor.unregister(arrow)

            _interruptible(cursor, copy)

    def _load(
        self, name: str, batches: Iterable[pa.RecordBatch], kinds: Mapping[str, Asked]
    ) -> None:
        """Copy batches into a table; an error raised by the batches is raised unchanged."""
        failures: list[BaseException] = []

        def watched() -> Iterator[pa.RecordBatch]:
            try:
                yield from batches
            except BaseException as error:
                failures.append(error)
                raise

        try:
            reader = pa.RecordBatchReader.from_batches(stored_schema(kinds), watched())
            self._create_from(name, reader)
        except EngineError:
            if failures:
                raise failures[0] from None
            raise

    def _execute(self, statement: exp.Expr) -> None:
        sql = render(statement, self.dialect)
        with self._cursor() as cursor:
            _interruptible(cursor, lambda: cursor.execute(sql))

    def _check_files(self) -> None:
        for file in self._files:
            file.check_unchanged()

    def _set(self, name: str, value: exp.Expr) -> None:
        setting = exp.SetItem(this=exp.EQ(this=exp.Var(this=name), expression=value))
        self._connection.execute(render(exp.Set(expressions=[setting]), self.dialect))


class _BatchPrefetch:
    """Fetches the next batch in a worker thread while the caller uses the last one."""

    def __init__(
        self, cursor: duckdb.DuckDBPyConnection, fetch: Callable[[], pa.RecordBatch | None]
    ) -> None:
        self._cursor, self._fetch = cursor, fetch
        self._worker = ThreadPoolExecutor(1)
        self._next = self._worker.submit(fetch)

    def next_batch(self) -> pa.RecordBatch | None:
        """Return the next batch, or None after the last one."""
        try:
            batch = self._next.result()
        except KeyboardInterrupt:
            self._cursor.interrupt()
            raise
        if batch is not None:
            self._next = self._worker.submit(self._fetch)
        return batch

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the fetch that is running, so that the cursor can be closed after it."""
        if not self._next.done() and not self._next.cancel():
            self._cursor.interrupt()
            wait([self._next])
        # Not waited for: during garbage collection a thread that is starting would wait for us.
        self._worker.shutdown(wait=False)


def _interruptible(cursor: duckdb.DuckDBPyConnection, work: Callable[[], R]) -> R:
    """Run `work` in another thread: the main thread then receives Ctrl-C, which DuckDB misses."""
    if current_thread() is not main_thread():  # only the main thread receives signals
        return work()
    with ThreadPoolExecutor(1) as worker:
        try:
            return worker.submit(work).result()
        except KeyboardInterrupt:
            cursor.interrupt()
            raise


def _no_tables(target: TableTarget) -> OutputError:
    """The refusal to create a table: a DuckDB file that is written to locks all readers out."""
    return OutputError(
        "output_unwritable",
        f"Cannot create the table {str(target)!r}: DuckDB only reads its file here.",
        hint=(
            "Write to a folder, such as OUT/, and load that: CREATE TABLE name AS FROM "
            "'OUT/*.parquet'."
        ),
    )
