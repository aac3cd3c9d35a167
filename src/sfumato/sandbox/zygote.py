"""What runs inside a chamber, as a script: it loads libraries, then forks once for each block.

It never sees a row: each block's rows come as a file that only the block's own process opens, and
what it forks from is always the same. It knows only the standard library, because nothing of
Sfumato is to be seen inside. Decision 0385.
"""

from __future__ import annotations

import array
import ctypes
import gc
import importlib
import json
import linecache
import mmap
import os
import resource
import select
import signal
import socket
import struct
import sys
import traceback
from importlib.util import spec_from_file_location
from types import ModuleType
from typing import TYPE_CHECKING, Any, Never

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

_INPUT, _OUTPUT = 3, 4
_PARENT_DEATH_SIGNAL, _DUMPABLE, _SECCOMP, _DROP_BOUND, _NO_NEW_PRIVILEGES = 1, 4, 22, 24, 38
_FILTER = 2
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_BENEATH = 1
_CAPABILITY_VERSION, _LAST_CAPABILITY = 0x20080522, 63
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class _Code(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))


def main() -> None:
    """Shut ourselves in, load what programs use, and serve blocks until nobody asks any more."""
    control = socket.socket(fileno=int(sys.argv[1]))
    _checked(_libc.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0))
    setup = _received_setup(control)
    if setup["parent"] not in {None, os.getppid()}:
        sys.exit("the parent is gone")
    _checked(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    if setup["landlock"]:
        _drop_capabilities()
        _restrict(setup["landlock"])
    _load(bytes.fromhex(setup["first_filter"]))
    # Set last: from now on nobody but root may look into this process.
    _checked(_libc.prctl(_DUMPABLE, 0, 0, 0, 0))
    sys.meta_path.append(_Declared(setup["packages"]))
    for name in setup["modules"]:
        _loaded(name)
    _settle()
    gc.collect()
    gc.freeze()
    control.send(b"R")
    while _served(control, setup):
        pass


def _received_setup(control: socket.socket) -> dict[str, Any]:
    """The wishes, from a file that other workers read too: its position is not ours to move."""
    _, (file,) = _received(control)
    found: dict[str, Any] = json.loads(os.pread(file, os.fstat(file).st_size, 0))
    os.close(file)
    return found


def _received(control: socket.socket) -> tuple[bytes, list[int]]:
    """A message, and the files that came with it."""
    room = array.array("i")
    message, extra, _, _ = control.recvmsg(64, socket.CMSG_SPACE(3 * room.itemsize))
    for level, kind, data in extra:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            room.frombytes(data[: len(data) - len(data) % room.itemsize])
    return message, list(room)


class _Declared:
    """Where the packages for programs are found; of others not even the names are seen."""

    def __init__(self, homes: dict[str, str]) -> None:
        self._homes = homes

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        home = self._homes.get(name)
        if home is None:
            return None
        folders = [home.rpartition("/")[0]] if home.endswith("/__init__.py") else None
        return spec_from_file_location(name, home, submodule_search_locations=folders)


def _loaded(name: str) -> None:
    """Load a library if it is there; who needs it and finds it missing will be told."""
    try:
        importlib.import_module(name)
    except BaseException:  # noqa: BLE001 - whatever a library does here, the program is to be told
        return


def _settle() -> None:
    """Have libraries ask now what they could not ask later, or need not."""
    if control := sys.modules.get("threadpoolctl"):
        # It would look for libraries to keep from starting threads, which nobody can.
        control.ThreadpoolController._load_libraries = lambda _: None  # noqa: SLF001 - no other way


def _served(control: socket.socket, setup: dict[str, Any]) -> bool:
    """Have one block done; whether another may come."""
    message, fds = _received(control)
    if not message:
        return False
    if message[:1] != b"B":  # too late to end a block that has ended
        return True
    parent = os.getpid()
    child = os.fork()
    if not child:
        _block(parent, struct.unpack("<q", message[1:9])[0], fds, setup)
    for fd in fds:
        os.close(fd)
    watched = os.pidfd_open(child)
    ready, _, _ = select.select([watched, control.fileno()], [], [])
    os.close(watched)
    wanted = watched in ready or bool(control.recv(64))
    if watched not in ready:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if wanted:
        control.send(b"D")
    return wanted


def _block(parent: int, memory: int, fds: list[int], setup: dict[str, Any]) -> Never:
    """Run the program on one block, in a process of its own, and end."""
    try:
        _libc.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == parent:
            rows = _confine(memory, fds, setup)
            record = _computed(setup, rows)
            sys.stdout.flush()
            os.write(_OUTPUT, record)
    except BaseException as error:  # noqa: BLE001 - whatever a program does, its process ends here
        _tell(error)
    os._exit(0)


def _confine(memory: int, fds: list[int], setup: dict[str, Any]) -> mmap.mmap | None:
    """Leave only the rows, the place of the record and, on rows about nobody, one for words."""
    code = bytes.fromhex(setup["last_filter"])
    rows, output, said = map(_above, fds)
    for fd, place in ((rows, _INPUT), (output, _OUTPUT), (said, 1), (said, 2)):
        os.dup2(fd, place)
    os.closerange(_OUTPUT + 1, 1 << 16)
    size = os.fstat(_INPUT).st_size
    mapped = mmap.mmap(_INPUT, size, prot=mmap.PROT_READ) if size else None
    for what, most in setup["limits"].items():
        resource.setrlimit(getattr(resource, what), (most, most))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    for number in (signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    sys.meta_path[:] = [_Unloaded]
    _load(code)
    return mapped


def _above(fd: int) -> int:
    """The same file under a number that nothing is to be put at."""
    while fd <= _OUTPUT:
        fd = os.dup(fd)
    return fd


class _Unloaded:
    """Where libraries would be found: nowhere, for no file can be opened any more."""

    @staticmethod
    def find_spec(name: str, *_: object) -> ModuleSpec | None:
        raise ImportError(
            f"No module '{name}' is loaded. Only Python's own library and numpy, scipy, sklearn, "
            f"pandas and pyarrow are there, and they are loaded before the rows come: write "
            f"'import {name}' at the top of the program."
        )


def _computed(setup: dict[str, Any], rows: mmap.mmap | None) -> bytes:
    """The record of one block: what the program's function gives for its rows."""
    source = setup["source"]
    # What a traceback shows of the program; its file is nowhere.
    linecache.cache["program.py"] = (len(source), None, source.splitlines(keepends=True), "")
    program = ModuleType("program")
    exec(compile(source, "program.py", "exec", dont_inherit=True), program.__dict__)  # noqa: S102 - what all this is for
    function = getattr(program, setup["function"], None)
    if not callable(function):
        raise NameError(f"the program has no function '{setup['function']}'")
    numbers = list(_numbers(function(_table(rows))))
    if len(numbers) != setup["width"]:
        raise ValueError(f"{len(numbers)} numbers were given, {setup['width']} are declared")
    return struct.pack(f"<{len(numbers)}d", *numbers)


def _table(rows: mmap.mmap | None) -> object:
    """The block's table, read where it lies; nothing if there is none."""
    if rows is None:
        return None
    import pyarrow as pa

    return pa.ipc.open_stream(pa.py_buffer(rows)).read_all()


def _numbers(given: Any) -> Any:
    """The numbers in a number, a sequence or an array of them, in order."""
    for plain in ("tolist", "to_pylist", "as_py"):
        if hasattr(given, plain):
            given = getattr(given, plain)()
    if isinstance(given, (list, tuple)):
        for one in given:
            yield from _numbers(one)
    elif hasattr(given, "__float__") or hasattr(given, "__index__"):
        yield float(given)
    else:
        raise TypeError(f"a number was expected, and {type(given).__name__} was given")


def _tell(error: BaseException) -> None:
    """Say what went wrong, from the program's own lines on; mostly nobody listens."""
    try:
        inner = error.__traceback__
        while inner and inner.tb_frame.f_code.co_filename == __file__:
            inner = inner.tb_next
        told = traceback.format_exception(type(error), error, inner)
        sys.stdout.flush()
        os.write(2, "".join(told).encode(errors="replace"))
    except BaseException:  # noqa: BLE001 - it may have spoilt even this, and has failed anyway
        return


def _drop_capabilities() -> None:
    """Give up all that root may do beyond others, also for what would be started."""
    for capability in range(_LAST_CAPABILITY + 1):
        _libc.prctl(_DROP_BOUND, capability, 0, 0, 0)
    head = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    _checked(_libc.capset(head, (ctypes.c_uint32 * 6)()))


def _restrict(wishes: dict[str, Any]) -> None:
    """Landlock: no file but those beneath some paths, to be read; no port; nobody outside."""
    handled = struct.pack("=QQQ", wishes["files"], wishes["ports"], wishes["scopes"])
    size = len(handled) if wishes["scopes"] else 16
    ruleset = _checked(_libc.syscall(_CREATE_RULESET, handled, ctypes.c_size_t(size), 0))
    for path, access in wishes["paths"]:
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = struct.pack("=Qi", access, beneath)
        _checked(_libc.syscall(_ADD_RULE, ruleset, _BENEATH, rule, 0))
        os.close(beneath)
    _checked(_libc.syscall(_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def _load(code: bytes) -> None:
    """Have the kernel look at every call of this process by a filter."""
    steps = ctypes.create_string_buffer(code, len(code))
    program = _Code(len(code) // 8, ctypes.cast(steps, ctypes.c_void_p))
    _checked(_libc.prctl(_SECCOMP, _FILTER, ctypes.byref(program), 0, 0))


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


if __name__ == "__main__":
    main()
