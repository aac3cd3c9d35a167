"""Single flight: one request at a time for one question, among threads and processes.

A flight holds a note of the charge that was made for the question, and of whether entropy was
drawn from it. The note is an unsynced file: it survives a killed process and may be lost in a power
cut. A missing note, and a note of an earlier boot, count as drawn, so no sync is needed.

A flight with an entropy log also keeps the words that were drawn: its charge stays open until the
answer is stored, and a later holder draws the same words.

Decision `charge-order`.
"""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from sfumato.errors import LedgerError
from sfumato.platform_support import locks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.privacy.ledger.chain import Key

_BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")
# The first byte of a note: whether entropy was drawn.
_OPEN, _DRAWN = b"?", b"!"
_MAX_NOTE_BYTES = 1 << 16
_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.0005, 0.008


class Flight:
    """The exclusive right to answer one question now, and the charge that was made for it.

    `key` is the request that was charged, now or by an earlier holder that did not finish. `mark`
    is a random text that its ledger entry carries, which identifies the charge. `entropy_log` is
    the file of the drawn words, if they are kept.
    """

    entropy_log: Path | None = None

    def __init__(
        self, key: Key | None = None, mark: str | None = None, *, drawn: bool = True
    ) -> None:
        self.key, self.mark, self.drawn = key, mark, drawn

    def claim(self, key: Key) -> str | None:
        """Note a charge that is about to be made; return the mark that it must carry."""
        self.key, self.mark, self.drawn = key, token_hex(16), False
        return self.mark

    def draw(self) -> None:
        """Note that entropy is about to be given out; this is final."""
        self.drawn = True

    def settle(self) -> None:
        """Note that the answer is stored, so that no later holder resumes the charge."""
        self.drawn = True

    def forget(self) -> None:
        """Forget a charge that was not made."""
        self.key, self.mark, self.drawn = None, None, True


class _FileFlight(Flight):
    """A flight whose note is a file that it holds locked."""

    def __init__(self, file: int, entropy_log: Path | None) -> None:
        self._file, self.entropy_log = file, entropy_log
        note = os.pread(file, _MAX_NOTE_BYTES, 0)
        key, mark = _parse_note(note)
        super().__init__(key, mark, drawn=key is None or not note.startswith(_OPEN))

    def claim(self, key: Key) -> str | None:
        """Note a charge; if the note cannot be written, the charge counts as drawn at once."""
        mark = super().claim(key)
        text = json.dumps([_boot_id(), *key, mark], allow_nan=False).encode()
        try:
            if self.entropy_log is not None:
                self.entropy_log.unlink(
                    missing_ok=True
                )  # what another charge drew is not for this one
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, _OPEN + text, 0)
        except OSError:
            # No log either: an old one may be left, and its words are the noise of another charge.
            self.mark, self.drawn, self.entropy_log = None, True, None
        return self.mark

    def draw(self) -> None:
        """Note that entropy is about to be given out, in one byte, which is written atomically."""
        if self.entropy_log is not None:
            return
        if not self.drawn:
            os.pwrite(self._file, _DRAWN, 0)
        super().draw()


@dataclass
class _Turn:
    lock: threading.Lock = field(default_factory=threading.Lock)
    askers: int = 0


class Flights:
    """The flights of one ledger, in a folder that its processes share, or in memory."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._guard = threading.Lock()
        self._turns: dict[str, _Turn] = {}
        self._left: dict[str, Flight] = {}

    @contextmanager
    def alone(
        self, body: str, *, timeout_seconds: float | None = None, keep_entropy: bool = False
    ) -> Iterator[Flight]:
        """Hold the only flight of a question; others wait, up to `timeout_seconds`.

        With `keep_entropy` and a folder, the drawn words are logged until the answer is stored.
        """
        end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        with self._turn(body, end):
            path = None if self._folder is None else self._folder / f"{body}.flight"
            file = None if path is None else _locked(path, end)
            entropy_log = path.with_suffix(".tape") if keep_entropy and path is not None else None
            file_flight = None if file is None else _FileFlight(file, entropy_log)
            flight = file_flight or self._left.pop(body, Flight())
            try:
                yield flight
            finally:
                if file is not None and path is not None:
                    with suppress(OSError):
                        if flight.drawn:
                            if entropy_log is not None:
                                entropy_log.unlink(missing_ok=True)
                            path.unlink()
                    os.close(file)
                elif not flight.drawn:
                    self._left[body] = flight

    @contextmanager
    def _turn(self, body: str, end: float | None) -> Iterator[None]:
        """Hold the question alone among the threads of this process."""
        with self._guard:
            turn = self._turns.setdefault(body, _Turn())
            turn.askers += 1
        try:
            timeout = -1 if end is None else max(0.0, end - time.monotonic())
            if not turn.lock.acquire(timeout=timeout):
                raise _pending()
            try:
                yield
            finally:
                turn.lock.release()
        finally:
            with self._guard:
                turn.askers -= 1
                if not turn.askers:
                    del self._turns[body]


def _locked(path: Path, end: float | None) -> int | None:
    """Open and lock a note among all processes; None if no note can be written."""
    pause = _PAUSE_SECONDS
    while True:
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError:
            return None
        try:
            locks.flock(file, locks.LOCK_EX | locks.LOCK_NB)
            # The previous holder may have removed the file, and another one may have its name.
            if os.path.samestat(os.fstat(file), path.stat()):
                return file
        except FileNotFoundError:
            pass
        except BlockingIOError:
            if end is not None and time.monotonic() > end:
                os.close(file)
                raise _pending() from None
            time.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE_SECONDS)
        os.close(file)


def _parse_note(note: bytes) -> tuple[Key | None, str | None]:
    """The charge in a note of this boot; nothing for any other note."""
    try:
        boot, principal, request_id, mark = json.loads(note[1:])
    except ValueError:
        return None, None
    if boot is None or boot != _boot_id():
        return None, None
    return (principal, request_id), mark


def _boot_id() -> str | None:
    """The id of the current boot, or None if the system has none."""
    try:
        return _BOOT_ID_FILE.read_text(encoding="ascii").strip()
    except OSError:
        return None


def _pending() -> LedgerError:
    return LedgerError(
        "answer_pending",
        "The same question is being answered and took longer than the deadline. Nothing was "
        "charged for this request.",
        hint="Ask again later.",
    )
