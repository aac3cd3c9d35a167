"""A vault's folder: where answers lie, the operator's log, and the files nothing may replace.

Where answers lie is a hint beside the ledger, which keeps the answers themselves: when it is lost,
a question that was asked before is paid for again.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import SfumatoError
from sfumato.files import write_text
from sfumato.ledger.book import utc_now
from sfumato.schema.file import load as load_schema
from sfumato.schema.hierarchy.tree import Tree
from sfumato.texts import dumps
from sfumato.vault.config import NAME, load

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.engines.sources import Source
    from sfumato.ledger.book import Key
    from sfumato.schema.schema import Schema
    from sfumato.vault.config import Config

ANSWERS = "answers"
"""The folder of a vault that remembers where answers are stored."""


class AnswerIndex:
    """The requests under which each question was answered, in memory or in a folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._known: dict[str, dict[str, str]] = {}

    def find(self, body: str) -> list[Key]:
        """The requests that answered a question, of every principal."""
        return list(self._read(body).items())

    def note(self, body: str, key: Key) -> None:
        """Remember that a question was answered; the answer is already safe without this."""
        principal, request_id = key
        requests = {**self._read(body), principal: request_id}
        if self._folder is None:
            self._known[body] = requests
            return
        with suppress(SfumatoError):
            write_text(self._folder / f"{body}.json", dumps(requests), overwrite=True)

    def _read(self, body: str) -> dict[str, str]:
        if self._folder is None:
            return self._known.get(body, {})
        try:
            found = json.loads((self._folder / f"{body}.json").read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        pairs = found.items() if isinstance(found, dict) else ()
        return {one: other for one, other in pairs if isinstance(other, str)}


FAILURES = "failures.log"
"""The file of a vault that says why charged questions, or its ledger, failed. It may quote data."""


def note_charge(folder: Path, charge: int, words: str) -> None:
    """Say why a charged question could not be answered."""
    _note(folder, f"charge {charge}", words)


def note_ledger(folder: Path, words: str) -> None:
    """Say what the system or the database told when the ledger's storage failed."""
    _note(folder, "ledger", words)


def _note(folder: Path, what: str, words: str) -> None:
    """Add a line for the operator's eyes only; what cannot be written must not be told either."""
    line = f"{utc_now().isoformat(timespec='seconds')} {what}: {' '.join(words.split())}\n"
    appending = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(OSError):
        handle = os.open(folder / FAILURES, appending, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as log:
            log.write(line)


SECRET = "fingerprint.key"
"""The file of a vault that keys its fingerprints."""

_BESIDE = ("", "-wal", "-shm", "-journal")
"""What SQLite keeps beside a database, and the database itself."""


def source_files(source: Source) -> tuple[Path, ...]:
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


def hierarchy_files(schema: Schema) -> tuple[Path, ...]:
    """The files from which a schema has its hierarchies."""
    found = (column.hierarchy for column in schema.columns)
    return tuple(one.source for one in found if isinstance(one, Tree) and one.source is not None)


def vault_files(config: Config, schemas: Mapping[str, Schema] | None = None) -> tuple[Path, ...]:
    """A vault's own files, and the sources, schemas and hierarchies of its data sets."""
    folder = config.folder
    own = [folder / NAME, config.head, folder / FAILURES, folder / SECRET, folder / ANSWERS]
    if "://" not in config.database:
        own += [folder / f"{config.database}{ending}" for ending in _BESIDE]
    for name, held in config.datasets.items():
        own += source_files(held.source if "://" in held.source else folder / held.source)
        own.append(folder / held.schema)
        with suppress(SfumatoError):
            known = schemas[name] if schemas else load_schema(folder / held.schema)
            own += hierarchy_files(known)
    return tuple(own)


def vault_files_around(target: Path) -> tuple[Path, ...]:
    """What the vaults use that lie around a target: above it, or beside it with their heads."""
    found: list[Path] = []
    with suppress(OSError):
        parent = target.resolve().parent
        folders = [parent, *parent.parents, *(one for one in parent.iterdir() if one.is_dir())]
        for folder in folders:
            if (folder / NAME).is_file():
                found.append(folder / NAME)
                with suppress(SfumatoError):
                    found += vault_files(load(folder))
    return tuple(found)
