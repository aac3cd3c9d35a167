"""Releases that an engine writes by itself: into a folder, or as a table where the data lies.

A table gets its name last, when its side-car is in place. Until the engine has named it, the
journal counts the writing as unfinished, and all of it is taken back. A table is found again by its
address: its side-car lies in the current directory, and the engine tells whether the table is
unchanged. Decision `writing-releases`.
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
"""What lies in the scratch folder as long as a table has not got its name, and what it becomes."""


class Checking(Protocol):
    """Refuses rows that were written but are not those that were decided on."""

    def check_parts(self, paths: Iterable[Path]) -> None:
        """Look at files."""
        ...

    def check_table(self, engine: Engine, table: exp.Table) -> None:
        """Look at a table of an engine."""
        ...


class EngineRows(NamedTuple):
    """A table of a release that an engine is to write by itself."""

    engine: Engine
    query: exp.Query
    columns: Mapping[str, Kind]
    spelled: Mapping[str, Mapping[str, Json]]
    """How columns are spelled in text, as a side-car tells it."""
    promised: Checking | None = None
    """Who looks at what was written; None where the engine itself notices a changed source."""


def write_parts(rows: EngineRows, folder: Path, known_as: Path) -> dict[str, str]:
    """Let an engine write into a new folder; return the checksum of each file by name."""
    written = folder.with_name("parts")
    rows.engine.write(rows.query, FolderTarget(str(written), str(known_as)))
    if rows.promised is not None:
        rows.promised.check_parts(parts_in(written))
    return {file.name: checksum(file.rename(folder / file.name)) for file in parts_in(written)}


def _rows_and_mark(
    engine: Engine, table: exp.Table, columns: Mapping[str, Kind]
) -> tuple[int, str]:
    """How many rows a table has, and a fingerprint of them.

    Whoever has the release may compute it too, so no secret is needed.
    """
    counted = exp.cast(exp.Count(this=exp.Star()), "BIGINT").as_("sf_rows")
    rows = engine.run(exp.select(counted).from_(table.copy()))["sf_rows"][0].as_py()
    return rows, contents(engine, table, columns, secret=b"") or ""


def check_unchanged(engine: Engine, sidecar: Mapping[str, Json]) -> None:
    """Refuse a table that differs from its side-car."""
    [described] = sidecar["tables"]
    columns = {name: Kind(kind) for name, kind in described["columns"].items()}
    held = engine.columns(engine.table)
    unchanged = {*held} == {*columns} and _rows_and_mark(engine, engine.table, columns) == (
        described["table"]["rows"],
        described["sha256"],
    )
    if not unchanged:
        raise SourceError(
            "release_changed",
            f"The table {described['table']['name']!r} is not the one that was released: it is "
            "another than its side-car in the current directory tells of. Make the release again; "
            "or, to read it as a table like any other, move the side-car away.",
        )


class DraftedTable:
    """A table on its way, in an engine."""

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
        """The file that stands for it in a journal: it moves once the table has its name."""
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
        """Give it its name, which the engine may still refuse."""
        self._held.close()
        assert self._scratch is not None
        (self._scratch / _WAITS / _WAITS).rename(self._scratch / _STANDS)

    def abandon(self) -> None:
        """Leave nothing of it, unless it has its name."""
        self._held.__exit__(_AbandonedError, _AbandonedError(), None)


class _AbandonedError(Exception):
    """Tells an engine that a table is not to stand."""


@dataclass(frozen=True)
class TableInEngine:
    """The side-car of a released table, and the path that its files here are named after."""

    sidecar: dict[str, Any]
    path: Path


def released_table(url: str) -> TableInEngine | None:
    """Read the side-car of an unchanged table; None where there is no side-car."""
    path, dialect = _named(url)
    sidecar = None if path is None else read_table_sidecar(path, dialect)
    if path is None or sidecar is None:
        return None
    with closing(open_source(url)) as engine:
        check_unchanged(engine, sidecar)
    return TableInEngine(sidecar, path)


def load_table(url: str) -> tuple[TableInEngine, pa.Table]:
    """A table that was released and is as it was, with its rows sorted as in a file."""
    described = released_table(url)
    if described is None:
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
    return described, rows.sort_by([(name, "ascending") for name in rows.column_names])


def _named(url: str) -> tuple[Path | None, str]:
    """The path that a table's files here are named after, and its engine's dialect."""
    scheme, name = url.partition("://")[0], url.partition("#")[2]
    dialect = "postgres" if scheme in POSTGRES else "spark" if scheme in SPARK else ""
    if not dialect or not name:
        return None, dialect
    table = source_table(url, dialect)[1]
    target = TableTarget(table.name, table.db or None, table.catalog or None)
    return Output(target).path, dialect
