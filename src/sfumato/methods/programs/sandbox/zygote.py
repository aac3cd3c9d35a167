"""The script that runs inside a sandbox: it loads libraries, then forks once for each block.

It never sees a row, nor what became of a block: its only input is one message for each block, the
same each time, upon which it forks. The fork makes a physical copy of all its memory, which no file
backs and no other process maps, and is then given the block's rows by a socket of its own. So
nothing that a block does to memory, caches of files or the forking process can reach a later one.

It knows only the standard library, because nothing of Sfumato is to be seen inside. Decisions
`programs` and `sandbox`.
"""

from __future__ import annotations

import array
import builtins
import ctypes
import gc
import importlib
import json
import mmap
import os
import resource
import signal
import socket
import struct
import sys
from importlib.util import spec_from_file_location
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, Never

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

_INPUT, _OUTPUT, _REPORT = 3, 4, 5
_PARENT_DEATH_SIGNAL, _DUMPABLE, _SECCOMP, _DROP_BOUND, _NO_NEW_PRIVILEGES = 1, 4, 22, 24, 38
_NO_HUGE_PAGES, _MERGE_EQUAL_PAGES = 41, 67
_READ, _WRITE, _EXECUTE = 1, 2, 4
_PRIVATE_ANONYMOUS, _MOVE_TO_FIXED = 0x22, 3
_POPULATE_WRITE = 23
_LOCK_CURRENT = 1
_FILTER = 2
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_BENEATH = 1
_CAPABILITY_VERSION, _LAST_CAPABILITY = 0x20080522, 63
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.mmap.restype = _libc.mremap.restype = ctypes.c_void_p


class _Code(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))


