"""PostgreSQL: one session, so that lent tables can be temporary and leave nothing behind."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from threading import RLock
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from sqlglot import exp

from sfumato.engines.base import TableTarget, Traits
from sfumato.engines.failure import sheltered, sheltered_stream, table_missing
from sfumato.engines.files.output import table_exists, write_file
from sfumato.engines.kinds import kinds_of
from sfumato.engines.statement import created, dropped, everything, named, render, source_table
from sfumato.errors import EngineError, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.schema.column import Kind

_UNDEFINED_TABLE = "42P01"
_DUPLICATE_TABLE = "42P07"


def _translate(error: Exception) -> BaseException:
    """Turn what the driver raises into what we raise."""
    detail = f"{type(error).__name__}: {error}"
    if getattr(error, "sqlstate", None) == _UNDEFINED_TABLE:
        return table_missing("PostgreSQL", detail)
    return EngineError(
        "engine_failed",
        "PostgreSQL could not run the query. Its own words may quote data and are kept in the "
        "detail.",
        detail=detail,
    )


def _rendered(tree: exp.Expr) -> str:
    """Write a tree in PostgreSQL's words; its integer division gives numeric, which is no int."""
    tree = tree.copy()
    for division in reversed(list(tree.find_all(exp.IntDiv))):  # the innermost first
        division.replace(exp.cast(division.copy(), "BIGINT"))
    return render(tree, Postgres.dialect)


class Postgres:
    """A PostgreSQL database, read through Arrow."""

    dialect: ClassVar[str] = "postgres"
    traits: ClassVar[Traits] = Traits(
        creates_tables=True, reports_progress=False, cancels_at_once=True
    )

    @sheltered(_translate)
    def __init__(self, address: str, table: exp.Table) -> None:
        try:
            from adbc_driver_postgresql import dbapi
        except ImportError:
            raise SourceError(
                "engine_not_installed",
                "PostgreSQL needs packages that are not installed. "
                "Install them with: pip install 'sfumato[postgres]'.",
            ) from None
        try:
            self._connection = dbapi.connect(address, autocommit=True)
        except dbapi.Error as error:
            raise EngineError(
                "engine_unreachable",
                "Cannot connect to PostgreSQL. Check the address, the user and the password.",
                detail=str(error),
            ) from None
        self._lock = RLock()
        self._table = table

    @classmethod
    def open(cls, url: str) -> Postgres:
        """Open postgresql://user@host/database#schema.table."""
        address, table = source_table(url, cls.dialect)
        return cls(address, table)

    @property
    def table(self) -> exp.Table:
        """The table the engine was opened on."""
        return self._table.copy()

    @sheltered(_translate)
    def columns(self, table: exp.Table) -> dict[str, Kind]:
        """Name the columns of a table, in order, and what they hold."""
        return kinds_of(self.run(everything(table).limit(0)).schema)

    @sheltered(_translate)
    def run(self, query: exp.Query) -> pa.Table:
        """Run a query and bring its whole result here."""
        return self._fetch(_rendered(query))

    @sheltered(_translate)
    def stream(self, query: exp.Query, *, batch_rows: int = 65_536) -> pa.RecordBatchReader:
        """Run a query and bring its result here batch by batch.

        A held cursor keeps the result on the server, so that other queries can run meanwhile.
        """
        name = render(exp.to_identifier(f"stream_{token_hex(8)}", quoted=True), self.dialect)
        self._execute(f"DECLARE {name} NO SCROLL CURSOR WITH HOLD FOR {_rendered(query)}")

        def fetch(rows: int) -> pa.RecordBatch:
            table = self._fetch(f"FETCH FORWARD {rows} FROM {name}", whole=False)
            return table.combine_chunks().to_batches()[0] if table.num_rows else None

        def close() -> None:
            self._execute(f"CLOSE {name}")

        schema = self._fetch(f"FETCH FORWARD 0 FROM {name}", whole=False).schema
        return sheltered_stream(schema, lambda: fetch(batch_rows), _translate, close)

    @contextmanager
    def lend(self, table: pa.Table) -> Iterator[exp.Table]:
        """Let queries see a small table of ours, under a name of its own, for a while."""
        name = f"lent_{token_hex(8)}"
        self._ingest(name, table)
        try:
            yield named(name)
        finally:
            self._execute(render(dropped("TABLE", named(name)), self.dialect))

    @sheltered(_translate)
    def write(
        self, query: exp.Query, target: Path | TableTarget, *, overwrite: bool = False
    ) -> None:
        """Write a query's result to a file or a new table, whole or not at all."""
        if isinstance(target, Path):
            write_file(lambda: self.stream(query), target, overwrite=overwrite)
            return
        try:
            self._execute(_rendered(created("TABLE", target.name, query)))
        except Exception as error:
            if getattr(error, "sqlstate", None) == _DUPLICATE_TABLE:
                raise table_exists(target.name) from None
            raise

    def progress(self) -> float | None:
        """PostgreSQL does not say how far a query is."""
        return None

    @sheltered(_translate)
    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()

    @sheltered(_translate)
    def _ingest(self, name: str, table: pa.Table) -> None:
        with self._lock, self._connection.cursor() as cursor:
            cursor.adbc_ingest(name, table, mode="create", temporary=True)

    def _execute(self, statement: str) -> None:
        with self._lock, self._connection.cursor() as cursor:
            cursor.execute(statement)

    def _fetch(self, statement: str, *, whole: bool = True) -> pa.Table:
        """Fetch a result; parts of a held cursor cannot come by COPY, whole results can."""
        with self._lock, self._connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": str(whole).lower()})
            cursor.execute(statement)
            table: pa.Table = cursor.fetch_arrow_table()
        return table.cast(pa.schema([field.remove_metadata() for field in table.schema]))
