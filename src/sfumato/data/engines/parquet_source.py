"""Parquet files as the source of DuckDB: read in place, or copied where that would fail.

*Attack*: one person's cell must not decide whether queries are answered. DuckDB fails at every
query of a column with a cell that is not UTF-8. So for private use the texts are checked once when
the files are opened, and files with such a cell are copied, with NULL in its place. DuckDB also
holds 2,048 cells of a column at once, so cells of megabytes fill its memory before a query can cut
them. Files with texts longer than declared are copied with the texts cut.

Decisions `malformed-cells` and `private-texts`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.data.engines.base import column, everything
from sfumato.data.engines.kinds import chosen_kinds, is_text, kinds_of
from sfumato.data.files.cell_text import conform, longest
from sfumato.data.files.formats import is_pattern, parquet_paths, partition_columns
from sfumato.data.files.parquet import footer_schema, parquet_files, rows_of
from sfumato.data.schema.names import quoted
from sfumato.errors import EngineError, SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.data.engines.duckdb import DuckDB
    from sfumato.data.engines.kinds import Asked
    from sfumato.data.files.file_identity import RegularFile


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
