"""PostgreSQL: one session, so that lent tables are temporary and vanish with it."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from threading import RLock, current_thread, get_ident, main_thread
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from sqlglot import exp

from sfumato.data.engines.base import (
    FolderTarget,
    TableTarget,
    Traits,
    created,
    dropped,
    engine_failed,
    everything,
    named,
    render,
    source_table,
    stream_translating_errors,
    table_missing,
    translating_errors,
)
from sfumato.data.engines.kinds import kinds_of
from sfumato.data.engines.malformed_cells import Doubt, doubted, doubts_of
from sfumato.data.engines.postgres_catalogue import (
    check_encoding,
    identity_of,
    reads_query,
    relation_query,
    resolved,
)
from sfumato.data.engines.postgres_dialect import DIALECT, from_hex, hashed, once, rendered
from sfumato.data.files.parquet_folder import check_local, write_folder
from sfumato.data.files.writers import (
    RELEASE,
    table_exists,
    table_in_use,
    table_not_a_release,
    table_unresolved,
    write_file,
)
from sfumato.errors import EngineError, OutputError, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.data.engines.base import Target
    from sfumato.data.engines.source_identity import Identity
    from sfumato.data.schema.column import Kind

# SQLSTATE codes of the server.
_CANCELLED = "57014"
_UNDEFINED_TABLE = "42P01"
_DUPLICATE_TABLE = "42P07"

# Error codes: the target is no table, or other relations depend on it.
_NEEDED = {"42809", "2BP01"}

# Error codes: no privilege, no such schema.
_FORBIDDEN = {"42501", "3F000"}

# The server cuts longer names without an error (NAMEDATALEN - 1).
_LONGEST_BYTES = 63


def _check_name(target: TableTarget) -> None:
    """Refuse names that the server would cut, and schemas of temporary or system tables."""
    schema = target.schema or ""
    if len(target.name.encode()) > _LONGEST_BYTES:
        reason = f"PostgreSQL takes names of at most {_LONGEST_BYTES} bytes"
    elif schema.startswith("pg_") or schema == "information_schema":
        reason = f"the schema {schema!r} is the server's own"
    else:
        return
    raise OutputError(
        "output_unwritable",
        f"Cannot create the table {str(target)!r}: {reason}.",
        hint="Choose another name.",
    )


def _translate(error: Exception) -> BaseException:
    """Translate an error of the driver into one of ours."""
    detail = f"{type(error).__name__}: {error}"
    if getattr(error, "sqlstate", None) == _CANCELLED and _is_asked_for(error):
        return KeyboardInterrupt()
    if getattr(error, "sqlstate", None) == _UNDEFINED_TABLE:
        return table_missing("PostgreSQL", detail)
    if getattr(getattr(error, "status_code", None), "name", None) == "UNAUTHORIZED":
        return SourceError(
            "engine_forbidden",
            "PostgreSQL does not let this user do what is needed: read the table, and make "
            "temporary ones. Let its owner run: GRANT SELECT ON table TO user; GRANT TEMP ON "
            "DATABASE database TO user.",
            detail=detail,
        )
    return engine_failed("PostgreSQL", detail)


def _is_asked_for(error: Exception) -> bool:
    """Whether Ctrl-C stopped a statement: the driver handles the signal and raises this error.

    A timeout of the server has the same code, and so has a query that a vault cancels, which runs
    in another thread. These are failures.
    """
    return "user request" in str(error) and current_thread() is main_thread()


# Session settings that a database or a role may have changed.
_SETTINGS = {
    "client_encoding": "'UTF8'",
    # With fewer digits two different reals have one text and therefore one sealed hash. Rows with
    # equal hashes are dealt into blocks in the order of the table, so that removing one row would
    # change every block.
    "extra_float_digits": "1",
    # *Attack*: otherwise a backslash escapes a quote, so text in a query could end its literal.
    "standard_conforming_strings": "on",
}


class Postgres:
    """A PostgreSQL database, read through Arrow."""

    dialect: ClassVar[str] = DIALECT
    traits: ClassVar[Traits] = Traits(
        creates_tables=True, hashed=hashed, from_hex=from_hex, once=once
    )

    @translating_errors(_translate)
    def __init__(self, address: str, table: exp.Table) -> None:
        try:
            from adbc_driver_postgresql import dbapi
        except ImportError:
            raise SourceError(
                "package_missing",
                "PostgreSQL needs packages that are not installed.",
                hint="Install them with: pip install 'sfumato[postgres]'.",
            ) from None
        try:
            self._connection = dbapi.connect(address, autocommit=True)
        except dbapi.Error as error:
            raise EngineError(
                "engine_unreachable",
                "Cannot connect to PostgreSQL.",
                hint="Check the address, the user and the password.",
                detail=str(error),
            ) from None
        self._lock = RLock()
        self._running: int | None = None
        self._table = table
        self._doubts: dict[str, Doubt] = {}
        try:
            for name, value in _SETTINGS.items():
                self._execute(f"SET {name} TO {value}")
            [row] = self._fetch("SELECT current_setting('server_encoding') AS encoding").to_pylist()
            check_encoding(row["encoding"])
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, url: str) -> Postgres:
        """Open postgresql://user@host/database#schema.table."""
        address, table = source_table(url, cls.dialect)
        return cls(address, table)

    @translating_errors(_translate)
    def look(self) -> pa.Schema:
        """Read which columns the table has now, and note which may hold malformed cells."""
        schema = self.run(everything(self._table).limit(0)).schema
        self._doubts = doubts_of(schema)
        return schema

    @property
    def table(self) -> exp.Table:
        """The table of the engine; its malformed cells are read as NULL."""
        return doubted(self._table, self._doubts)

    @translating_errors(_translate)
    def identity(self) -> Identity:
        """The identity of the table from the catalogue: the system identifier of the server and the
        oid of the database, with names and oids of all relations that the table reads.
        """
        name = render(exp.Literal.string(rendered(self._table)), self.dialect)
        rows = self._fetch(reads_query(name)).to_pylist()
        if not rows:
            raise table_missing("PostgreSQL", f"{name} is not in the catalogue")
        return identity_of(rows)

    @translating_errors(_translate)
    def columns(self, table: exp.Table) -> dict[str, Kind]:
        """The columns of a table, in order, and their kinds."""
        if table == self._table:
            return kinds_of(self.look())
        return kinds_of(self.run(everything(table).limit(0)).schema)

    @translating_errors(_translate)
    def run(self, query: exp.Query) -> pa.Table:
        """Run a query and fetch its whole result."""
        return self._fetch(rendered(query))

    @translating_errors(_translate)
    def stream(self, query: exp.Query, *, batch_rows: int = 65_536) -> pa.RecordBatchReader:
        """Run a query and fetch its result batch by batch.

        A cursor WITH HOLD keeps the result on the server, so that other queries can run meanwhile.
        """
        name = render(exp.to_identifier(f"stream_{token_hex(8)}", quoted=True), self.dialect)
        self._execute(f"DECLARE {name} NO SCROLL CURSOR WITH HOLD FOR {rendered(query)}")

        def fetch(rows: int) -> pa.RecordBatch:
            table = self._fetch(f"FETCH FORWARD {rows} FROM {name}", uses_copy=False)
            return table.combine_chunks().to_batches()[0] if table.num_rows else None

        def close() -> None:
            self._execute(f"CLOSE {name}")

        schema = self._fetch(f"FETCH FORWARD 0 FROM {name}", uses_copy=False).schema
        return stream_translating_errors(schema, lambda: fetch(batch_rows), _translate, close)

    @contextmanager
    def lend(self, table: pa.Table) -> Iterator[exp.Table]:
        """Copy a small table into the engine as a temporary table, dropped at the end."""
        name = f"lent_{token_hex(8)}"
        self._ingest(name, table)
        with self._until_dropped("TABLE", name) as lent:
            yield lent

    @contextmanager
    def view(self, query: exp.Query) -> Iterator[exp.Table]:
        """Make a temporary view of a query, dropped at the end."""
        name = f"view_{token_hex(8)}"
        temporary = exp.Properties(expressions=[exp.TemporaryProperty()])
        statement = created("VIEW", name, query)
        statement.set("properties", temporary)
        self._statement(rendered(statement))
        with self._until_dropped("VIEW", name) as view:
            yield view

    @contextmanager
    def _until_dropped(self, kind: str, name: str) -> Iterator[exp.Table]:
        statement = render(dropped(kind, named(name)), self.dialect)
        try:
            yield named(name)
        except BaseException:
            with suppress(
                Exception
            ):  # it is dropped with the session; this must not hide the error
                self._execute(statement)
            raise
        self._statement(statement)

    @translating_errors(_translate)
    def write(self, query: exp.Query, target: Target, *, overwrite: bool = False) -> None:
        """Write a query's result to a file, a folder or a table, atomically."""
        if isinstance(target, Path):
            write_file(lambda: self.stream(query), target, overwrite=overwrite)
        elif isinstance(target, FolderTarget):
            write_folder("PostgreSQL", lambda: self.stream(query), target, overwrite=overwrite)
        else:
            with self.draft(query, target, overwrite=overwrite):
                pass

    @contextmanager
    def draft(
        self, query: exp.Query, target: TableTarget, *, overwrite: bool = False
    ) -> Iterator[exp.Table]:
        """Write a query's result to a draft table that can be read and is renamed at the end.

        All in one transaction: the server would finish a single statement after the client is gone.
        """
        self.check(target, overwrite=overwrite)
        drafted = target.beside(f"draft_{token_hex(8)}")
        with self._transaction():
            self._run_step(target, f"{rendered(created('TABLE', drafted, query))}")
            self._run_step(target, f"COMMENT ON TABLE {rendered(drafted)} IS '{RELEASE}'")
            yield drafted.copy()
            if overwrite:
                self.check(target, overwrite=True)  # again: a table made since would be lost
                self._run_step(target, f"DROP TABLE IF EXISTS {rendered(target.table)}")
            name = rendered(exp.to_identifier(target.name, quoted=True))
            self._run_step(target, f"ALTER TABLE {rendered(drafted)} RENAME TO {name}")

    @translating_errors(_translate)
    def check(self, target: Target, *, overwrite: bool = False) -> None:
        """Refuse a table that exists or, to overwrite, that the source reads."""
        if not isinstance(target, TableTarget):
            check_local("PostgreSQL", target, overwrite=overwrite)
            return
        _check_name(target)
        source, name = (
            render(exp.Literal.string(rendered(table)), self.dialect)
            for table in (self._table, target.table)
        )
        listed = self._fetch(reads_query(source)).to_pylist() if overwrite else []
        if not resolved(listed):
            raise table_unresolved(target)
        relations = self._fetch(relation_query(name)).to_pylist()
        if relations and not overwrite:
            raise table_exists(target)
        for table in relations:
            if table["kind"] != "r" or table["oid"] in {row["oid"] for row in listed}:
                raise table_in_use(target)
            if table["mark"] != RELEASE:
                raise table_not_a_release(target)

    @translating_errors(_translate)
    def _run_step(self, target: TableTarget, statement: str) -> None:
        """Run one statement of a draft; translate what prevents it."""
        try:
            self._execute(statement)
        except Exception as error:
            state = getattr(error, "sqlstate", None)
            if state == _DUPLICATE_TABLE:  # made since the check
                raise table_exists(target) from None
            if state in _NEEDED:
                raise table_in_use(target) from None
            if state in _FORBIDDEN:
                raise OutputError(
                    "output_unwritable",
                    f"Cannot create the table {str(target)!r}: there is no such schema, or this "
                    "user may not create tables in it.",
                    hint="Name another, or ask for the right.",
                ) from None
            raise

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Run the statements inside in one transaction."""
        session = self._connection.adbc_connection
        translating_errors(_translate)(session.set_autocommit)(False)
        try:
            yield
            translating_errors(_translate)(session.commit)()
        except BaseException:
            with suppress(
                Exception
            ):  # a lost session commits nothing; this must not hide the error
                session.rollback()
            raise
        finally:
            with suppress(Exception):  # the next statement reports a lost session
                session.set_autocommit(True)

    @translating_errors(_translate)
    def cancel(self, thread: int) -> None:
        """Stop the statement that a thread of this process is running."""
        if self._running == thread:
            self._connection.adbc_cancel()

    @translating_errors(_translate)
    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Hold the session; note the thread, so that `cancel` stops only its statements."""
        with self._lock:
            before, self._running = self._running, get_ident()
            try:
                yield
            finally:
                self._running = before

    @translating_errors(_translate)
    def _ingest(self, name: str, table: pa.Table) -> None:
        with self._turn(), self._connection.cursor() as cursor:
            cursor.adbc_ingest(name, table, mode="create", temporary=True)

    def _execute(self, statement: str) -> None:
        with self._turn(), self._connection.cursor() as cursor:
            cursor.execute(statement)

    _statement = translating_errors(_translate)(_execute)

    def _fetch(self, statement: str, *, uses_copy: bool = True) -> pa.Table:
        """Run a statement and fetch its result, by COPY unless it is a FETCH, which cannot."""
        with self._turn(), self._connection.cursor() as cursor:
            cursor.adbc_statement.set_options(
                **{"adbc.postgresql.use_copy": str(uses_copy).lower()}
            )
            cursor.execute(statement)
            table: pa.Table = cursor.fetch_arrow_table()
        return table.cast(pa.schema([field.remove_metadata() for field in table.schema]))
