"""The Spark engine: a session on this machine or on a cluster; results arrive as Arrow batches."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, ClassVar
from weakref import finalize

from sqlglot import exp

from sfumato.data.engines.base import (
    FolderTarget,
    TableTarget,
    Traits,
    everything,
    named,
    render,
    stream_translating_errors,
    translating_errors,
)
from sfumato.data.engines.kinds import kinds_of
from sfumato.data.engines.malformed_cells import Doubt, doubted, doubts_of
from sfumato.data.engines.spark.jobs import (
    SparkJobs,
    arrow_schema,
    batches_of,
    cancel_jobs,
    in_own_thread,
)
from sfumato.data.engines.spark.plans import identity_of
from sfumato.data.engines.spark.session import check_running, hush, translate
from sfumato.data.engines.spark.targets import check_folder, check_table, drafted, write_folder
from sfumato.data.files.writers import write_file
from sfumato.data.schema.names import check_names
from sfumato.filesystem import check_target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from sfumato.data.engines.base import Target
    from sfumato.data.engines.source_identity import Identity
    from sfumato.data.schema.column import Kind


def _hashed(salt: str, values: Sequence[exp.Expr]) -> exp.Expr:
    """The hash of a text and values, as `Traits.hashed`; Spark chains the hashes of the values."""
    signed = exp.Anonymous(this="XXHASH64", expressions=[exp.convert(salt), *values])
    return exp.Paren(this=exp.BitwiseAnd(this=signed, expression=exp.convert(2**63 - 1)))


def _from_hex(digits: exp.Expr) -> exp.Expr:
    decimal = exp.Anonymous(this="CONV", expressions=[digits, exp.convert(16), exp.convert(10)])
    return exp.cast(decimal, "BIGINT")


def create_view(frame: DataFrame, name: str) -> None:
    """Make a temporary view of a frame."""
    # Dropping a view also uncaches every frame of the same plan, which may be a frame of the user.
    # A condition that is always true gives the view a plan of its own at no cost.
    frame.where(f"'{name}' = '{name}'").createTempView(name)


class Spark:
    """A Spark session, ours or the caller's, and a table in it.

    Parameters
    ----------
    session : SparkSession
        The session.
    table : exp.Table
        The table or view to read.
    close : callable, optional
        Releases what was opened for this engine.
    identity : callable, optional
        Returns the identity of the table where the catalogue does not know it.
    ready : callable, optional
        Raises where the table can no longer be read as it was opened.
    """

    dialect: ClassVar[str] = "spark"
    traits: ClassVar[Traits] = Traits(
        creates_tables=True, hashed=_hashed, from_hex=_from_hex, sums_widely=False
    )

    def __init__(
        self,
        session: SparkSession,
        table: exp.Table,
        *,
        close: Callable[[], None] | None = None,
        identity: Callable[[], Identity] | None = None,
        ready: Callable[[], None] | None = None,
    ) -> None:
        hush()
        self._session = session
        self._table = table
        self._doubts: dict[str, Doubt] = {}
        # A caller who passes a data frame closes nothing: garbage collection releases the view.
        self._close = finalize(self, close) if close is not None else None
        if self._close is not None:
            self._close.atexit = False  # at the end of the process there is nothing to release
        self._identity = identity or partial(identity_of, session, table)
        self._ready = ready

    @property
    def table(self) -> exp.Table:
        """The table of the engine; its malformed cells are read as NULL."""
        return doubted(self._table, self._doubts)

    @translating_errors(translate)
    def identity(self) -> Identity:
        """Return the identity of the table of the engine."""
        return in_own_thread(self._identity)

    @translating_errors(translate)
    def columns(self, table: exp.Table) -> dict[str, Kind]:
        """Return the columns of a table, in order, and their kinds.

        The table of the engine is refused where it can no longer be read as it was opened. Spark
        is told to list its files again, which it caches otherwise.
        """

        def look() -> pa.Schema:
            check_running(self._session)
            if table == self._table:
                (self._ready or self._refresh)()
                return self._look()
            return self._schema(table)

        return kinds_of(in_own_thread(look))

    @translating_errors(translate)
    def look(self) -> pa.Schema:
        """Read which columns the table has now, and note which may hold malformed cells."""
        return in_own_thread(self._look)

    def _look(self) -> pa.Schema:
        schema = self._schema(self._table)
        self._doubts = doubts_of(schema, bytes_unchecked=True)
        return schema

    def _schema(self, table: exp.Table) -> pa.Schema:
        schema = arrow_schema(self._frame(everything(table)))
        check_names(schema.names)  # Spark cannot resolve columns of one name
        return schema

    @translating_errors(translate)
    def run(self, query: exp.Query) -> pa.Table:
        """Run a query and fetch its whole result, in one job."""
        return SparkJobs(self._session).run(lambda: self._frame(query).toArrow())

    @translating_errors(translate)
    def stream(self, query: exp.Query, *, batch_rows: int = 65_536) -> pa.RecordBatchReader:
        """Run a query and fetch its result batch by batch."""
        jobs = SparkJobs(self._session)
        frame, schema = jobs.run(lambda: (frame := self._frame(query), arrow_schema(frame)))
        arriving = batches_of(frame, schema, jobs)
        batches = (
            batch.slice(start, batch_rows)
            for batch in arriving
            for start in range(0, batch.num_rows, batch_rows)
        )
        return stream_translating_errors(
            schema, lambda: next(batches, None), translate, arriving.close
        )

    @contextmanager
    def lend(self, table: pa.Table) -> Iterator[exp.Table]:
        """Copy a small table into the engine as a temporary table, dropped at the end."""

        def frame() -> DataFrame:
            from pyspark.sql.pandas.types import from_arrow_schema

            # Spark Connect takes no types from a table without rows.
            types = None if table.num_rows else from_arrow_schema(table.schema)
            return self._session.createDataFrame(table, types)

        with self._temporary(frame) as lent:
            yield lent

    @contextmanager
    def view(self, query: exp.Query) -> Iterator[exp.Table]:
        """Make a temporary view of a query, dropped at the end."""
        with self._temporary(lambda: self._frame(query)) as view:
            yield view

    @translating_errors(translate)
    def write(self, query: exp.Query, target: Target, *, overwrite: bool = False) -> None:
        """Write a query's result atomically; executors write folders and tables themselves."""
        if isinstance(target, Path):
            write_file(lambda: self.stream(query), target, overwrite=overwrite)
            return
        if isinstance(target, TableTarget):
            with self.draft(query, target, overwrite=overwrite):
                return
        self.check(target, overwrite=overwrite)
        write_folder(self._session, self._sql(query), target, overwrite=overwrite)

    @translating_errors(translate)
    def check(self, target: Target, *, overwrite: bool = False) -> None:
        """Refuse targets that exist, that the source reads, or that Spark cannot write to."""
        if isinstance(target, TableTarget):
            in_own_thread(
                lambda: check_table(self._session, target, self._table, overwrite=overwrite)
            )
        elif isinstance(target, FolderTarget):
            in_own_thread(
                lambda: check_folder(self._session, target, self._table, overwrite=overwrite)
            )
        else:
            check_target(target, overwrite=overwrite)

    def draft(
        self, query: exp.Query, target: TableTarget, *, overwrite: bool = False
    ) -> AbstractContextManager[exp.Table]:
        """Write a query's result to a draft table that is renamed at the end."""
        self.check(target, overwrite=overwrite)
        return drafted(self._session, self._sql(query), target, overwrite=overwrite)

    @translating_errors(translate)
    def cancel(self, thread: int) -> None:
        """Stop the jobs that a thread of this process has started."""
        cancel_jobs(self._session, thread)

    @translating_errors(translate)
    def close(self) -> None:
        """Release the session and what was opened with it."""
        if self._close is not None:
            in_own_thread(self._close)

    def _refresh(self) -> None:
        """Make Spark list the files of the table again; the name may be a table or a path."""
        catalogue = self._session.catalog
        try:
            catalogue.refreshTable(render(self._table, self.dialect))
        except Exception:  # noqa: BLE001  it fails in many ways; reading the table tells which
            catalogue.refreshByPath(self._table.name)

    def _frame(self, query: exp.Query) -> DataFrame:
        """Return the analyzed frame of a query; nothing is run."""
        return self._session.sql(self._sql(query))

    def _sql(self, query: exp.Query) -> str:
        return render(query, self.dialect)

    @contextmanager
    def _temporary(self, frame: Callable[[], DataFrame]) -> Iterator[exp.Table]:
        """Make a temporary view of a frame, dropped at the end."""
        name = f"view_{token_hex(8)}"
        translating_errors(translate)(in_own_thread)(lambda: create_view(frame(), name))
        try:
            yield named(name)
        finally:
            in_own_thread(lambda: self._session.catalog.dropTempView(name))
