"""A durable ledger in SQLite: write-ahead log, full syncs, and our own sync of the directory.

Every transaction checks that the file is still the one at its path: charges to a file that was
replaced by a restored backup would be lost. Decision `ledger-head`.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from sqlalchemy import URL, create_engine, event

from sfumato.errors import LedgerError, ParameterError
from sfumato.filesystem import LARGE_ANSWERS, LEAST_ROOM, mount_point
from sfumato.platform_support import OpenedFile
from sfumato.privacy.ledger.base import Ledger
from sfumato.privacy.ledger.commit import OutsideHead, sync_directory
from sfumato.privacy.ledger.failure import closed_on_failure, do_nothing, file_replaced
from sfumato.privacy.ledger.large_answers import AnswerFiles
from sfumato.privacy.ledger.rules import damaged
from sfumato.privacy.ledger.sql.store import SqlStore, missing

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from sqlalchemy import Connection, Engine
    from sqlalchemy.exc import DBAPIError

_BUSY_SECONDS = 30
# The connections kept open; under load there may be twice as many.
_POOL_SIZE = 64
_MOUNTS = Path("/proc/self/mountinfo")
# Network file systems: their locks and syncs do not reach the server reliably, so two writers could
# both commit, or a synced charge could be lost.
_NETWORK = (
    *("9p", "afs", "beegfs", "ceph", "cifs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"),
    *("smb3", "smbfs", "fuse.ceph", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs"),
)
# Name, value, and what SQLite answers when it has accepted the value.
_PRAGMAS = (
    ("journal_mode", "WAL", "wal"),
    ("synchronous", "FULL", 2),
    ("fullfsync", "ON", 1),  # macOS: a sync that reaches the disk
    ("foreign_keys", "ON", 1),
    ("trusted_schema", "OFF", 0),
    ("cell_size_check", "ON", 1),
)


def open_sqlite(
    path: Path, *, head: Path, tell_operator: Callable[[str], None] = do_nothing
) -> Ledger:
    """Open a ledger in a SQLite file, with its outside head in another directory."""
    check_outside(path, head)
    with closed_on_failure(tell_operator):
        return Ledger(sqlite_store(path), head=OutsideHead(head), tell_operator=tell_operator)


def create_sqlite(path: Path, *, head: Path) -> Ledger:
    """Create a ledger in a SQLite file that holds none, and its head in another directory."""
    check_outside(path, head)
    with closed_on_failure():
        return Ledger.create(sqlite_store(path, create=True), head=OutsideHead(head))


def check_outside(path: Path, head: Path) -> None:
    """Refuse a head in the directory of its database: one restored backup would cover both."""
    if head.resolve().parent == path.resolve().parent:
        raise ParameterError(
            "head_unreadable",
            f"The head of a ledger must lie in another directory than its database, but '{head}' "
            "does not.",
            hint="Put it where a restored backup of the database does not overwrite it.",
        )


def sqlite_store(path: Path, *, create: bool = False) -> SqlStore:
    """The storage in a SQLite file on a local disk, with large answers in a folder beside it."""
    files = AnswerFiles(path.with_name(f"{path.name}{LARGE_ANSWERS}"))
    engine = sqlite_engine(path, create=create)
    return SqlStore(engine, SqliteDialect(), files=files, create=create)


def sqlite_engine(path: Path, *, create: bool = False) -> Engine:
    """An engine for a SQLite file on a local disk, configured so that no commit is ever lost."""
    if path.is_symlink():
        raise LedgerError(
            "ledger_unusable",
            f"The ledger {path.name!r} is a symbolic link.",
            hint="Name the file itself.",
        )
    kind = file_system(path)
    if kind in _NETWORK:
        raise LedgerError(
            "ledger_unusable",
            f"The ledger {path.name!r} lies on a network file system ({kind}), which loses locks "
            "and syncs.",
            hint="Put it on a local disk, or use PostgreSQL.",
        )
    if not create and (not path.exists() or path.stat().st_size == 0):
        raise missing()
    _check_room(path)
    if create:
        # Created here with mode 0600, so that neither it nor its log is readable to others. An
        # existing file is not opened: closing it would drop SQLite's POSIX locks in this process.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    opened = OpenedFile(path, path.lstat())
    # mode=rw: SQLite must not create an empty file, which would be a fresh budget.
    address = URL.create(
        "sqlite",
        database=f"file:{quote(str(path.absolute()))}",
        query={"mode": "rw", "uri": "true"},
    )
    # One connection per reading thread is kept: opening one costs ten times as much as a read.
    engine = create_engine(
        address,
        connect_args={"timeout": _BUSY_SECONDS},
        pool_size=_POOL_SIZE,
        max_overflow=_POOL_SIZE,
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _: object) -> None:
        _check_room(path)
        _prepare(connection, path)

    @event.listens_for(engine, "do_connect")
    def check_in_place(*_: object) -> None:
        if not opened.in_place():
            raise file_replaced(path.name)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        immediate = connection.get_execution_options().get("immediate", False)
        if immediate:
            _check_room(path)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")
        check_in_place()  # now that the wait for the lock is over

    return engine


def _check_room(path: Path) -> None:
    """Fail closed on an almost full disk, while that is still an error and not a signal.

    SQLite maps its shared-memory file. Touching a page of it for which the disk has no room kills
    the process (SIGBUS), with everything else that it serves.
    """
    disk = os.statvfs(path.parent)
    if disk.f_bavail * disk.f_frsize < LEAST_ROOM:
        raise LedgerError(
            "ledger_disk_full",
            f"Fewer than {LEAST_ROOM} bytes are free on the disk of the ledger {path.name!r}; "
            "nothing was charged and no answer is given.",
            hint="Free some space and try again.",
        )


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Configure a connection, and make the name of its log durable before anything is charged.

    SQLite deletes the log with the last connection and creates it with the next, and it ignores a
    failed sync of the directory. A power cut could then lose a log of synced charges.
    """
    connection.isolation_level = None
    for pragma, value, expected in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}={value}")
        row = connection.execute(f"PRAGMA {pragma}").fetchone()
        if row is None or row[0] != expected:
            raise LedgerError(
                "ledger_unusable",
                f"SQLite does not accept {pragma}={value}; it cannot keep charges.",
            )
    # The first read creates the write-ahead log, whose existence is checked next.
    connection.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()
    if not path.with_name(path.name + "-wal").exists():
        raise LedgerError("ledger_unusable", "SQLite keeps no write-ahead log for the ledger.")
    sync_directory(path.parent)


