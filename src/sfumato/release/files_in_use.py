"""Files in use, which no release may overwrite through any door. Decision `writing-releases`."""

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
"""Files of a vault beside its ledger: configuration, stored answers, the log of failures of charged
queries and of the ledger (it may quote data), and the key of fingerprints."""
JOBS, RELEASES, TABLES = "jobs.sqlite", "releases", "tables"
"""Its jobs (unless they are in PostgreSQL), the anonymized releases of its owner, and tables that
the owner uploaded."""
CONSOLE = "console.sqlite"
"""Passwords and sessions of its console, unless they are in PostgreSQL."""

STREAMS = "streams.sqlite"
"""The state of its streams, as secret as its data, unless it is in PostgreSQL."""

CONSENT = "consent.sqlite"
"""The consent registry, unless the ledger is in another database."""

_BESIDE = ("", "-wal", "-shm", "-journal")
"""The endings of a SQLite database and of the files that SQLite keeps beside it."""


def source_files(source: Source) -> tuple[Path, ...]:
    """Return the files that a source reads; for a folder or a pattern also its present files."""
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
    """Return the files of the hierarchies of a schema."""
    hierarchies = (column.hierarchy for column in schema.columns)
    return tuple(
        hierarchy.source
        for hierarchy in hierarchies
        if isinstance(hierarchy, Tree) and hierarchy.source is not None
    )


def consent_head(head: Path) -> Path:
    """Return the file with the last position of a consent registry, beside that of the ledger."""
    return head.with_name(f"{head.name}.consent")


def vault_files(folder: Path) -> tuple[Path, ...]:
    """Return the files of a vault, and the sources, schemas and hierarchies of its data sets.

    The configuration is read without checks: a vault that cannot be opened still has files in use.
    """
    files = [folder / name for name in (VAULT, FAILURES, SECRET, ANSWERS, RELEASES, TABLES)]
    files += [folder / f"{name}{end}" for name in (JOBS, CONSOLE, STREAMS) for end in _BESIDE]
    document: dict[str, Any] = {}
    with suppress(OSError, ValueError, RecursionError):
        document = tomllib.loads((folder / VAULT).read_text(encoding="utf-8"))
    head, database = _texts_under(document.get("ledger"), "head", "database")
    files += [file for name in head for file in (folder / name, consent_head(folder / name))]
    files += [folder / f"{CONSENT}{end}" for end in _BESIDE]
    # A ledger in PostgreSQL has an address with "://" and no file here.
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
    """Return the text under each key of a configuration table, as a list of one or none."""
    values = [table.get(key) if isinstance(table, dict) else None for key in keys]
    return [[value] if isinstance(value, str) else [] for value in values]


def vault_files_around(target: Path) -> tuple[Path, ...]:
    """Return the files of vaults near a target: above it, beside it, and beside its folder.

    A vault beside the folder may have the folder as a source.
    """
    files: list[Path] = []
    with suppress(OSError):
        parent = target.resolve().parent
        folders = [str(ancestor) for ancestor in (parent, *parent.parents)]
        for near in (parent, parent.parent):
            with suppress(OSError), os.scandir(near) as beside:
                folders += [entry.path for entry in beside]
        for folder in dict.fromkeys(folders):
            # A folder may have thousands of neighbours, and Path objects are slow.
            if os.path.isfile(f"{folder}/{VAULT}"):  # noqa: PTH113
                files += vault_files(Path(folder))
    return tuple(files)
