"""Releases that an engine writes: into a folder, or as a table beside the data.

A table gets its name last, when its side-car is in place. Until then the journal counts the writing
as unfinished, and undoes all of it. A table is found again by its address: its side-car is in the
current directory, and a fingerprint computed by the engine shows whether it is unchanged. Decision
`writing-releases`.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sqlglot import exp

from sfumato.data.engines.base import SPARK, FolderTarget, TableTarget, everything, source_table
from sfumato.data.engines.sources import POSTGRES, open_source
from sfumato.data.files.writers import parts_in
from sfumato.data.schema.column import Kind
from sfumato.errors import SourceError
from sfumato.release.fingerprint import contents
from sfumato.release.output import Output
from sfumato.release.sidecar import Saved, checksum, read_table_sidecar, sidecar_file
from sfumato.write_journal import LastFile, mark_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    import pyarrow as pa

    from sfumato.data.engines.base import Engine
    from sfumato.filesystem import Scratch
    from sfumato.release.sidecar import Json


_WAITS, _STANDS = "table", "stands"
"""The file in the scratch folder while a table has only a draft name, and its name afterwards."""


class Checking(Protocol):
    """Refuses written rows that differ from the decided ones."""

    def check_parts(self, paths: Iterable[Path]) -> None:
        """Check files."""
        ...

    def check_table(self, engine: Engine, table: exp.Table) -> None:
        """Check a table of an engine."""
        ...


class EngineRows(NamedTuple):
    """A table of a release that an engine writes."""

    engine: Engine
    query: exp.Query
    columns: Mapping[str, Kind]
    spelled: Mapping[str, Mapping[str, Json]]
    """The spelling of columns in text, as the side-car has it."""
    promised: Checking | None = None
    """The check of written rows; None if the engine itself notices a changed source."""


def write_parts(rows: EngineRows, folder: Path, known_as: Path) -> dict[str, str]:
    """Let an engine write into a new folder; return the checksum of each file by name."""
    # Spark adds files of its own to a folder, so parts are written beside it and moved.
    written = folder.with_name("parts")
    rows.engine.write(rows.query, FolderTarget(str(written), str(known_as)))
    if rows.promised is not None:
        rows.promised.check_parts(parts_in(written))
    return {file.name: checksum(file.rename(folder / file.name)) for file in parts_in(written)}


def _rows_and_mark(
    engine: Engine, table: exp.Table, columns: Mapping[str, Kind]
) -> tuple[int, str]:
    """Return the number of rows of a table, and their fingerprint.

    The fingerprint is of released rows, which anyone may know, so it needs no secret.
    """
    counted = exp.cast(exp.Count(this=exp.Star()), "BIGINT").as_("sf_rows")
    rows = engine.run(exp.select(counted).from_(table.copy()))["sf_rows"][0].as_py()
    return rows, contents(engine, table, columns, secret=b"") or ""


def check_unchanged(engine: Engine, sidecar: Mapping[str, Json]) -> None:
    """Refuse a table that differs from its side-car."""
    [described] = sidecar["tables"]
    columns = {name: Kind(kind) for name, kind in described["columns"].items()}
    held = engine.columns(engine.table)
    # The order of columns may change on the way through an engine, their names may not.
    unchanged = {*held} == {*columns} and _rows_and_mark(engine, engine.table, columns) == (
        described["table"]["rows"],
        described["sha256"],
    )
    if not unchanged:
        raise SourceError(
            "release_changed",
            f"The table {described['table']['name']!r} was changed after its release: it differs "
            "from what its side-car in the current directory describes. Make the release again; "
            "or, to read it as a table like any other, move the side-car away.",
        )


class DraftedTable:
    """A table of an engine that has a draft name until its release is complete."""

    def __init__(self, target: TableTarget) -> None:
        self._target = target
        self._held = ExitStack()
        self._scratch: Path | None = None

    def write(self, name: str, rows: EngineRows, *, overwrite: bool) -> Saved:
        """Let the engine write it under a draft name; return its entry for the side-car."""
        engine = rows.engine
        drafting = engine.draft(rows.query, self._target, overwrite=overwrite)
        draft = self._held.enter_context(drafting)
        if rows.promised is not None:
            rows.promised.check_table(engine, draft)
        released, mark = _rows_and_mark(engine, draft, rows.columns)
        lies = {"engine": engine.dialect, "name": str(self._target), "rows": released}
        return Saved(name, "", mark, rows.columns, rows.spelled, table=lies)

    def waiting(self, scratch: Scratch) -> LastFile:
        """Return the file that represents it in a journal: it moves once the table is named."""
        self._scratch = scratch.path
        waiting = self._scratch / _WAITS / _WAITS
        waiting.parent.mkdir()
        # The journal knows files only: this one stands for the table, and moves when it has its
        # name.
        waiting.touch(mode=0o600)
        mark = mark_of(waiting)
        assert mark is not None
        return LastFile(str(self._scratch / _STANDS), str(waiting.parent), mark)

    def settle(self) -> None:
        """Give the table its name, which the engine may still refuse."""
        self._held.close()
        assert self._scratch is not None
        (self._scratch / _WAITS / _WAITS).rename(self._scratch / _STANDS)

    def abandon(self) -> None:
        """Drop the draft, unless the table has its name."""
        # The engine drops a draft when its context ends with an exception.
        self._held.__exit__(_AbandonedError, _AbandonedError(), None)


class _AbandonedError(Exception):
    """Makes an engine drop a draft."""


@dataclass(frozen=True)
class TableInEngine:
    """The side-car of a released table, and the local path after which its files are named."""

    sidecar: dict[str, Any]
    path: Path


def released_table(url: str) -> TableInEngine | None:
    """Read the side-car of an unchanged table; None without a side-car."""
    path, dialect = _local_path(url)
    sidecar = None if path is None else read_table_sidecar(path, dialect)
    if path is None or sidecar is None:
        return None
    with closing(open_source(url)) as engine:
        check_unchanged(engine, sidecar)
    return TableInEngine(sidecar, path)


def load_table(url: str) -> tuple[TableInEngine, pa.Table]:
    """Read an unchanged released table, with its rows sorted as in a file."""
    described = released_table(url)
    if described is None:
        path, _ = _local_path(url)
        where = "it is not a table of PostgreSQL or Spark"
        if path is not None:
            where = f"its side-car, '{sidecar_file(path).name}', is not in the current directory"
        raise SourceError(
            "release_unreadable",
            f"Cannot read this table as a release: {where}. Change to the folder in which the "
            "release was made, or read the table as any other, with sf.read.",
        )
    with closing(open_source(url)) as engine:
        rows = engine.run(everything(engine.table))
    return described, rows.sort_by([(name, "ascending") for name in rows.column_names])


def _local_path(url: str) -> tuple[Path | None, str]:
    """Return the local path after which the files of a table are named, and its dialect."""
    scheme, name = url.partition("://")[0], url.partition("#")[2]
    dialect = "postgres" if scheme in POSTGRES else "spark" if scheme in SPARK else ""
    if not dialect or not name:
        return None, dialect
    table = source_table(url, dialect)[1]
    target = TableTarget(table.name, table.db or None, table.catalog or None)
    return Output(target).path, dialect
