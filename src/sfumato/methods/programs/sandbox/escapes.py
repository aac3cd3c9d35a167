"""Ways out, tried from inside: a program for a chamber, which must come to nothing.

The first are ways to the outside: files, network, processes, memory, rights. The others are
channels by which one block could tell another something through the kernel: what they share is the
cache of files, the processors and the kernel's own counters. Of those the calls are tried that the
channels are made of; tests have the whole attacks.

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
_libc.syscall.restype = ctypes.c_long
_ON_X86 = platform.machine() == "x86_64"
# To seize does not stop a process, as to attach would, should it work.
_SEIZE, _USER_NAMESPACE, _KEPT_FILES, _MEMORY_CODE = 0x4206, 0x10000000, 6, 7


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
    folders = (PLANTED["folder"], "/tmp", "/dev/shm", "/var/tmp", ".")
    return _any(*(lambda folder=folder: _written(folder) for folder in folders))


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
    return _any(
        *(lambda process=process: _signalled(process) for process in (PLANTED["process"], -1, None))
    )


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


def page_out() -> bool:
    """Have pages of a library leave memory, come back to their file, or change their size."""
    advice = (4, 8, 14, 20, 21, 25)  # don't need, free, huge page, cold, page out, collapse
    return any(_is_taken((28, 233), _library(), 4096, advice_number) for advice_number in advice)


def see_page_cache() -> bool:
    """See which pages of files are in memory, or have them brought there."""
    return any(
        (
            _is_taken((27, 232), _library(), 4096, ctypes.create_string_buffer(8)),  # mincore
            _is_taken((451, 451), 0, 0, 0, 0),  # cachestat
            _is_taken((327, 286), 0, 0, 0, 0, 0, 8),  # preadv2, of what is there at once
            _is_taken((221, 223), 0, 0, 0, 3),  # fadvise64
            _is_taken((187, 213), 0, 0, 4096),  # readahead
        )
    )


def count_faults() -> bool:
    """Count page faults and switches, or processor time apart from waiting."""
    room = ctypes.create_string_buffer(256)
    return any(
        (
            _is_taken((98, 165), 0, room),  # getrusage
            _is_taken((100, 153), room),  # times
            *(_is_taken((228, 113), clock, room) for clock in (2, 3)),  # processor clocks
        )
    )


def share_futex() -> bool:
    """Wake somebody who waits on the same page of the same library."""
    return _is_taken((202, 98), _library(), 1, 1, 0, 0, 0)


def remap_files() -> bool:
    """Have memory that a file is behind, or that others could have too."""
    return _is_taken((25, 216), _library(), 4096, 8192, 1) or _is_taken(
        (9, 222), 0, 4096, 1, 0x21, -1, 0
    )


def lock_file() -> bool:
    """Lock a file that others have too, or watch for changes."""
    return any(
        (
            _is_taken((73, 32), 0, 6),  # flock: unlocked if it is
            _is_taken((72, 25), 0, 5, ctypes.create_string_buffer(64)),  # fcntl: who has a lock
            _is_taken((294, 26), -1),  # inotify_init1, with flags that make none
        )
    )


def read_file_state() -> bool:
    """Read what the kernel knows of a file that others have too."""
    room = ctypes.create_string_buffer(256)
    return any(
        (
            _is_taken((5, 80), 0, room),  # fstat
            _is_taken((8, 62), 0, 0, 1),  # lseek
            _is_taken((138, 44), 0, room),  # fstatfs
            _is_taken((17, 67), 0, room, 1, 0),  # pread64
            _is_taken((16, 29), 0, 0x5401, room),  # ioctl
        )
    )


def look_at_load() -> bool:
    """See how busy the machine is, or on which processor of it this runs."""
    room = ctypes.create_string_buffer(256)
    return any(
        (
            _is_taken((99, 179), room),  # sysinfo
            _is_taken((204, 123), 0, 128, room),  # sched_getaffinity
            _is_taken((309, 168), room, 0, 0),  # getcpu
            _is_taken((24, 124)),  # sched_yield
            _is_taken((324, 283), 0, 0),  # membarrier
            _is_taken((302, 261), 0, 7, 0, room),  # prlimit64
        )
    )


def set_timer() -> bool:
    """Be woken at a time, without a loop that waits for it."""
    return any(
        (
            _is_taken((38, 103), 0, 0, 0),  # setitimer
            _is_taken((222, 107), 99, 0, 0),  # timer_create, of a clock that is none
            _is_taken((283, 85), 99, 0),  # timerfd_create
        )
    )


def count_processes() -> bool:
    """Learn how many processes the machine has made, by the number of this one."""
    return any(_libc.syscall(_number(call)) > 0 for call in ((39, 172), (186, 178), (110, 173)))


ESCAPES: tuple[Callable[[], bool], ...] = (
    *(read_secret, read_system, measure_secret, write_file, connect_network, connect_local),
    *(listen, open_files, environment, fork, start_program, start_thread, send_signal),
    *(look_into_process, take_memory, win_rights),
    *(page_out, see_page_cache, count_faults, share_futex, remap_files, lock_file),
    *(read_file_state, look_at_load, set_timer, count_processes),
)


def attempt(_: object) -> list[float]:
    """One, to show that this ran; then for each way out whether it was open."""
    return [1.0, *(float(_any(escape)) for escape in ESCAPES)]


def _any(*attempts: Callable[[], bool]) -> bool:
    """Whether one of these works; what cannot be tried does not."""
    for attempt_way in attempts:
        try:
            if attempt_way():
                return True
        except Exception:  # noqa: BLE001 - however it is refused, it is
            continue
    return False


def _number(numbers: tuple[int, int]) -> int:
    return numbers[0] if _ON_X86 else numbers[1]


def _is_taken(numbers: tuple[int, int], *arguments: Any) -> bool:
    """Whether the kernel takes a call (x86_64, aarch64), even if only to say that it is wrong."""
    registers = [
        ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments
    ]
    ctypes.set_errno(0)
    result = _libc.syscall(_number(numbers), *registers)
    return result >= 0 or ctypes.get_errno() not in {errno.EPERM, errno.ENOSYS}


def _library() -> int:
    """A page of the C library, which every process maps."""
    address = ctypes.cast(_libc.getpid, ctypes.c_void_p).value
    return (address or 0) // 4096 * 4096


def _exists(path: str) -> bool:
    """Whether a file is there: also by which error says that it is not."""
    arguments = (path.encode(), 0) if _ON_X86 else (-100, path.encode(), 0)
    _libc.syscall(_number((21, 48)), *arguments)
    return ctypes.get_errno() not in {errno.EPERM, errno.ENOENT, errno.EACCES}


def _signalled(process: int | None) -> bool:
    if process is None:
        signal.pidfd_send_signal(os.pidfd_open(PLANTED["process"]), 0)
    else:
        os.kill(process, 0)
    return True


def _written(folder: str) -> bool:
    file = Path(folder, "sfumato-left-behind")
    file.write_text("Bob")
    file.unlink()
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
