"""The beginning of a vault: everything is checked first, and an interrupted one is gone on with.

The configuration is written last, so that a folder is a vault or is not. What a killed `init` left
is known by its ledger, which holds nothing but the first entry: it has promised nobody anything.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

from sfumato.errors import LedgerError, OutputError, SfumatoError
from sfumato.ledger.head import recorded_head
from sfumato.vault.accounts import create_ledger
from sfumato.vault.answered import ANSWERS
from sfumato.vault.config import NAME, locked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sfumato.vault.config import Config

_TAKEN = -1


@contextmanager
def begun(config: Config) -> Iterator[None]:
    """Make all of a vault but its configuration, which is to be written at the end."""
    _check_all(config)
    existed = config.head.exists()
    with _made(config.folder), locked(config.folder):
        _check_all(config)
        _create_unused(config, existed=existed)
        (config.folder / ANSWERS).mkdir(mode=0o700, exist_ok=True)
        yield


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make a folder, and those above it; after a refusal those that are empty go again."""
    absent = [one for one in (folder, *folder.parents) if not os.path.lexists(one)]
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error.strerror) from None
    try:
        yield
    except SfumatoError:
        with suppress(OSError):  # what is not empty is somebody's, or an `init` to be repeated
            for one in absent:
                one.rmdir()
        raise


def _check_all(config: Config) -> None:
    """Refuse what cannot become a vault, before anything is made for it."""
    folder, head = config.folder, config.head
    if (folder / NAME).exists():
        raise OutputError(
            "vault_exists", f"'{folder}' already holds a vault. Choose another folder."
        )
    given = folder / config.database
    database = given.parent.resolve() / given.name
    if not _is_address(config):
        from sfumato.ledger.sql.sqlite import check_outside

        check_outside(database, head)
    place = folder
    while not os.path.lexists(place):
        place = place.parent
    apart = () if _is_address(config) or database.parent == folder else (database.parent,)
    for one in (place, head.parent, *apart):
        if not one.is_dir():
            raise _unwritable(one, "it is not a folder")
        if not os.access(one, os.W_OK | os.X_OK):
            raise _unwritable(one, "nothing may be written there")
    entries = 0 if _is_address(config) or not database.exists() else _entries(database)
    if entries not in (0, 1):
        raise OutputError(
            "vault_unconfigured",
            f"'{database}' is in use, but '{folder}' has no {NAME}. If it is a vault's ledger, put "
            f"its {NAME} back; else choose another folder.",
        )
    if head.exists() and not (entries or _is_address(config) or database.exists()):
        raise _foreign(head)


def _create_unused(config: Config, *, existed: bool) -> None:
    """Create the ledger and its head, or find those of an `init` that was interrupted."""
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
        "The database already holds the ledger of a vault. Name another one with --ledger, or put "
        "that vault's folder back.",
    )


def _entries(database: Path) -> int:
    """How many entries a database holds; a file that is no ledger is taken."""
    if database.stat().st_size == 0:
        return 0
    try:
        with closing(sqlite3.connect(f"file:{quote(str(database))}?mode=rw", uri=True)) as opened:
            named = "SELECT COUNT(*) FROM sqlite_schema WHERE name = 'sfumato_entries'"
            if not opened.execute(named).fetchone()[0]:
                tables = opened.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()[0]
                return _TAKEN if tables else 0
            return int(opened.execute("SELECT COUNT(*) FROM sfumato_entries").fetchone()[0])
    except sqlite3.Error:
        return _TAKEN


def _is_address(config: Config) -> bool:
    return "://" in config.database


def _unwritable(place: Path, reason: str | None) -> OutputError:
    return OutputError(
        "output_unwritable", f"Cannot create a vault in '{place}': {reason}. Choose another."
    )


def _uncreated(error: LedgerError) -> LedgerError:
    """There is no vault yet, so nobody but its operator hears what the system said."""
    return LedgerError(
        "ledger_uncreated",
        f"Cannot create the ledger: {' '.join((error.detail or '').split())}. Nothing was made. "
        "Mend the cause, or name another database with --ledger.",
    )


def _foreign(head: Path) -> OutputError:
    return OutputError(
        "head_exists",
        f"'{head}' belongs to another ledger, perhaps of a vault that was removed. Name another "
        "file with --head, or remove it if that vault is gone for good. If an 'init' was "
        "interrupted, repeat it with the same options.",
    )
