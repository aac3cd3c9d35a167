"""Spark: a session on this machine or on a cluster; results come back through Arrow."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from functools import partial
from os import getpid
from pathlib import Path
from secrets import token_hex
from threading import get_ident
from typing import TYPE_CHECKING, ClassVar

from sqlglot import exp

from sfumato.engines.base import (
    TableTarget,
    Traits,
    everything,
    named,
    render,
    stream_translating_errors,
    translating_errors,
)
from sfumato.engines.files.output import write_file
from sfumato.engines.kinds import kinds_of
from sfumato.engines.spark.identity import identity_of
from sfumato.engines.spark.session import stop_tagged, tagged, translate
from sfumato.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from sfumato.engines.identity import Identity
    from sfumato.schema.column import Kind


def _hashed(salt: str, values: Sequence[exp.Expr]) -> exp.Expr:
    """Spark feeds the hash of each value into that of the next."""
    signed = exp.Anonymous(this="XXHASH64", expressions=[exp.convert(salt), *values])
    return exp.Paren(this=exp.BitwiseAnd(this=signed, expression=exp.convert(2**63 - 1)))


class Spark:
    """A Spark session, ours or the caller's, and a table that it sees.

    `done` lets go of what was opened with it; `identity` tells what the table is, where the
    catalogue does not.
    """

    dialect: ClassVar[str] = "spark"
    traits: ClassVar[Traits] = Traits(creates_tables=False, hashed=_hashed)

    def __init__(
        self,
        session: SparkSession,
        table: exp.Table,
        *,
        done: Callable[[], None] | None = None,
        identity: Callable[[], Identity] | None = None,
    ) -> None:
        # PySpark writes failed queries with their values to standard error at any log level.
        logging.getLogger("SQLQueryContextLogger").disabled = True
        self._session = session
        self._table = table
        self._done = done
        self._identity = identity or partial(identity_of, session, table)

    @property
    def table(self) -> exp.Table:
        """The table the engine was opened on."""
        return self._table.copy()

    @translating_errors(translate)
    def identity(self) -> Identity:
        """Say what the table that it was opened on is, however it was spelled."""
        return self._identity()

    @translating_errors(translate)
    def columns(self, table: exp.Table) -> dict[str, Kind]:
        """Name the columns of a table, in order, and what they hold."""
        return kinds_of(self.run(everything(table).limit(0)).schema)

    @translating_errors(translate)
    def run(self, query: exp.Query) -> pa.Table:
        """Run a query and bring its whole result here."""
        with tagged(self._session, _tag(get_ident())):
            result: pa.Table = self._session.sql(render(query, self.dialect)).toArrow()
        return result

    @translating_errors(translate)
    def stream(self, query: exp.Query, *, batch_rows: int = 65_536) -> pa.RecordBatchReader:
        """Run a query and bring its result here batch by batch.

        The result is kept on the executors' disks and fetched one partition at a time.
        """
        from pyspark import StorageLevel
        from pyspark.sql import functions

        part = f"part_{token_hex(8)}"
        frame = self._session.sql(render(query, self.dialect))
        schema = frame.limit(0).toArrow().schema
        kept = frame.withColumn(part, functions.spark_partition_id())
        kept = kept.persist(StorageLevel.DISK_ONLY)
        numbers = kept.select(part).distinct().sort(part).toArrow()[part].to_pylist()

        def batches() -> Iterator[pa.RecordBatch]:
            for number in numbers:
                table = kept.where(functions.col(part) == number).drop(part).toArrow()
                yield from table.cast(schema).to_batches(max_chunksize=batch_rows)

        arriving = batches()
        return stream_translating_errors(
            schema, lambda: next(arriving, None), translate, kept.unpersist
        )

    @contextmanager
    def lend(self, table: pa.Table) -> Iterator[exp.Table]:
        """Let queries see a small table of ours, under a name of its own, for a while."""
        with self._temporary(lambda: self._session.createDataFrame(table)) as lent:
            yield lent

    @contextmanager
    def view(self, query: exp.Query) -> Iterator[exp.Table]:
        """Let queries see a query's result as it is at their time, under a name, for a while."""
        with self._temporary(lambda: self._session.sql(render(query, self.dialect))) as view:
            yield view

    @translating_errors(translate)
    def write(
        self, query: exp.Query, target: Path | TableTarget, *, overwrite: bool = False
    ) -> None:
        """Write a query's result to a file, whole or not at all; tables are not created."""
        if not isinstance(target, Path):
            raise OutputError(
                "engine_cannot_create_tables",
                f"Cannot create the table {target.name!r}: Spark does not create tables here "
                "whole or not at all. Write to a file.",
            )
        write_file(lambda: self.stream(query), target, overwrite=overwrite)

    @translating_errors(translate)
    def cancel(self, thread: int) -> None:
        """Stop the jobs that a thread of this process has started."""
        stop_tagged(self._session, _tag(thread))

    @translating_errors(translate)
    def close(self) -> None:
        """Let go of the session, and of what was opened with it."""
        done, self._done = self._done, None
        if done is not None:
            done()

    @contextmanager
    def _temporary(self, frame: Callable[[], DataFrame]) -> Iterator[exp.Table]:
        """A frame under a name of its own, for a while."""
        name = f"view_{token_hex(8)}"
        translating_errors(translate)(lambda: frame().createTempView(name))()
        try:
            yield named(name)
        finally:
            self._session.catalog.dropTempView(name)


def _tag(thread: int) -> str:
    """What the jobs of a thread of this process go by; a cluster may serve other processes too."""
    return f"sfumato-{getpid()}-{thread}"