def main() -> None:
    """Shut ourselves in, load what programs use, and serve blocks until nobody asks any more."""
    control = socket.socket(fileno=int(sys.argv[1]))
    _checked(_libc.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0))
    control.send(b"H")
    setup, maps = _received_setup(control)
    if setup["parent"] not in {None, os.getppid()}:
        sys.exit("the parent is gone")
    _checked(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    if setup["landlock"]:
        _drop_capabilities()
        _restrict(setup["landlock"])
    _load(bytes.fromhex(setup["first_filter"]))
    # Set last: from now on nobody but root may look into this process.
    _checked(_libc.prctl(_DUMPABLE, 0, 0, 0, 0))
    # After the filter: libraries load under it, as their code is not ours.
    sys.meta_path.append(_Declared(setup["packages"]))
    for name in setup["modules"]:
        _loaded(name)
    _settle()
    gc.collect()
    # Objects of the libraries are never collected: a collection would write to copied pages.
    gc.freeze()
    _leave_shared_memory(maps)
    _copy_memory(maps, lock=setup["lock_memory"], fresh=setup["fresh_memory"])
    # Ended blocks are swept by the kernel: how one ended is not our business.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    control.send(b"R")
    while _forked(control, setup, maps):
        pass


def _received_setup(control: socket.socket) -> tuple[dict[str, Any], int]:
    """The wishes, and a file in which the kernel lists the memory of this process.

    The wishes lie in a file that other workers read too: its position is not ours to move.
    """
    _, (file, maps) = _received(control)
    setup: dict[str, Any] = json.loads(os.pread(file, os.fstat(file).st_size, 0))
    os.close(file)
    return setup, maps


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
    if machine := sys.modules.get("platform"):
        machine.uname()  # which it remembers


def _forked(control: socket.socket, setup: dict[str, Any], maps: int) -> bool:
    """Fork the process of one block and hand it to who asked; whether another may come.

    The same steps for every block: nothing here depends on what blocks before did.
    """
    message, fds = _received(control)
    if message != b"F":
        return False
    parent = os.getpid()
    child = os.fork()
    if not child:
        control.close()
        _block(parent, socket.socket(fileno=fds[0]), setup, maps)
    watched = os.pidfd_open(child)
    socket.send_fds(control, [b"P"], [watched])
    for fd in (*fds, watched):
        os.close(fd)
    return True


def _block(parent: int, channel: socket.socket, setup: dict[str, Any], maps: int) -> Never:
    """Run the program on one block, in a process of its own, and end."""
    try:
        _libc.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        # A fork whose parent died belongs to nobody and must see no rows.
        if os.getppid() != parent or channel.recv(1) != b"G":
            os._exit(0)
        _copy_memory(maps, lock=setup["lock_memory"], fresh=setup["fresh_memory"])
        channel.send(b"R")
        message, fds = _received(channel)
        (memory,) = struct.unpack("<q", message)
        rows = _confine(memory, fds, setup)
        os.write(_OUTPUT, _computed(setup, rows))
    except BaseException as error:  # noqa: BLE001 - whatever a program does, its process ends here
        _report(error, setup)
    os._exit(0)


class _Range(NamedTuple):
    """One stretch of memory as the kernel lists it."""

    start: int
    size: int
    protection: int
    is_shared: bool
    is_file: bool


def _ranges(maps: int) -> list[_Range]:
    """All memory of this process but what the kernel itself shows there (vDSO)."""
    os.lseek(maps, 0, os.SEEK_SET)
    text = b""
    while piece := os.read(maps, 1 << 16):
        text += piece
    ranges = []
    for line in text.decode(errors="replace").splitlines():
        ends, rights, _, _, inode, *name = line.split(None, 5)
        if name and name[0].startswith("[v"):
            continue
        start, end = (int(address, 16) for address in ends.split("-"))
        bits = zip(rights, (_READ, _WRITE, _EXECUTE), strict=False)
        protection = sum(bit for right, bit in bits if right != "-")
        ranges.append(_Range(start, end - start, protection, rights[3] == "s", inode != "0"))
    return ranges


def _leave_shared_memory(maps: int) -> None:
    """Replace files that are mapped shared by a copy; drop files mapped where nothing may be read.

    Both could be made readable later, and would show pages that other processes map too.
    """
    for stretch in _ranges(maps):
        start, size = ctypes.c_void_p(stretch.start), ctypes.c_size_t(stretch.size)
        if stretch.is_file and not stretch.protection:
            _checked(_libc.munmap(start, size))
        elif stretch.is_shared:
            if stretch.protection != _READ:
                raise PermissionError("memory is shared with others")
            room = _libc.mmap(None, size, _READ | _WRITE, _PRIVATE_ANONYMOUS, -1, ctypes.c_long(0))
            ctypes.memmove(room, stretch.start, stretch.size)
            _checked(_libc.mprotect(ctypes.c_void_p(room), size, _READ))
            moved = _libc.mremap(ctypes.c_void_p(room), size, size, _MOVE_TO_FIXED, start)
            if moved != stretch.start:
                raise PermissionError("memory is shared with others")


def _copy_memory(maps: int, *, lock: bool, fresh: bool) -> None:
    """Have a physical page of our own behind every page that we can see.

    A page of a library is otherwise that of the file, which all processes share: one can have it
    paged out, and another one sees by the time it takes that it was. After a write it is a copy
    that belongs to this process alone. Pages that a fork shares with its parent are copied alike.
    What is private and has no file cannot be paged out but by swapping, so where there is swap it
    is locked.
    """
    if not fresh:
        return
    _checked(_libc.prctl(_NO_HUGE_PAGES, 1, 0, 0, 0))
    _libc.prctl(_MERGE_EQUAL_PAGES, 0, 0, 0, 0)  # kernels before 6.4 merge none unasked
    for stretch in _ranges(maps):
        if not stretch.protection:
            continue
        start, size = ctypes.c_void_p(stretch.start), ctypes.c_size_t(stretch.size)
        if not stretch.protection & _WRITE:
            _checked(_libc.mprotect(start, size, stretch.protection | _WRITE))
        _checked(_libc.madvise(start, size, _POPULATE_WRITE))
        if not stretch.protection & _WRITE:
            _checked(_libc.mprotect(start, size, stretch.protection))
    if lock:
        _checked(_libc.mlockall(_LOCK_CURRENT))


def _confine(memory: int, fds: list[int], setup: dict[str, Any]) -> mmap.mmap | None:
    """Leave only the rows, the place of the record and, on rows about nobody, that of a report."""
    code = bytes.fromhex(setup["last_filter"])
    for fd, target in zip(map(_above, fds), (_INPUT, _OUTPUT, _REPORT), strict=False):
        os.dup2(fd, target)
    # Nothing else stays open: an inherited file would be a way to other blocks.
    os.closerange(_INPUT + len(fds), 1 << 16)
    size = os.fstat(_INPUT).st_size
    mapped = mmap.mmap(_INPUT, size, prot=mmap.PROT_READ) if size else None
    for limit, most in setup["limits"].items():
        resource.setrlimit(getattr(resource, limit), (most, most))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    sys.meta_path[:] = [_Unloaded]
    # Last, after everything that needs the calls that it forbids.
    _load(code)
    return mapped


def _above(fd: int) -> int:
    """The same file under a number that nothing is to be put at."""
    while fd <= _REPORT:
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


_FILE = "program.py"
"""Under which name a traceback has the program's lines."""


def _computed(setup: dict[str, Any], rows: mmap.mmap | None) -> bytes:
    """The record of one block: what the program's function gives for its rows."""
    source = setup["source"]
    program = ModuleType("program")
    exec(compile(source, _FILE, "exec", dont_inherit=True), program.__dict__)  # noqa: S102 - what all this is for
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


def _numbers(value: Any) -> Any:
    """The numbers in a number, a sequence or an array of them, in order."""
    for plain in ("tolist", "to_pylist", "as_py"):
        if hasattr(value, plain):
            value = getattr(value, plain)()
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _numbers(item)
    elif hasattr(value, "__float__") or hasattr(value, "__index__"):
        yield float(value)
    else:
        raise TypeError(f"a number was expected, and {type(value).__name__} was given")


def _report(error: BaseException, setup: dict[str, Any]) -> None:
    """Write which built-in exception ended the program, and in which of its lines.

    Never a text: the program could put into it what it felt of the machine. On real rows the file
    of the report is not there.
    """
    try:
        name = type(error).__name__
        known = name if getattr(builtins, name, None) is type(error) else "Exception"
        line, inner = 0, error.__traceback__
        while inner:
            if inner.tb_frame.f_code.co_filename == _FILE:
                line = inner.tb_lineno
            inner = inner.tb_next
        if isinstance(error, SyntaxError) and not line:
            line = error.lineno or 0
        os.write(_REPORT, struct.pack("<HI", setup["errors"].index(known), line))
    except BaseException:  # noqa: BLE001 - it may have spoilt even this, and has failed anyway
        return


def _drop_capabilities() -> None:
    """Give up all that root may do beyond others, also for what would be started."""
    for capability in range(_LAST_CAPABILITY + 1):
        _libc.prctl(_DROP_BOUND, capability, 0, 0, 0)
    head = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    _checked(_libc.capset(head, (ctypes.c_uint32 * 6)()))


def _restrict(rights: dict[str, Any]) -> None:
    """Landlock: no file but those beneath some paths, to be read; no port; nobody outside."""
    handled = struct.pack("=QQQ", rights["files"], rights["ports"], rights["scopes"])
    size = len(handled) if rights["scopes"] else 16
    ruleset = _checked(_libc.syscall(_CREATE_RULESET, handled, ctypes.c_size_t(size), 0))
    for path, access in rights["paths"]:
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
