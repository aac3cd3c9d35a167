"""Create a vault, and join a further host to it.

Creation checks everything first; `vault.toml`, written last, makes the folder a vault. A killed
`init` is recognized by its ledger, which has only the first entry, and the next `init` goes on
with it.

Several hosts may use one ledger: each keeps a head of its own, and any head detects a rollback. A
host without a head answers nobody, since it would accept an old database. So a host that joins
starts from the positions that another host has seen, which an operator carries over; the database
must hold them and all later entries. Decisions `ledger` and `charge-order`.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.parse import quote

import tomlkit

from sfumato.data.schema.names import quoted
from sfumato.data.schema.toml_document import read_text
from sfumato.errors import (
    LedgerError,
    OutputError,
    ParameterError,
    RolledBackError,
    SchemaError,
    SfumatoError,
    option,
)
from sfumato.platform_support import needs_locks
from sfumato.privacy.ledger.chain import Position
from sfumato.privacy.ledger.commit import OutsideHead, recorded_head
from sfumato.release.files_in_use import ANSWERS, VAULT, consent_head
from sfumato.vault.accounts import create_ledger, open_ledger
from sfumato.vault.config import Config, load, locked, save
from sfumato.vault.consent.registry import open_log

if TYPE_CHECKING:
    from collections.abc import Iterator


_TEXT = """\
# A vault of Sfumato. Who may write this file decides what is promised to the people in the data.
format = 1
snapshot = 1            # within one snapshot a stored answer is given again; raise it for new data
tick_milliseconds = 0   # answers leave at multiples of this; 0: at once
# deadline_seconds = 600  # what takes longer is charged but not answered; 0: no limit
max_epsilon = 10        # no budget and no question may be above it
# [limits]              # of one answer, of what each principal keeps, and of the vault
# groups = 100000
# answer_mebibytes = 32
# stored_mebibytes = 1024
# vault_mebibytes = 10240
"""
_NOT_A_LEDGER = -1


def create(folder: Path, *, database: str = "ledger.sqlite", head: Path | None = None) -> Config:
    """Make a folder a vault, with an empty ledger and the ledger's head outside the folder."""
    needs_locks("A vault")
    folder = folder.resolve()
    head = head.resolve() if head else folder.with_name(f"{folder.name}.head")
    config = Config(folder, database, head)
    document = tomlkit.parse(_TEXT)
    document["ledger"] = {"database": database, "head": os.path.relpath(head, folder)}
    with begun(config):
        save(folder, tomlkit.dumps(document), overwrite=False)
    return config


@contextmanager
def begun(config: Config) -> Iterator[None]:
    """Make everything of a vault except its configuration, which the caller writes at the end."""
    _check_all(config)
    existed = config.head.exists()
    with _new_folder(config.folder), locked(config.folder):
        # Again, under the lock: another `init` of the same folder may have ended meanwhile.
        _check_all(config)
        _create_unused(config, existed=existed)
        (config.folder / ANSWERS).mkdir(mode=0o700, exist_ok=True)
        yield


@contextmanager
def _new_folder(folder: Path) -> Iterator[None]:
    """Make a folder and its parents; after a refusal remove those that were made and are empty."""
    absent = [parent for parent in (folder, *folder.parents) if not os.path.lexists(parent)]
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error.strerror) from None
    try:
        yield
    except SfumatoError:
        with suppress(OSError):  # what is not empty is somebody's, or an `init` to be repeated
            for parent_folder in absent:
                parent_folder.rmdir()
        raise


def _check_all(config: Config) -> None:
    """Refuse a folder that cannot become a vault, before anything is written."""
    folder, head = config.folder, config.head
    if (folder / VAULT).exists():
        raise OutputError(
            "output_exists", f"'{folder}' already holds a vault. Choose another folder."
        )
    database_path = folder / config.database
    database = database_path.parent.resolve() / database_path.name
    if not _is_address(config):
        from sfumato.privacy.ledger.sql.sqlite import check_outside

        check_outside(database, head)
    existing = folder
    while not os.path.lexists(existing):
        existing = existing.parent
    apart = () if _is_address(config) or database.parent == folder else (database.parent,)
    for target in (existing, head.parent, *apart):
        if not target.is_dir():
            raise _unwritable(target, "it is not a folder")
        if not os.access(target, os.W_OK | os.X_OK):
            raise _unwritable(target, "nothing may be written there")
    entries = 0 if _is_address(config) or not database.exists() else _entries(database)
    if entries not in (0, 1):
        raise OutputError(
            "output_exists",
            f"'{database}' is in use, but '{folder}' has no {VAULT}. If it is a vault's ledger, "
            f"put its {VAULT} back; else choose another folder.",
        )
    if head.exists() and not (entries or _is_address(config) or database.exists()):
        raise _foreign(head)


def _create_unused(config: Config, *, existed: bool) -> None:
    """Create the ledger and its head, or continue with those of an interrupted `init`."""
    # A file of zero bytes is what a power cut leaves of a head; any other text is somebody's file.
    if existed and recorded_head(config.head) is None and config.head.read_bytes().strip(b"\0"):
        raise _foreign(config.head)
    try:
        create_ledger(config)
    except LedgerError as error:
        if error.code == "ledger_failed":
            raise _uncreated(error) from None
        if error.code != "ledger_exists":
            raise
    else:
        return
    if existed:
        raise _foreign(config.head)
    config.head.unlink()
    raise OutputError(
        "ledger_taken",
        "The database already holds the ledger of a vault. Name another one with "
        f"{option('ledger')}, or put that vault's folder back.",
    )


