"""Files of large answers beside a SQLite ledger, each named by the SHA-256 in the chain.

An answer of more than `INLINE_BYTES` would enlarge the database file, its log and every check of
it. The row of such an answer holds a short reference; the answer itself is a file. Order:

1. The file is written to the folder `pending` and synced, under the number of its charge.
2. The entry that holds its digest is committed.
3. The file is moved out of `pending`.

A crash before step 2 leaves a file that no entry names: the next opening deletes it. A crash after
step 2 leaves the file in `pending`, where readers find it; the next opening moves it. A PostgreSQL
ledger keeps all answers in its table, because several hosts read them. Decision `ledger`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from sfumato import platform_support
from sfumato.errors import LedgerError
from sfumato.filesystem import LEAST_ROOM
from sfumato.privacy.ledger.chain import digest
from sfumato.privacy.ledger.commit import sync_directory
from sfumato.privacy.ledger.failure import storage_failure
from sfumato.privacy.ledger.rules import damaged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from sfumato.privacy.ledger.chain import ChargeRequest, Entry, Reader

INLINE_BYTES = 64 * 1024
"""Answers of up to this many bytes stay in the database."""

_MARK = b"sfumato large answer "
# Bytes read at once when a file is hashed.
_CHUNK_BYTES = 1 << 20


def reference(sha256: str, size: int) -> bytes:
    """The content of a large answer's row: digest and size of its file."""
    return _MARK + f"{sha256} {size}".encode()


def is_reference(row: bytes) -> bool:
    """Whether a row holds a reference; no stored release begins like one."""
    return row.startswith(_MARK)


@contextmanager
def store_answer(
    files: AnswerFiles | None,
    charge: int,
    answer: bytes,
    tell_operator: Callable[[str], None],
) -> Iterator[bytes]:
    """Yield the row for an answer: the answer itself, or a reference to its file on disk.

    A file that cannot be written does not close the ledger: unlike after a failed commit, it is
    known that the database did not change.
    """
    # Small answers commit with their entry; only large ones need the three steps.
    if files is None or len(answer) <= INLINE_BYTES:
        yield answer
        return
    try:
        with files.add(charge, answer) as row:
            yield row
    except OSError as error:
        raise storage_failure(error, tell_operator) from None


def read_answer(
    files: AnswerFiles | None, row: bytes | None, entry: Entry | None, request: ChargeRequest
) -> bytes:
    """The answer of a row, read from its file if it is large, checked against the chain."""
    sha256 = None if entry is None else json.loads(entry.body)["digest"]
    if files is not None and row is not None and sha256 is not None and is_reference(row):
        answer = files.read(sha256)
        if answer is None:
            raise _file_lost(request)
        return answer
    if row is None or digest(row) != sha256:
        raise damaged(f"the answer stored by entry {request.answered} is gone or changed")
    return row


def _file_lost(request: ChargeRequest) -> LedgerError:
    """The error for an answer whose file is lost. It is never computed again: that would be a
    second answer under one charge."""
    return LedgerError(
        "answer_lost",
        f"Request {request.request_id!r} was charged and answered, but the file of its answer is "
        "missing or changed. Its charge stays spent and it is never computed again. Let the "
        "operator put the file back from a backup, or ask with a new request id.",
        detail=f"file of the answer stored by entry {request.answered}",
    )


class AnswerFiles:
    """The large answers of one ledger, in a folder that only its owner may read."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._pending = folder, folder / "pending"

    @contextmanager
    def add(self, charge: int, answer: bytes) -> Iterator[bytes]:
        """Write an answer durably and yield its reference; the block commits its entry."""
        self._make_folders()
        sha256 = digest(answer)
        # Shared among writers; the exclusive lock of `sweep` waits for none and skips its turn.
        with self._lock(platform_support.locks.LOCK_SH):
            written = self._pending / f"{charge}-{sha256}"
            _write(written, answer)
            sync_directory(self._pending)
            yield reference(sha256, len(answer))
            # If this fails, readers find the file in `pending`, and the next opening moves it.
            with suppress(OSError):
                written.rename(self._folder / sha256)

    def read(self, sha256: str) -> bytes | None:
        """A large answer, or None where its file is missing or changed."""
        path = self._path_of(sha256)
        with suppress(OSError):
            content = None if path is None else path.read_bytes()
            return content if content is not None and digest(content) == sha256 else None
        return None

    def file_digest(self, row: bytes) -> str | None:
        """The digest of the file that a reference names, or None where it is missing or changed.

        The file is read in chunks: checking a ledger must not need the memory of its answers.
        """
        sha256 = row[len(_MARK) :].partition(b" ")[0].decode("ascii", "replace")
        path = self._path_of(sha256)
        with suppress(OSError):
            if path is not None:
                hasher = hashlib.sha256()
                with path.open("rb") as file:
                    while chunk := file.read(_CHUNK_BYTES):
                        hasher.update(chunk)
                return sha256 if hasher.hexdigest() == sha256 else None
        return None

    def check_room(self, size: int) -> None:
        """Refuse an answer for which the disk has no room, before anything is charged."""
        free = shutil.disk_usage(self._folder.parent).free
        if free < size + LEAST_ROOM:
            raise LedgerError(
                "ledger_disk_full",
                f"The answer may need {size:,} bytes, and {free:,} are free on the disk of the "
                "ledger; nothing was charged and no answer is given.",
                hint="Free some space and try again.",
            )

    def sweep(self, reading: Callable[[], AbstractContextManager[Reader]]) -> None:
        """Clear `pending` after a crash: keep the files that the ledger names, delete the rest."""
        if not self._waiting():
            return
        # A writer between step 1 and step 3 holds the shared lock, so its files are not touched.
        # The ledger is read under the lock: an earlier view may lack an entry that a writer
        # committed before it died, and its file would be deleted.
        alone = platform_support.locks.LOCK_EX | platform_support.locks.LOCK_NB
        with suppress(BlockingIOError), self._lock(alone), reading() as reader:
            for path in self._waiting():
                charge, _, sha256 = path.name.partition("-")
                row = reader.answer(int(charge)) if charge.isdecimal() else None
                if row == reference(sha256, path.stat().st_size):
                    path.rename(self._folder / sha256)
                else:
                    path.unlink()

    def _path_of(self, sha256: str) -> Path | None:
        """The path of an answer's file. `final` is tried twice: a writer may just move it there."""
        final = self._folder / sha256
        waiting = [path for path in self._waiting() if path.name.endswith(f"-{sha256}")]
        return next((path for path in (final, *waiting, final) if path.exists()), None)

    def _waiting(self) -> list[Path]:
        with suppress(OSError):
            return list(self._pending.iterdir())
        return []

    def _make_folders(self) -> None:
        if not self._pending.is_dir():
            for folder in (self._folder, self._pending):
                folder.mkdir(mode=0o700, exist_ok=True)
                sync_directory(folder.parent)

    @contextmanager
    def _lock(self, operation: int) -> Iterator[None]:
        handle = os.open(self._pending, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            platform_support.locks.flock(handle, operation)
            yield
        finally:
            os.close(handle)


def _write(path: Path, content: bytes) -> None:
    """Write a new file that only its owner can read, and sync it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
