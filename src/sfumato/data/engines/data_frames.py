"""Tables in memory: data frames, relations, records, columns by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from sfumato.errors import SourceError


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
    """Whether an object is a Spark data frame; works without importing Spark."""
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
    """The columns of all records in order of first occurrence; absent values are None."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}