def _entries(database: Path) -> int:
    """Count the entries of a database; `_NOT_A_LEDGER` for a file that holds other things."""
    if database.stat().st_size == 0:
        return 0
    try:
        with closing(sqlite3.connect(f"file:{quote(str(database))}?mode=rw", uri=True)) as opened:
            named = "SELECT COUNT(*) FROM sqlite_schema WHERE name = 'sfumato_entries'"
            if not opened.execute(named).fetchone()[0]:
                tables = opened.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()[0]
                return _NOT_A_LEDGER if tables else 0
            return int(opened.execute("SELECT COUNT(*) FROM sfumato_entries").fetchone()[0])
    except sqlite3.Error:
        return _NOT_A_LEDGER


def _is_address(config: Config) -> bool:
    return "://" in config.database


def _unwritable(target: Path, reason: str | None) -> OutputError:
    return OutputError(
        "output_unwritable", f"Cannot create a vault in '{target}': {reason}. Choose another."
    )


def _uncreated(error: LedgerError) -> LedgerError:
    """The error of the database, in full: there is no vault yet, and only its operator reads it."""
    return LedgerError(
        "ledger_unusable",
        f"Cannot create the ledger: {' '.join((error.detail or '').split())}. Nothing was made. "
        f"Mend the cause, or name another database with {option('ledger')}.",
    )


def _foreign(head: Path) -> OutputError:
    return OutputError(
        "ledger_taken",
        f"'{head}' belongs to another ledger, perhaps of a vault that was removed. Name another "
        f"file with {option('head')}, or remove it if that vault is gone permanently. If an 'init' "
        "was interrupted, repeat it with the same options.",
    )


_POSITION = re.compile(r"([1-9][0-9]{0,17}):([0-9a-f]{64})", re.ASCII)
_MOST_MEBIBYTES = 1


def positions(folder: Path) -> dict[str, str]:
    """Verify the ledger; return the positions of this host's heads, of ledger and consent log."""
    config = load(folder)
    with closing(open_ledger(config)) as ledger:
        ledger.verify()
    seen = {book: recorded_head(path) for book, path in _heads(config).items()}
    return {
        book: f"{position.seq}:{position.hash}"
        for book, position in seen.items()
        if position is not None
    }


def join(folder: Path, head_file: Path) -> dict[str, str]:
    """Start this host's heads from the positions that `positions` returned on another host.

    Positions that the database does not hold are refused before anything is written.
    """
    config = load(folder)
    heads = _read(head_file)
    _check_free(config, heads)
    try:
        _check_held(config, heads)
    except RolledBackError as error:
        raise RolledBackError(
            "head_not_held",
            f"The database does not hold what {quoted(str(head_file))} tells: that was written for "
            "another ledger, or the database is older than what its host has seen. Nothing was "
            "changed.",
            hint="Write it anew, with 'sfumato ledger head > head.json' on a host that serves "
            "this vault.",
            detail=error.detail,
        ) from None
    _begin(config, heads)
    return positions(folder)


def _heads(config: Config) -> dict[str, Path]:
    return {"ledger": config.head, "consent": consent_head(config.head)}


def _check_held(config: Config, heads: dict[str, Position]) -> None:
    """Open the books once as if this host had begun with these positions."""
    # With heads in a temporary folder: a host must not keep a head that turns out to be wrong.
    with TemporaryDirectory(prefix="sfumato-") as trial_folder:
        trial = replace(config, head=Path(trial_folder) / config.head.name)
        _begin(trial, heads)
        with closing(open_ledger(trial)) as ledger:
            ledger.accounts()
        if "consent" in heads:
            with closing(open_log(trial)) as log:
                log.check()


def _check_free(config: Config, heads: dict[str, Position]) -> None:
    for book, path in _heads(config).items():
        if book in heads and recorded_head(path) not in (None, heads[book]):
            raise ParameterError(
                "ledger_taken",
                f"This host has a head already, '{path}', and keeps it: to begin anew would be to "
                "forget what it has seen. A host joins once.",
            )


def _begin(config: Config, heads: dict[str, Position]) -> None:
    for book, path in _heads(config).items():
        if book in heads:
            with closing(OutsideHead(path)) as head, head.lock():
                # Again, under the lock: another process may have begun a head meanwhile.
                _check_free(config, {book: heads[book]})
                head.write(heads[book])


def _read(path: Path) -> dict[str, Position]:
    text = read_text(path, title="Head", most_mebibytes=_MOST_MEBIBYTES)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if (
        not isinstance(document, dict)
        or "ledger" not in document
        or document.keys() - {"ledger", "consent"}
    ):
        raise SchemaError(
            "head_unreadable",
            f"{quoted(str(path))} does not tell where a ledger stands. Write it on a host that has "
            "joined, with 'sfumato ledger head > head.json'.",
        )
    return {book: _position(path, position) for book, position in document.items()}


def _position(path: Path, text: object) -> Position:
    match = _POSITION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise SchemaError(
            "head_unreadable",
            f"{quoted(str(path))}: a position is a number and a hash, as in 'sfumato ledger head'.",
        )
    return Position(int(match[1]), match[2])