class SqliteDialect:
    """One writer by `BEGIN IMMEDIATE`; readers see one moment by the write-ahead log."""

    protections = tuple(
        f"CREATE TRIGGER sfumato_entries_no_{action.lower()} BEFORE {action} ON sfumato_entries "
        "BEGIN SELECT RAISE(ABORT, 'entries are only ever added'); END"
        for action in ("UPDATE", "DELETE")
    )

    def writing(self, engine: Engine) -> Connection:
        """A connection whose transactions wait for the write lock when they begin."""
        return engine.connect().execution_options(immediate=True)

    def reading(self, engine: Engine) -> Connection:
        """A connection whose transactions see one moment."""
        return engine.connect()

    def lock_creation(self, connection: Connection) -> None:
        """The transaction holds the write lock already."""

    def lock(self, connection: Connection) -> None:
        """The transaction holds the write lock already."""

    def is_busy(self, error: DBAPIError) -> bool:
        """Whether another process held the lock for too long."""
        return getattr(error.orig, "sqlite_errorname", "").startswith("SQLITE_BUSY")

    def check_storage(self, connection: Connection) -> None:
        """Raise when the database finds damage in its own files."""
        verdict = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
        if verdict != "ok":
            raise damaged("the database file fails its integrity check")


def file_system(path: Path, mounts: Path = _MOUNTS) -> str | None:
    """The type of the file system of a path, or None if the system does not tell."""
    if not mounts.exists():
        return None
    target = path.resolve()
    best, kind = -1, None
    for line in mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        point = mount_point(before.split(" ")[4])
        # A later mount on the same point hides the earlier one.
        if target.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), after.split(" ")[0]
    return kind
