"""Sixteen ways out, tried from inside: a program for a chamber, which must come to nothing.

`PLANTED`, what there is to be found outside, is written before it.
"""

from __future__ import annotations

import _thread
import ctypes
import errno
import fcntl
import mmap
import os
import platform
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    PLANTED: dict[str, Any] = {}

_libc = ctypes.CDLL(None, use_errno=True)
# To seize does not stop a process, as to attach would, should it work.
_SEIZE, _USER_NAMESPACE, _KEPT_FILES, _MEMORY_CODE = 0x4206, 0x10000000, 5, 7


def read_secret() -> bool:
    """Read a file that lies on the machine."""
    return bool(Path(PLANTED["secret"]).read_text())


def read_system() -> bool:
    """Read what any user of the machine may, or list it."""
    return _any(
        lambda: any(Path("/").iterdir()),
        lambda: any(Path(PLANTED["folder"]).iterdir()),
        lambda: bool(Path("/etc/passwd").read_text()),
    )


def measure_secret() -> bool:
    """Learn how large a file is, without reading it."""
    return _any(
        lambda: Path(PLANTED["secret"]).stat().st_size > 0, lambda: _exists(PLANTED["secret"])
    )


def write_file() -> bool:
    """Leave something behind for the next block."""
    places = (PLANTED["folder"], "/tmp", "/dev/shm", "/var/tmp", ".")
    return _any(*(lambda place=place: _written(place) for place in places))


def connect_network() -> bool:
    """Reach somebody who listens on the machine."""
    with socket.socket() as caller:
        caller.settimeout(1)
        caller.connect(("127.0.0.1", PLANTED["port"]))
    return True


def connect_local() -> bool:
    """Reach somebody by a socket with a name."""
    return _any(*(lambda name=name: _called(name) for name in PLANTED["sockets"]))


def listen() -> bool:
    """Be reached by somebody, or send without being connected."""
    return _any(_listening, lambda: all(socket.socketpair()))


def open_files() -> bool:
    """Use a file that somebody forgot to close."""
    return any(_is_open(fd) for fd in range(_KEPT_FILES, 1024))


def environment() -> bool:
    """Read settings of whoever started this."""
    return bool(set(os.environ) - set(PLANTED["environment"]))


def fork() -> bool:
    """Go on in another process."""
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    return True


def start_program() -> bool:
    """Start another program."""
    child = os.posix_spawn("/bin/true", ["true"], {})
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def start_thread() -> bool:
    """Do two things at once."""
    return _thread.start_new_thread(int, ()) > 0


def send_signal() -> bool:
    """Tell another process something."""
    return _any(*(lambda way=way: _signalled(way) for way in (PLANTED["process"], -1, None)))


def look_into_process() -> bool:
    """Look into the memory of the process that waits for us."""
    return _any(
        lambda: _libc.ptrace(_SEIZE, PLANTED["process"], 0, 0) == 0,
        lambda: bool(Path(f"/proc/{PLANTED['process']}/environ").read_bytes()),
        lambda: Path("/proc/self/mem").open("rb").readable(),
    )


def take_memory() -> bool:
    """Take more memory than is given, alone or to be shared."""
    return _any(
        lambda: len(bytearray(PLANTED["memory"])) > 0,
        lambda: len(mmap.mmap(-1, PLANTED["memory"])) > 0,
    )


def win_rights() -> bool:
    """Get a namespace, memory with a name, or code of one's own: what other ways out begin with."""
    return _any(
        lambda: _libc.unshare(_USER_NAMESPACE) == 0,
        lambda: os.memfd_create("left") > 0,
        lambda: _libc.shmget(0, 4096, 0o1600) >= 0,
        lambda: len(mmap.mmap(-1, 4096, prot=_MEMORY_CODE)) > 0,
        lambda: _libc.prctl(4, 1, 0, 0, 0) == 0,
    )


ESCAPES: tuple[Callable[[], bool], ...] = (
    *(read_secret, read_system, measure_secret, write_file, connect_network, connect_local),
    *(listen, open_files, environment, fork, start_program, start_thread, send_signal),
    *(look_into_process, take_memory, win_rights),
)


def attempt(_: object) -> list[float]:
    """One, to show that this ran; then for each way out whether it was open."""
    return [1.0, *(float(_any(escape)) for escape in ESCAPES)]


def _any(*ways: Callable[[], bool]) -> bool:
    """Whether one of these works; what cannot be tried does not."""
    for way in ways:
        try:
            if way():
                return True
        except Exception:  # noqa: BLE001 - however it is refused, it is
            continue
    return False


def _exists(path: str) -> bool:
    """Whether a file is there: also by which error says that it is not."""
    number = 21 if platform.machine() == "x86_64" else 48
    arguments = (path.encode(), 0) if number == 21 else (-100, path.encode(), 0)
    _libc.syscall(number, *arguments)
    return ctypes.get_errno() not in {errno.EPERM, errno.ENOENT, errno.EACCES}


def _signalled(process: int | None) -> bool:
    if process is None:
        signal.pidfd_send_signal(os.pidfd_open(PLANTED["process"]), 0)
    else:
        os.kill(process, 0)
    return True


def _written(folder: str) -> bool:
    left = Path(folder, "sfumato-left-behind")
    left.write_text("Bob")
    left.unlink()
    return True


def _called(name: str) -> bool:
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(name)
    return True


def _listening() -> bool:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
    return True


def _is_open(fd: int) -> bool:
    try:
        fcntl.fcntl(fd, fcntl.F_GETFD)
    except OSError:
        return False
    return True
