"""The engines that cells are run on: how each opens tables, and which physical cells it holds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import sfumato as sf
from sfumato.data.engines.base import named
from sfumato.release.open_table import check_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from tests.registry.tables import Layout

Opener = Callable[[pa.Table, sf.Schema], Any]
"""Opens an Arrow table as an `sf.Table` of one engine."""


@dataclass(frozen=True)
class TestedEngine:
    """An engine, how it opens an Arrow table, and what of it it holds.

    Parameters
    ----------
    feed
        Holds rows where a step of a stream reads them.
    types
        The physical types that a column of a kind may have; without it every type, because the
        engine copies and converts what it is given.
    days
        The first and the last day, since 1970, that it holds in each physical type of dates.
    """

    __test__ = False

    name: str
    open: Opener
    feed: Callable[[pa.Table], AbstractContextManager[Any]] = nullcontext
    types: Mapping[sf.Kind, tuple[pa.DataType, ...]] | None = None
    days: Mapping[str, tuple[int, int]] | None = None

    def held(self, layout: Layout) -> Layout:
        """The part of a layout that the engine holds; the gaps say what is left out."""
        by_kind = {kind: data_type for kind, data_type in layout.by_kind.items()
                   if self._holds(kind, data_type)}  # fmt: skip
        return replace(layout, by_kind=by_kind, days=self.days)

    def gaps(self, layout: Layout) -> list[str]:
        """What of a layout the engine does not hold."""
        return [f"{kind} as {data_type}" for kind, data_type in layout.by_kind.items()
                if not self._holds(kind, data_type)]  # fmt: skip

    def _holds(self, kind: sf.Kind, data_type: pa.DataType) -> bool:
        return self.types is None or data_type in self.types[kind]


def open_here(table: pa.Table, schema: sf.Schema) -> Any:
    """Open a table in DuckDB, as people give it."""
    return sf.read(table, schema, strict=False)


DUCKDB = TestedEngine("duckdb", open_here)

_TEXTS = (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()))
_REALS = (pa.float64(), pa.float32(), pa.decimal128(15, 2))
_TIMESTAMPS = tuple(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns"))

POSTGRES_TYPES = {
    # Unsigned integers of 64 bits wrap around when they are sent. Decimals of more digits, and
    # numbers of one kind in a column of another, are refused when a table is opened.
    sf.Kind.INTEGER: (pa.int64(), pa.int32(), pa.int16(), pa.int8(), pa.uint32(), pa.uint16(),
                      pa.uint8(), pa.decimal128(18, 0)),
    sf.Kind.REAL: _REALS,
    sf.Kind.TEXT: _TEXTS,
    sf.Kind.DATE: (pa.date32(), *_TIMESTAMPS),
    sf.Kind.BOOLEAN: (pa.bool_(),),
}  # fmt: skip
POSTGRES_DAYS = {"date": (-2_440_588, 2_145_042_905), "timestamp": (-2_440_588, 106_751_990)}
"""From 4714-11-24 BC to the year 5874897; timestamps to the last day in 64 bits since 1970."""

SPARK_TYPES = {
    sf.Kind.INTEGER: (pa.int64(), pa.int32(), pa.int16(), pa.int8(), pa.decimal128(18, 0)),
    sf.Kind.REAL: _REALS,
    sf.Kind.TEXT: _TEXTS,
    sf.Kind.DATE: (pa.date32(), *_TIMESTAMPS[:3]),  # of microseconds
    sf.Kind.BOOLEAN: (pa.bool_(),),
}
SPARK_DAYS = {"date": (-(2**31), 2**31 - 1), "timestamp": (-106_751_990, 106_751_990)}
"""A day is an integer of 32 bits; a timestamp is microseconds since 1970 in 64 bits."""


def postgres(url: str) -> TestedEngine:
    """A PostgreSQL server."""
    from sfumato.data.engines.postgres import Postgres, rendered

    def opened(table: pa.Table, schema: sf.Schema) -> Any:
        engine = Postgres(url, named("none"))
        return _lent(engine.close, engine, table, schema, typed_by_postgres)

    @contextmanager
    def feed(rows: pa.Table) -> Iterator[str]:
        name, engine = f"came_{token_hex(8)}", Postgres(url, named("none"))
        try:
            with engine.lend(rows) as lent:
                typed = rendered(typed_by_postgres(lent, rows.schema))
                engine._execute(f"CREATE TABLE {name} AS {typed}")
            try:
                yield f"{url}#{name}"
            finally:
                engine._execute(f"DROP TABLE {name}")
        finally:
            engine.close()

    return TestedEngine("postgres", opened, feed, POSTGRES_TYPES, POSTGRES_DAYS)


def typed_by_postgres(lent: Any, schema: pa.Schema) -> Any:
    """Rows with the precision of their decimals, which are lent without, and with infinite days.

    The first and the last day that the server holds stand for infinite ones, which Arrow has not.
    """
    from sqlglot import exp

    def ends(name: str, kind: str, first: str, last: str) -> exp.Expr:
        cell = exp.column(name, quoted=True)
        return (
            exp.case()
            .when(cell.copy() >= exp.cast(exp.convert(last), kind),
                  exp.cast(exp.convert("infinity"), kind))
            .when(cell.copy() <= exp.cast(exp.convert(first), kind),
                  exp.cast(exp.convert("-infinity"), kind))
            .else_(cell)
        )  # fmt: skip

    def cell(field: pa.Field) -> exp.Expr:
        if pa.types.is_decimal(field.type):
            declared = f"DECIMAL({field.type.precision}, {field.type.scale})"
            return exp.cast(exp.column(field.name, quoted=True), declared)
        if field.type == pa.date32():
            return ends(field.name, "DATE", "4714-11-24 BC", "5874897-12-31")
        if pa.types.is_timestamp(field.type):
            return ends(field.name, "TIMESTAMP", "4714-11-25 BC", "294245-01-01")
        return exp.column(field.name, quoted=True)

    cells = (exp.alias_(cell(field), field.name, quoted=True) for field in schema)
    return exp.select(*cells).from_(lent.copy())


def spark(session: Any) -> TestedEngine:
    """A Spark session, which outlives the tables."""
    from sfumato.data.engines.spark.engine import Spark

    def opened(table: pa.Table, schema: sf.Schema) -> Any:
        return _lent(lambda: None, Spark(session, named("none")), table, schema, typed_by_spark)

    def feed(rows: pa.Table) -> AbstractContextManager[Any]:
        from pyspark.sql.pandas.types import from_arrow_schema

        # Spark takes no types from a table without rows.
        types = None if rows.num_rows else from_arrow_schema(rows.schema)
        return nullcontext(session.createDataFrame(rows, types))

    return TestedEngine("spark", opened, feed, SPARK_TYPES, SPARK_DAYS)


def typed_by_spark(lent: Any, schema: pa.Schema) -> Any:
    """Rows with timestamps without a zone, which are lent in that of the session."""
    from sqlglot import exp

    cells = (exp.column(field.name, quoted=True) for field in schema)
    typed = (exp.cast(cell, "TIMESTAMPNTZ") if pa.types.is_timestamp(field.type) else cell
             for field, cell in zip(schema, cells, strict=True))  # fmt: skip
    named_cells = (exp.alias_(cell, field.name, quoted=True)
                   for field, cell in zip(schema, typed, strict=True))  # fmt: skip
    return exp.select(*named_cells).from_(lent.copy())


def _lent(
    close: Callable[[], None],
    engine: Any,
    table: pa.Table,
    schema: sf.Schema,
    typed: Callable[[Any, pa.Schema], Any] | None = None,
) -> Any:
    """A table that is taken back when it is closed, before its engine is.

    It is looked at and compared with its schema as a table that is opened by its address.
    """
    with ExitStack() as stack:
        stack.callback(close)
        lent = stack.enter_context(engine.lend(table))
        if typed is not None:
            lent = stack.enter_context(engine.view(typed(lent, table.schema)))
        engine._table = lent
        engine.look()
        check_columns(engine, schema, strict=False)
        engine.close = stack.pop_all().close
    return sf.Table(engine, schema, ("declared",) * len(schema.columns))
