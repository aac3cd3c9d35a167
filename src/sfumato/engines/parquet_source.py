"""Parquet files as the source of DuckDB: looked at where they are, or copied where that would fail.

What one cell holds must not decide whether a question is answered. DuckDB refuses every query of a
column in which one cell is not UTF-8, so where others ask, text is looked through once when files
are opened; only files with such a cell are copied, the cell as NULL. Decision 0254.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.engines.base import column, everything
from sfumato.engines.files.cells import conform
from sfumato.engines.files.endings import is_pattern, parquet_paths, partition_columns
from sfumato.engines.files.parquet import parquet_files, rows_of, schema_told
from sfumato.engines.kinds import chosen_kinds, is_text, kinds_of
from sfumato.errors import SourceError
from sfumato.schema.names import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.engines.duckdb import DuckDB
    from sfumato.engines.files.regular import RegularFile
    from sfumato.engines.kinds import Asked


def view_parquet(
    engine: DuckDB, paths: Sequence[str | Path], kinds: Mapping[str, Asked], *, strict: bool
) -> None:
    """Look at Parquet files where they are."""
    if not paths:
        raise SourceError(
            "source_missing", "The list of Parquet files is empty. Name at least one."
        )
    for path in map(Path, paths):
        if parquet_paths(path) == [path] and is_pattern(path):
            raise SourceError(
                "source_missing",
                f"No file matches the pattern {str(path)!r}. Name one that Parquet files match.",
            )
    files = parquet_files([one for path in paths for one in parquet_paths(Path(path))])
    check_partitions(files)
    engine.watch(files)
    literals = [exp.Literal.string(file.pattern) for file in files]
    # Otherwise a directory named like 'year=2024' would add or replace a column.
    plain = exp.Kwarg(this=exp.Var(this="hive_partitioning"), expression=exp.false())
    reading = [exp.Array(expressions=literals), plain]
    relation = exp.Table(this=exp.Anonymous(this="read_parquet", expressions=reading))
    if strict or _is_utf8(engine, relation):
        engine.adopt(relation, kinds, rows=rows_of(files), strict=strict)
    else:
        chosen = chosen_kinds(kinds_of(schema_told(files[0])), kinds)
        engine.load(conform(rows_of(files), chosen, strict=False), chosen)


def check_partitions(files: Sequence[RegularFile]) -> None:
    """Refuse files of which the names of their folders tell a column that they lack."""
    apart = partition_columns(file.path for file in files)
    if apart and apart[0] not in schema_told(files[0]).names:
        raise SourceError(
            "source_partitioned",
            f"Cannot read these Parquet files as one table: {quoted(apart[0])} stands in the names "
            "of their folders and not in the files. Read the folder through Spark, as "
            "spark+parquet:///folder/, or write the column into the files.",
        )


def _is_utf8(engine: DuckDB, relation: exp.Expr) -> bool:
    """Whether all text can be read: at a cell that is not UTF-8 every query of its column fails."""
    schema = engine.run(everything(relation).limit(0)).schema
    texts = [column(field.name) for field in schema if is_text(field.type)]
    if not texts:
        return True
    longest = (exp.Max(this=exp.Length(this=one)).as_(f"sf_{at}") for at, one in enumerate(texts))
    try:
        engine.run(exp.select(*longest).from_(relation.copy()))
    except SourceError as error:
        if error.code != "not_utf8":
            raise
        return False
    return True
