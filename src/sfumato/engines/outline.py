"""What a source tells without its rows: which files it is, and which columns they have.

All of it is public: nothing here depends on any row, so it may be looked at before a charge.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.engines.duckdb import DuckDB
from sfumato.engines.files.csv import names_told
from sfumato.engines.files.parquet import schema_told
from sfumato.engines.files.regular import RegularFile, regular_file
from sfumato.engines.sources import attached, duckdb_file, parquet_paths
from sfumato.engines.statement import everything

if TYPE_CHECKING:
    from collections.abc import Collection


def files_of(source: str) -> tuple[RegularFile, ...]:
    """The files that a source is made of, as they are now."""
    if source.startswith("duckdb://"):
        return (duckdb_file(source)[0],)
    path = Path(source)
    return tuple(map(regular_file, parquet_paths(path) if path.is_dir() else [path]))


def missing_columns(source: str, declared: Collection[str]) -> list[str]:
    """Declared columns that the files of a source do not have."""
    if source.startswith("duckdb://"):
        ways = [_columns_of_table(source)]
    elif source.lower().endswith((".csv", ".csv.gz")):
        ways = names_told(source)
    else:
        ways = [schema_told(file).names for file in files_of(source)[:1]]
    absent = [[name for name in declared if name not in names] for names in ways]
    return min(absent, key=len)


def _columns_of_table(url: str) -> list[str]:
    engine = DuckDB()
    try:
        names: list[str] = engine.run(everything(attached(engine, url)).limit(0)).schema.names
    finally:
        engine.close()
    return names
