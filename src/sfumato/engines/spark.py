"""Spark: a session on this machine or on a cluster; results come back through Arrow."""

from __future__ import annotations

import logging
from collections import Counter
from contextlib import contextmanager
from os import getpid
from pathlib import Path
from secrets import token_hex
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote, urlsplit

from sqlglot import exp

from sfumato.engines.base import (
    TableTarget,
    Traits,
    engine_failed,
    everything,
    named,
    render,
    source_table,
    stream_translating_errors,
    table_missing,
    translating_errors,
)
from sfumato.engines.files.output import write_file
from sfumato.engines.identity import Identity, of_folder, unresolved
from sfumato.engines.kinds import kinds_of
from sfumato.errors import OutputError, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from sfumato.schema.column import Kind

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
}
"""What a session of ours needs: no chatter, one time zone, errors instead of wrong numbers."""


_OWNERS: Counter[int] = Counter()
"""How many open engines of ours use a session: a process has one, and they all take it over."""

_OWNING = Lock()


def _translate(error: Exception) -> BaseException:
    """Turn what Spark raises into what we raise."""
    detail = f"{type(error).__name__}: {error}"
    if detail.startswith("AnalysisException: [TABLE_OR_VIEW_NOT_FOUND]"):
        return table_missing("Spark", detail)
    return engine_failed("Spark", detail)


def _hashed(salt: str, values: Sequence[exp.Expr]) -> exp.Expr:
    """Spark feeds the hash of each value into that of the next."""
    signed = exp.Anonymous(this="XXHASH64", expressions=[exp.convert(salt), *values])
    return exp.Paren(this=exp.BitwiseAnd(this=signed, expression=exp.convert(2**63 - 1)))


class Spark:
    """A Spark session, ours or the caller's; only ours is stopped when the engine is closed."""

    dialect: ClassVar[str] = "spark"
    traits: ClassVar[Traits] = Traits(creates_tables=False, hashed=_hashed)

    def __init__(self, session: SparkSession, table: exp.Table, *, owned: bool = False) -> None:
        # PySpark writes failed queries with their values to standard error at any log level.
        logging.getLogger("SQLQueryContextLogger").disabled = True
        self._session = session
        self._table = table
        self._owned = owned

    @classmethod
    def open(cls, url: str) -> Spark:
        """Open spark://host:port#table, or spark://local#table for this machine."""
        address, table = source_table(url, cls.dialect)
        host = urlsplit(address).netloc
        session = start_session("local[*]" if host == "local" else address)
        with _OWNING:
            _OWNERS[id(session)] += 1
        return cls(session, table, owned=True)

    @property
    def table(self) -> exp.Table:
        """The table the engine was opened on."""
        return self._table.copy()

    @translating_errors(_translate)
    def identity(self) -> Identity:
        """Ask the analyzer which tables and which folders a name leads to, through all views."""
        name = render(self._table, self.dialect)
        described = self._session.catalog.getTable(name)
        if described.isTemporary:
            raise unresolved("it is a temporary view, which ends with its session")
        plan = self._session.table(name)._jdf.queryExecution().analyzed()  # noqa: SLF001
        home = f"spark {self._session.conf.get('spark.sql.warehouse.dir')}"
        path = [described.catalog, *(described.namespace or ()), described.name]
        names = {f"{home}#{'.'.join(part.lower() for part in path if part)}"}
        also, nodes = set[str](), set[str]()
        for leaf in _leaves(plan):
            table, folders = _lies(leaf)
            names |= {f"{home}#{table.lower()}"} if table else set()
            for found in map(_of_location, folders):
                names |= found.names
                also |= found.also
                nodes |= found.nodes
        return Identity(frozenset(names), frozenset(also), frozenset(nodes))

    @translating_errors(_translate)
    def columns(self, table: exp.Table) -> dict[str, Kind]:
        """Name the columns of a table, in order, and what they hold."""
        return kinds_of(self.run(everything(table).limit(0)).schema)

    @translating_errors(_translate)
    def run(self, query: exp.Query) -> pa.Table:
        """Run a query and bring its whole result here."""
        tag = _tag(get_ident())
        self._session.sparkContext.addJobTag(tag)
        try:
            result: pa.Table = self._session.sql(render(query, self.dialect)).toArrow()
        finally:
            self._session.sparkContext.removeJobTag(tag)
        return result

    @translating_errors(_translate)
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
            schema, lambda: next(arriving, None), _translate, kept.unpersist
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

    @translating_errors(_translate)
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

    @translating_errors(_translate)
    def cancel(self, thread: int) -> None:
        """Stop the jobs that a thread of this process has started."""
        self._session.sparkContext.cancelJobsWithTag(_tag(thread))

    @translating_errors(_translate)
    def close(self) -> None:
        """Let go of the session; the last engine that was opened on it stops it."""
        if not self._owned:
            return
        self._owned = False
        with _OWNING:
            _OWNERS[id(self._session)] -= 1
            last = not _OWNERS[id(self._session)]
        if last:
            self._session.stop()

    @contextmanager
    def _temporary(self, frame: Callable[[], DataFrame]) -> Iterator[exp.Table]:
        """A frame under a name of its own, for a while."""
        name = f"view_{token_hex(8)}"
        translating_errors(_translate)(lambda: frame().createTempView(name))()
        try:
            yield named(name)
        finally:
            self._session.catalog.dropTempView(name)


