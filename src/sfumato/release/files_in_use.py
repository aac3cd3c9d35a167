"""Files in use: what no release may replace, by whatever name and whatever door. Decision
`writing-releases`."""

from __future__ import annotations

import os
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.data.engines.base import SPARK, spark_address
from sfumato.data.engines.sources import duckdb_parts
from sfumato.data.files.formats import parquet_paths
from sfumato.data.schema.hierarchy import Tree
from sfumato.data.schema.schema_file import load
from sfumato.errors import SfumatoError
from sfumato.filesystem import LARGE_ANSWERS

if TYPE_CHECKING:
    from sfumato.data.engines.sources import Source
    from sfumato.data.schema.schema import Schema

VAULT, ANSWERS, FAILURES, SECRET = "vault.toml", "answers", "failures.log", "fingerprint.key"
"""What lies in a vault's folder beside its ledger: its configuration, where answers are stored,
why charged questions or the ledger failed (it may quote data), the key of its fingerprints."""
JOBS, RELEASES, TABLES = "jobs.sqlite", "releases", "tables"
"""And its jobs, unless they are in PostgreSQL, the anonymized releases of its owner, and tables
that its owner sent, with those that are still to be declared."""
CONSOLE = "console.sqlite"
"""And what its console keeps of passwords and sessions, unless that is in PostgreSQL."""

STREAMS = "streams.sqlite"
"""And what its streams remember between two steps, as secret as its data, unless that is in
PostgreSQL."""

CONSENT = "consent.sqlite"
"""Where a vault keeps who agreed to what, unless its ledger is in a database elsewhere."""

_BESIDE = ("", "-wal", "-shm", "-journal")
"""What SQLite keeps beside a database, and the database itself."""


def source_files(source: Source) -> tuple[Path, ...]:
    """The files that a source reads; a folder, or a pattern, is meant with what it reads now."""
    if isinstance(source, list | tuple):
        return tuple(
            file
            for member in source
            if isinstance(member, str | Path)
            for file in source_files(member)
        )
    if not isinstance(source, str | Path):
        return ()
    scheme, _, address = str(source).partition("://")
    if address:
        if scheme in SPARK and "+" in scheme:
            with suppress(SfumatoError):
                return source_files(spark_address(str(source)).path.removeprefix("file://"))
        location, _ = duckdb_parts(str(source))
        return (Path(location), Path(location.lstrip("/"))) if location else ()
    path = Path(source)
    with suppress(OSError, ValueError):
        return tuple(dict.fromkeys((path, *parquet_paths(path))))
    return ()


def hierarchy_files(schema: Schema) -> tuple[Path, ...]:
    """The files from which a schema has its hierarchies."""
    hierarchies = (column.hierarchy for column in schema.columns)
    return tuple(
        hierarchy.source
        for hierarchy in hierarchies
        if isinstance(hierarchy, Tree) and hierarchy.source is not None
    )


def consent_head(head: Path) -> Path:
    """Where the last position of a vault's registry of consent is kept: beside its ledger's."""
    return head.with_name(f"{head.name}.consent")


def vault_files(folder: Path) -> tuple[Path, ...]:
    """A vault's own files, and the sources, schemas and hierarchies of its data sets.

    The configuration is read as it is: files are in use even of a vault that cannot be opened.
    """
    files = [folder / name for name in (VAULT, FAILURES, SECRET, ANSWERS, RELEASES, TABLES)]
    files += [folder / f"{name}{end}" for name in (JOBS, CONSOLE, STREAMS) for end in _BESIDE]
    document: dict[str, Any] = {}
    with suppress(OSError, ValueError, RecursionError):
        document = tomllib.loads((folder / VAULT).read_text(encoding="utf-8"))
    head, database = _texts_under(document.get("ledger"), "head", "database")
    files += [file for name in head for file in (folder / name, consent_head(folder / name))]
    files += [folder / f"{CONSENT}{end}" for end in _BESIDE]
    ends = (*_BESIDE, LARGE_ANSWERS)
    files += [folder / f"{name}{end}" for name in database if "://" not in name for end in ends]
    datasets = document.get("datasets")
    for held in datasets.values() if isinstance(datasets, dict) else ():
        source, schema = _texts_under(held, "source", "schema")
        for location in source:
            files += source_files(location if "://" in location else folder / location)
        for location in schema:
            files.append(folder / location)
            with suppress(SfumatoError):
                files += hierarchy_files(load(folder / location))
    return tuple(files)


def _texts_under(table: object, *keys: str) -> list[list[str]]:
    """The text under each key of a configuration table, as a list of one or none."""
    values = [table.get(key) if isinstance(table, dict) else None for key in keys]
    return [[value] if isinstance(value, str) else [] for value in values]


def vault_files_around(target: Path) -> tuple[Path, ...]:
    """The files of vaults near a target: those above it, and those beside it with their heads.

    Or beside its folder, which may be the source of one.
    """
    files: list[Path] = []
    with suppress(OSError):
        parent = target.resolve().parent
        folders = [str(ancestor) for ancestor in (parent, *parent.parents)]
        for near in (parent, parent.parent):
            with suppress(OSError), os.scandir(near) as beside:
                folders += [entry.path for entry in beside]
        for folder in dict.fromkeys(folders):
            # There may be thousands beside it, and paths that are objects take their time.
            if os.path.isfile(f"{folder}/{VAULT}"):  # noqa: PTH113
                files += vault_files(Path(folder))
    return tuple(files)
