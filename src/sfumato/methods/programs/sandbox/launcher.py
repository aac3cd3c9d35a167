"""The outside of a sandbox: start workers, hand blocks to them, and enforce the time limit.

Decision `programs`.
"""

from __future__ import annotations

import fcntl
import math
import os
import resource
import select
import signal
import socket
import struct
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sfumato.methods.programs.sandbox import cgroups
from sfumato.methods.programs.sandbox.base import OVERHEAD_SECONDS, RECORD_ITEM, START_SECONDS

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

    from sfumato.methods.programs.sandbox.base import BlockLimits
    from sfumato.methods.programs.sandbox.cgroups import Keeping

_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
_CHUNK = 1 << 16
_FORK_SECONDS = 1.0
_REPORT_BYTES = 6
_VDSO_PAGES = 4


class Started(NamedTuple):
    """A process that was started, and the one inside that forks: they may be the same."""

    process: subprocess.Popen[bytes]
    inside: int


@dataclass
class BlockOutcome:
    """What came of one block: `record` only if all is as it should be."""

    record: bytes | None = None
    report: bytes = b""
    late: bool = False


def sealed(content: bytes) -> int:
    """A file in memory, never on a disk, that nobody can change any more."""
    fd = os.memfd_create("block", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(content)
            file.seek(0)
        # Sealed: a block cannot leave anything in its own input for whoever reads it next.
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(fd)
        raise
    return fd


class Worker:
    """One process inside a chamber that forks a fresh one for each block.

    It is told nothing but to fork, and nothing of what became of a block: that process is watched
    and ended from here.
    """

    def __init__(self, start: Callable[[int], Started], keeping: Keeping) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, ExitStack() as undo:
            undo.callback(ours.close)
            self._process, self._inside = start(theirs.fileno())
            undo.callback(self._process.kill)
            self._watched = os.pidfd_open(self._inside)
            # Everything is set up: from here on `close` undoes it.
            undo.pop_all()
        self._control, self._keeping = ours, keeping
        self._group = cgroups.join(self._inside)
        self._base = 0

    def set_up(self, setup: int, seconds: float) -> bool:
        """Hand over the wishes, once it listens; whether it did.

        What memory it has it cannot see itself, since it sees no /proc: it is given the file.
        """
        grouped = self._group is not None or self._keeping != "groups"
        if not grouped or _message(self._control, seconds) != b"H":
            return False
        home = Path(f"/proc/{self._inside}")
        with suppress(OSError):
            # Where memory runs out a block is ended first: it has more of it than its worker.
            (home / "oom_score_adj").write_text("1000")
        if self._keeping == "locks":
            with suppress(OSError, ValueError):
                unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
                resource.prlimit(self._inside, resource.RLIMIT_MEMLOCK, unlimited)
        try:
            with (home / "maps").open("rb") as maps:
                socket.send_fds(self._control, [b"S"], [setup, maps.fileno()])
        except OSError:
            return False
        return True

    def ready(self, seconds: float) -> bool:
        """Wait until it has loaded what programs need; whether it has."""
        if _message(self._control, seconds) != b"R":
            return False
        try:
            pages, *_ = Path(f"/proc/{self._inside}/statm").read_text().split()
        except OSError:  # it is gone again
            return False
        self._base = int(pages) * os.sysconf("SC_PAGE_SIZE")
        return True

    def fork(self) -> Fork | None:
        """A fresh process for one block, on its way; nothing if the worker itself is lost."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, ExitStack() as undo:
            undo.callback(ours.close)
            try:
                socket.send_fds(self._control, [b"F"], [theirs.fileno()])
                if not _ready({self._control.fileno()}, _FORK_SECONDS):
                    return None
                message, fds, _, _ = socket.recv_fds(self._control, 1, 1)
            except OSError:
                return None
            if message != b"P" or not fds:
                return None
            undo.pop_all()
            return Fork(ours, fds[0], self._base, self._keeping)

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
        cgroups.leave(self._group)


class Fork:
    """The process of one block: made before its rows come, ended with the block."""

    def __init__(self, channel: socket.socket, watched: int, base: int, keeping: Keeping) -> None:
        self._channel, self._watched, self._base = channel, watched, base
        self._group = cgroups.join(_number(watched))
        if self._group is not None or keeping != "groups":
            with suppress(OSError):
                channel.send(b"G")

    def prepared(self, seconds: float) -> bool:
        """Wait until it has memory of its own; whether it says so."""
        return _message(self._channel, seconds) == b"R"

    @property
    def has_shared_pages(self) -> bool:
        """Whether files, or other processes by shared memory, are behind any page that it has.

        The kernel counts them, among them the few of its own vDSO, which all processes have.
        """
        try:
            shared = Path(f"/proc/{_number(self._watched)}/statm").read_text().split()[2]
        except OSError:
            return True
        return int(shared) > _VDSO_PAGES

    def run(
        self, block: bytes, width: int, limits: BlockLimits, end: float, *, listen: bool
    ) -> BlockOutcome:
        """What comes of the block until the moment `end`."""
        memory = self._base + len(block) + limits.memory
        record, report = bytearray(), bytearray()
        with _handed(block, listen=listen) as (files, readers):
            try:
                socket.send_fds(self._channel, [struct.pack("<q", memory)], files)
            except OSError:
                return BlockOutcome()
            # Closed on our side, so that the pipes end when the process ends.
            while files:
                os.close(files.pop())
            # One byte more than a record: too much output shows, and is a failure.
            rooms = ((record, width * RECORD_ITEM + 1), (report, _REPORT_BYTES))
            buffers = dict(zip(readers, rooms, strict=False))
            late = not self._gathered(buffers, end)
            self.close()
            _drained(buffers)
        is_complete = not late and len(record) == width * RECORD_ITEM
        return BlockOutcome(bytes(record) if is_complete else None, bytes(report), late)

    def _gathered(self, buffers: dict[int, tuple[bytearray, int]], end: float) -> bool:
        """Read what comes until the process is gone; whether it went in time."""
        waited = {*buffers}
        while (seconds_left := end - time.monotonic()) > 0:
            for fd in _ready({self._watched, *waited}, seconds_left):
                if fd == self._watched:
                    return True
                if not _read_some(fd, *buffers[fd]):
                    waited.discard(fd)
        return False

    def close(self) -> None:
        """End the process, and wait until it is gone. A second time does nothing."""
        if self._watched < 0:
            return
        with suppress(OSError):
            # By its pidfd: a number could belong to another process by now.
            signal.pidfd_send_signal(self._watched, signal.SIGKILL)
        _ready({self._watched}, OVERHEAD_SECONDS)
        os.close(self._watched)
        self._watched = -1
        self._channel.close()
        cgroups.leave(self._group)


def _number(watched: int) -> int:
    """Under which number this process sees another one that it holds a file of."""
    for line in Path(f"/proc/self/fdinfo/{watched}").read_text().splitlines():
        if line.startswith("Pid:"):
            return int(line.split()[1])
    return -1


def _message(channel: socket.socket, seconds: float) -> bytes:
    """What somebody says within so long; nothing if they say nothing, or are gone."""
    try:
        return channel.recv(1) if _ready({channel.fileno()}, seconds) else b""
    except OSError:
        return b""


@contextmanager
def _handed(block: bytes, *, listen: bool) -> Iterator[tuple[list[int], list[int]]]:
    """The files of one block: those to hand over, and where we read; all closed in the end."""
    files: list[int] = []
    readers: list[int] = []
    try:
        files.append(sealed(block))
        for _ in range(2 if listen else 1):
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


def _drained(buffers: dict[int, tuple[bytearray, int]]) -> None:
    """Read what is left, now that nobody can write more."""
    for fd, (buffer, most) in buffers.items():
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
