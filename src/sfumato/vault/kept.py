"""The files that nothing may be written over: what is read, what describes it, a vault's own."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import SfumatoError
from sfumato.schema.file import load as load_schema
from sfumato.schema.hierarchy.tree import Tree
from sfumato.vault.answered import ANSWERS
from sfumato.vault.config import NAME, load
from sfumato.vault.failures import FAILURES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.engines.sources import Source
    from sfumato.schema.schema import Schema
    from sfumato.vault.config import Config

SECRET = "fingerprint.key"
"""The file of a vault that keys its fingerprints."""

_BESIDE = ("", "-wal", "-shm", "-journal")
"""What SQLite keeps beside a database, and the database itself."""


def files_of(source: Source) -> tuple[Path, ...]:
    """The files that a source reads; a folder is meant with the Parquet files in it."""
    if isinstance(source, list | tuple):
        return tuple(Path(one) for one in source)
    if not isinstance(source, str | Path):
        return ()
    scheme, _, rest = str(source).partition("://")
    if rest:
        location = rest.rpartition("#")[0]
        return (Path(location), Path(location.lstrip("/"))) if scheme == "duckdb" else ()
    path = Path(source)
    with suppress(OSError, ValueError):
        return (path, *sorted(path.glob("*.parquet"))) if path.is_dir() else (path,)
    return ()


def hierarchies(schema: Schema) -> tuple[Path, ...]:
    """The files from which a schema has its hierarchies."""
    found = (column.hierarchy for column in schema.columns)
    return tuple(one.source for one in found if isinstance(one, Tree) and one.source is not None)


def of_vault(config: Config, schemas: Mapping[str, Schema] | None = None) -> tuple[Path, ...]:
    """A vault's own files, and the sources, schemas and hierarchies of its data sets."""
    folder = config.folder
    own = [folder / NAME, config.head, folder / FAILURES, folder / SECRET, folder / ANSWERS]
    if "://" not in config.database:
        own += [folder / f"{config.database}{ending}" for ending in _BESIDE]
    for name, held in config.datasets.items():
        own += files_of(held.source if "://" in held.source else folder / held.source)
        own.append(folder / held.schema)
        with suppress(SfumatoError):
            known = schemas[name] if schemas else load_schema(folder / held.schema)
            own += hierarchies(known)
    return tuple(own)


def around(target: Path) -> tuple[Path, ...]:
    """What the vaults use that lie around a target: above it, or beside it with their heads."""
    found: list[Path] = []
    with suppress(OSError):
        parent = target.resolve().parent
        folders = [parent, *parent.parents, *(one for one in parent.iterdir() if one.is_dir())]
        for folder in folders:
            if (folder / NAME).is_file():
                found.append(folder / NAME)
                with suppress(SfumatoError):
                    found += of_vault(load(folder))
    return tuple(found)
