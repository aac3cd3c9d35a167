"""Flights: one asker at a time for one question, among threads and processes.

Under a flight a note says which charge was made for the question, and whether its entropy was
drawn. The note lies in the memory of the machine: a killed process leaves it as it was, a power cut
loses it, and a note of an earlier boot, or none, counts as drawn. So it needs no sync.

A taped flight keeps what was drawn too, beside its note: its charge is open until the answer is
stored, and whoever takes it up draws the same.

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

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_OPEN, _DRAWN = b"?", b"!"
_LONGEST = 1 << 16
_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.0005, 0.008


class Flight:
    """The only asker of one question at this moment, and the charge that was made for it.

    `key` is the request that was charged, now or by an earlier asker who did not come to an end;
    `mark` is what its entry in the ledger must carry to be that charge and no other; `tape` is
    where entropy is kept that is drawn, where it is.
    """

    tape: Path | None = None

    def __init__(
        self, key: Key | None = None, mark: str | None = None, *, drawn: bool = True
    ) -> None:
        self.key, self.mark, self.drawn = key, mark, drawn

    def claim(self, key: Key) -> str | None:
        """Note a charge that is about to be made; return the mark that it must carry."""
        self.key, self.mark, self.drawn = key, token_hex(16), False
        return self.mark

    def draw(self) -> None:
        """Note that entropy is about to be given out; there is no way back."""
        self.drawn = True

    def settle(self) -> None:
        """Note that the answer is stored: nobody needs to take the charge up any more."""
        self.drawn = True

    def forget(self) -> None:
        """Let go of a charge that was not made."""
        self.key, self.mark, self.drawn = None, None, True


class _KeptFlight(Flight):
    """A flight whose note lies in a file that it holds locked."""

    def __init__(self, file: int, tape: Path | None) -> None:
        self._file, self.tape = file, tape
        note = os.pread(file, _LONGEST, 0)
        key, mark = _parsed(note)
        super().__init__(key, mark, drawn=key is None or not note.startswith(_OPEN))

    def claim(self, key: Key) -> str | None:
        """Note a charge; where that is impossible, it counts as drawn from the beginning."""
        mark = super().claim(key)
        text = json.dumps([_boot(), *key, mark], allow_nan=False).encode()
        try:
            if self.tape is not None:
                self.tape.unlink(missing_ok=True)  # what another charge drew is not for this one
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, _OPEN + text, 0)
        except OSError:
            # No tape either: the old one may be left, and its words are another charge's noise.
            self.mark, self.drawn, self.tape = None, True, None
        return self.mark

    def draw(self) -> None:
        """Note that entropy is about to be given out, by one byte, which is never half written."""
        if self.tape is not None:
            return
        if not self.drawn:
            os.pwrite(self._file, _DRAWN, 0)
        super().draw()


@dataclass
class _Turn:
    lock: threading.Lock = field(default_factory=threading.Lock)
    askers: int = 0


class Flights:
    """The flights of one ledger: in a folder that its processes share, or in memory."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._guard = threading.Lock()
        self._turns: dict[str, _Turn] = {}
        self._left: dict[str, Flight] = {}

    @contextmanager
    def alone(
        self, body: str, *, timeout_seconds: float | None = None, taped: bool = False
    ) -> Iterator[Flight]:
        """Be the only asker of a question; others wait, at most so long."""
        end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        with self._turn(body, end):
            path = None if self._folder is None else self._folder / f"{body}.flight"
            file = None if path is None else _locked(path, end)
            tape = path.with_suffix(".tape") if taped and path is not None else None
            kept = None if file is None else _KeptFlight(file, tape)
            flight = kept or self._left.pop(body, Flight())
            try:
                yield flight
            finally:
                if file is not None and path is not None:
                    with suppress(OSError):
                        if flight.drawn:
                            if tape is not None:
                                tape.unlink(missing_ok=True)
                            path.unlink()
                    os.close(file)
                elif not flight.drawn:
                    self._left[body] = flight

    @contextmanager
    def _turn(self, body: str, end: float | None) -> Iterator[None]:
        """Be the only thread of this process."""
        with self._guard:
            turn = self._turns.setdefault(body, _Turn())
            turn.askers += 1
        try:
            left = -1 if end is None else max(0.0, end - time.monotonic())
            if not turn.lock.acquire(timeout=left):
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
    """Open and lock a note among all processes; None where no notes can be kept."""
    pause = _PAUSE_SECONDS
    while True:
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError:
            return None
        try:
            locks.flock(file, locks.LOCK_EX | locks.LOCK_NB)
            # Whoever held it before has perhaps removed it, and another stands in its place.
            if os.path.samestat(os.fstat(file), path.stat()):
                return file
        except FileNotFoundError:
            pass
        except BlockingIOError:
            if end is not None and time.monotonic() > end:
                os.close(file)
                raise _pending() from None
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        os.close(file)


def _parsed(note: bytes) -> tuple[Key | None, str | None]:
    """The charge that a note of this boot speaks of."""
    try:
        boot, principal, request_id, mark = json.loads(note[1:])
    except ValueError:
        return None, None
    if boot is None or boot != _boot():
        return None, None
    return (principal, request_id), mark


def _boot() -> str | None:
    """What names the time since the machine was started, where the system tells."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return None


def _pending() -> LedgerError:
    return LedgerError(
        "answer_pending",
        "The same question is being answered and took longer than the deadline. Nothing was "
        "charged for this request.",
        hint="Ask again later.",
    )
