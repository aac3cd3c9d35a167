"""The outside of a chamber: workers are started, blocks handed to them, and time is kept.

Decision 0385.
"""

from __future__ import annotations

import fcntl
import math
import os
import select
import signal
import socket
import struct
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sfumato.sandbox.base import OVERHEAD_SECONDS, RECORD_ITEM, START_SECONDS

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

    from sfumato.sandbox.base import BlockLimits

_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
_CHUNK = 1 << 16


class Started(NamedTuple):
    """A process that was started, and the one inside that forks: they may be the same."""

    process: subprocess.Popen[bytes]
    inside: int


@dataclass
class BlockOutcome:
    """What came of one block: `record` only if all is as it should be."""

    record: bytes | None = None
    said: bytes = b""
    late: bool = False


def sealed(content: bytes) -> int:
    """A file in memory, never on a disk, that nobody can change any more."""
    fd = os.memfd_create("block", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(content)
            file.seek(0)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(fd)
        raise
    return fd


class Worker:
    """One process inside a chamber that forks a fresh one for each block."""

    def __init__(self, start: Callable[[int], Started], setup: int) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, ExitStack() as undo:
            undo.callback(ours.close)
            self._process, self._inside = start(theirs.fileno())
            undo.callback(self._process.kill)
            self._watched = os.pidfd_open(self._inside)
            socket.send_fds(ours, [b"S"], [setup])
            undo.pop_all()
        self._control = ours
        self._base = 0

    @property
    def is_ready(self) -> bool:
        """Whether it said so."""
        return self._base > 0

    def ready(self, seconds: float) -> bool:
        """Wait until it has loaded what programs need; whether it has."""
        if self._told(seconds) != b"R":
            return False
        try:
            pages, *_ = Path(f"/proc/{self._inside}/statm").read_text().split()
        except OSError:  # it is gone again
            return False
        self._base = int(pages) * os.sysconf("SC_PAGE_SIZE")
        return True

    def run(
        self, block: bytes, width: int, limits: BlockLimits, *, listen: bool
    ) -> BlockOutcome | None:
        """What came of one block; nothing if the worker itself is lost."""
        end = time.monotonic() + limits.seconds
        memory = self._base + len(block) + limits.memory
        record, said = bytearray(), bytearray()
        with _handed(block, listen=listen) as (files, readers):
            try:
                socket.send_fds(self._control, [b"B" + struct.pack("<q", memory)], files)
            except OSError:
                return None
            while files:
                os.close(files.pop())
            rooms = ((record, width * RECORD_ITEM + 1), (said, limits.said))
            kept = dict(zip(readers, rooms, strict=False))
            late = not self._gathered(kept, end)
            if late and not self._ended():
                return None
            _drained(kept)
        whole = not late and len(record) == width * RECORD_ITEM
        return BlockOutcome(bytes(record) if whole else None, bytes(said), late)

    def _gathered(self, kept: dict[int, tuple[bytearray, int]], end: float) -> bool:
        """Read what comes until the block's process is gone; whether it went in time."""
        control, waited = self._control.fileno(), {*kept}
        while (left := end - time.monotonic()) > 0:
            for fd in _ready({control, *waited}, left):
                if fd == control:
                    return self._told(0) == b"D"
                if not _read_some(fd, *kept[fd]):
                    waited.discard(fd)
        return False

    def _ended(self) -> bool:
        """End the block's process, and wait until it is gone."""
        with suppress(OSError):
            self._control.send(b"K")
        return self._told(OVERHEAD_SECONDS) == b"D"

    def _told(self, seconds: float) -> bytes:
        """What the worker says within so long; nothing if it says nothing, or is gone."""
        try:
            return self._control.recv(1) if _ready({self._control.fileno()}, seconds) else b""
        except OSError:
            return b""

    def forget(self) -> None:
        """Hear nothing more from it: whoever waits for it is told that it is lost."""
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End it and all it forked, and wait until they are gone."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._watched, signal.SIGKILL)
        _ready({self._watched}, START_SECONDS)
        os.close(self._watched)
        self._control.close()
        self._process.kill()
        self._process.wait()


@contextmanager
def _handed(block: bytes, *, listen: bool) -> Iterator[tuple[list[int], list[int]]]:
    """The files of one block: those to hand over, and where we read; all closed in the end.

    Without listening, what is printed goes nowhere: we should not even be kept busy by it.
    """
    files: list[int] = []
    readers: list[int] = []
    try:
        files.append(sealed(block))
        for wanted in (True, listen):
            if not wanted:
                files.append(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC))
                continue
            reader, writer = os.pipe2(os.O_CLOEXEC)
            readers.append(reader)
            files.append(writer)
            os.set_blocking(reader, False)
        yield files, readers
    finally:
        for fd in (*files, *readers):
            os.close(fd)


def _ready(fds: set[int], seconds: float) -> list[int]:
    """Those that can be read or have ended, waiting so long for the first."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return [fd for fd, _ in poll.poll(math.ceil(max(seconds, 0.0) * 1000))]


def _drained(kept: dict[int, tuple[bytearray, int]]) -> None:
    """Read what is left, now that nobody can write more."""
    for fd, (buffer, most) in kept.items():
        while _read_some(fd, buffer, most):
            pass


def _read_some(fd: int, buffer: bytearray, most: int) -> bool:
    """Keep what there is room for, throw the rest away; whether more may come."""
    try:
        piece = os.read(fd, _CHUNK)
    except BlockingIOError:
        return False
    buffer += piece[: most - len(buffer)]
    return bool(piece)