_OF_NOBODY = {"OneRowRelation", "LocalRelation", "Range"}
"""What a view may read that is written in the view itself."""


def _leaves(plan: Any) -> list[Any]:
    """The relations that a plan reads, in its subqueries too, without what a view spells out."""
    plans = [plan, *_listed(plan.subqueriesAll())]
    leaves = [leaf for one in plans for leaf in _listed(one.collectLeaves())]
    return [leaf for leaf in leaves if leaf.getClass().getSimpleName() not in _OF_NOBODY]


def _lies(leaf: Any) -> tuple[str | None, list[str]]:
    """What a relation is called in the catalogue, if it is, and the folders of its files."""
    match leaf.getClass().getSimpleName():
        case "LogicalRelation":
            relation, table = leaf.relation(), leaf.catalogTable()
            if relation.getClass().getSimpleName() == "HadoopFsRelation":
                places = [str(one.toString()) for one in _listed(relation.location().rootPaths())]
                called = table.get().identifier().unquotedString() if table.isDefined() else None
                return called, places
        case "HiveTableRelation":
            table = leaf.tableMeta()
            return table.identifier().unquotedString(), [unquote(table.location().toString())]
        case "DataSourceV2Relation":
            return leaf.table().name(), []
    raise unresolved("it reads rows that lie in no files of Spark's own catalogue")


def _of_location(location: str) -> Identity:
    """A folder of this machine by its files, another one by its address."""
    if not location.startswith("file:"):
        return Identity(frozenset({location}))
    local = Path("/" + location.removeprefix("file:").lstrip("/"))
    return of_folder(local) if local.is_dir() else Identity(frozenset({str(local.resolve())}))


def _listed(sequence: Any) -> list[Any]:
    """A sequence of Scala's as a list."""
    return [sequence.apply(place) for place in range(sequence.size())]


def _tag(thread: int) -> str:
    """What the jobs of a thread of this process go by; a cluster may serve other processes too."""
    return f"sfumato-{getpid()}-{thread}"


@translating_errors(_translate)
def start_session(master: str) -> SparkSession:
    """Start a Spark session, or take over the running one."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise SourceError(
            "engine_not_installed",
            "Spark needs packages that are not installed. "
            "Install them with: pip install 'sfumato[spark]'.",
        ) from None
    builder = SparkSession.builder.master(master).appName("sfumato")
    if master.startswith("local"):
        builder = builder.config("spark.driver.host", "127.0.0.1").config(
            "spark.driver.bindAddress", "127.0.0.1"
        )
    session: SparkSession = builder.config(map=SETTINGS).getOrCreate()
    return session
