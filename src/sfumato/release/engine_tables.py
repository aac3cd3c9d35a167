"""Releases that are tables of an engine, found again by the address of the table.

What tells of one lies in the current directory, where it was written; whether the table is still
the one that was released is found out where it lies.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.data.engines.base import SPARK, TableTarget, everything, source_table
from sfumato.data.engines.sources import POSTGRES, open_source
from sfumato.errors import SourceError
from sfumato.release.engine_writer import check_unchanged
from sfumato.release.paths import Output
from sfumato.release.sidecar import read_table_sidecar, sidecar_file

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa


@dataclass(frozen=True)
class ToldTable:
    """What is told of a table that was released, and after what its files here are named."""

    told: dict[str, Any]
    path: Path


def released_table(url: str) -> ToldTable | None:
    """What the side-car here tells of a table, which is as it was; None where there is none."""
    path, dialect = _named(url)
    told = None if path is None else read_table_sidecar(path, dialect)
    if path is None or told is None:
        return None
    with closing(open_source(url)) as engine:
        check_unchanged(engine, told)
    return ToldTable(told, path)


def load_table(url: str) -> tuple[ToldTable, pa.Table]:
    """A table that was released and is as it was, with its rows sorted as in a file."""
    found = released_table(url)
    if found is None:
        path, _ = _named(url)
        where = "it is no table of PostgreSQL or Spark"
        if path is not None:
            where = f"its side-car, '{sidecar_file(path).name}', is not in the current directory"
        raise SourceError(
            "release_unreadable",
            f"Cannot read this table as a release: {where}. Go to the folder in which the release "
            "was made, or read the table as any other, with sf.read.",
        )
    with closing(open_source(url)) as engine:
        rows = engine.run(everything(engine.table))
    return found, rows.sort_by([(name, "ascending") for name in rows.column_names])


def _named(url: str) -> tuple[Path | None, str]:
    """After what files here are named that tell of a table, and its engine's dialect."""
    scheme, name = url.partition("://")[0], url.partition("#")[2]
    dialect = "postgres" if scheme in POSTGRES else "spark" if scheme in SPARK else ""
    if not dialect or not name:
        return None, dialect
    table = source_table(url, dialect)[1]
    target = TableTarget(table.name, table.db or None, table.catalog or None)
    return Output(target).path, dialect
