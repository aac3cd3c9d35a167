"""Atomic writes, scratch folders, and locks between processes.

A scratch folder is readable by its owner only, and removed when its process ends. A killed process
cannot clean up. So its folder stays locked while the process lives: by a kernel lock, because a
process number may be reused. The next process that writes to the same directory sees which folders
are unlocked, and removes them. Where several files must appear together, a journal in the folder
lists them: if the write did not reach the last file, all of them are undone.

Decision `writing-releases`.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import tempfile
import time
import weakref
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from glob import glob
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from sfumato.errors import InternalError, OutputError, SfumatoError, option
from sfumato.platform_support import NO_LINKS, NOT_INHERITED, ONLY_FOLDERS, is_ours, locks
from sfumato.write_journal import JOURNAL, read_journal, undo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

LARGE_ANSWERS = ".large"
"""The suffix of the folder of large answers, after the name of a SQLite ledger."""
MARK = ".sfumato-scratch"
"""The suffix of the name of every scratch folder."""

_LONGEST_PREFIX_BYTES = 100
released: list[Path] = []
"""The releases that this command has put in place; an interruption does not undo them."""

_swept: set[tuple[int, str]] = set()


class Scratch:
    """A folder of one process, removed when it is closed or when its process exits normally."""

    def __init__(self, parent: Path, prefix: str) -> None:
        sweep(parent)
        self.path, handle = _make_locked_folder(parent, prefix)
        self._remove = weakref.finalize(self, _remove, self.path, handle, os.getpid())

    def close(self) -> None:
        """Remove the folder with its content."""
        self._remove()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def temporary_folder() -> Path:
    """The system's directory for temporary files."""
    return Path(tempfile.gettempdir())


def sweep(parent: Path, *, again: bool = False) -> None:
    """Remove scratch folders that dead processes of this user left; once per process and folder."""
    key = (os.getpid(), os.path.realpath(parent))
    if key in _swept and not again:
        return
    _swept.add(key)
    for path in _scratch_folders(parent) if locks else ():
        _remove_dead(path)


def _scratch_folders(parent: Path) -> list[Path]:
    with suppress(OSError):
        return [path for path in parent.iterdir() if path.name.endswith(MARK)]
    return []


def _make_locked_folder(parent: Path, prefix: str) -> tuple[Path, int | None]:
    """Create a scratch folder and lock it; the handle is None on a system without locks."""
    start = prefix.encode(errors="ignore")[:_LONGEST_PREFIX_BYTES].decode(errors="ignore")
    while True:
        # The name is bound before the folder exists, so that an interruption in between removes it.
        path = parent / f"{start}{token_hex(8)}{MARK}"
        try:
            path.mkdir(mode=0o700)
            if locks is None:
                return path, None
            handle = os.open(path, os.O_RDONLY | ONLY_FOLDERS | NOT_INHERITED)
            with suppress(OSError):  # a file system without locks: nothing is swept there either
                locks.flock(handle, locks.LOCK_EX)
            if path.exists():  # another process may have swept it before it was locked
                return path, handle
            os.close(handle)
        except FileExistsError:  # another process took the name
            continue
        except FileNotFoundError:  # it was swept before it was opened: try again
            if not parent.is_dir():
                raise
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise


def _remove(path: Path, handle: int | None, process: int) -> None:
    """Remove this process's folder; a forked child only closes its copy of the handle."""
    try:
        if os.getpid() == process:
            shutil.rmtree(path, ignore_errors=True)
    except BaseException:  # an interruption must not leave a part of it
        shutil.rmtree(path, ignore_errors=True)
        raise
    finally:
        if handle is not None:
            os.close(handle)


def _remove_dead(path: Path) -> None:
    """Remove a folder of this user that no living process holds."""
    try:
        handle = os.open(path, os.O_RDONLY | ONLY_FOLDERS | NO_LINKS | NOT_INHERITED)
    except OSError:
        return
    try:
        if is_ours(os.fstat(handle)):
            locks.flock(handle, locks.LOCK_EX | locks.LOCK_NB)
            journal = read_journal(path)
            if journal is not None and not journal.last.stands():
                undo(path, journal.entries)
            elif journal is not None:  # the write is complete: its journal must not be undone later
                (path / JOURNAL).unlink()
            elif _is_open_to_others(handle) and os.path.lexists(path / JOURNAL):
                return  # another user may have planted the journal
            shutil.rmtree(path, ignore_errors=True)
    except OSError:  # its process is alive, or its state is unknown
        return
    finally:
        os.close(handle)


def _is_open_to_others(handle: int) -> bool:
    return bool(os.fstat(handle).st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def unfinished(path: Path) -> bool:
    """Whether a file, or a file in a folder, was put in place by a write that is not complete."""
    real = Path(os.path.realpath(path))
    for folder in (real.parent, real):
        for scratch in _scratch_folders(folder):
            journal = read_journal(scratch)
            if journal is None or journal.last.stands():
                continue
            if any(real in (folder, folder / entry.final) for entry in journal.entries):
                return True
    return False


LEAST_ROOM = 1 << 20
"""Bytes that must be free on a disk before budget is spent on an output to it."""

_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}


@contextmanager
def whole(path: Path, *, overwrite: bool = False, private: bool = False) -> Iterator[Path]:
    """Write a file atomically: yield a temporary path that is moved into place at the end.

    On any failure, including an interruption, nothing is left behind and an old file is unchanged.
    The temporary file is readable by its owner only, and so is the final one if `private`.

    Parameters
    ----------
    path : Path
        The target. Symbolic links are followed.
    overwrite : bool
        Whether an existing file may be replaced.
    private : bool
        Whether only the owner may read the result.

    Yields
    ------
    Path
        An empty file on the same file system. At the end it is synced and renamed.

    Raises
    ------
    OutputError
        If the target exists and `overwrite` is false, or it cannot be written.
    InternalError
        If the disk is full.
    """
    check_target(path, overwrite=overwrite)
    final = Path(os.path.realpath(path))
    try:
        scratch = Scratch(final.parent, f".{final.name}.")
    except OSError as error:
        raise unwritable(path, error) from None
    try:
        temporary = scratch.path / "whole"
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOT_INHERITED, 0o600))
        yield temporary
        temporary.chmod(0o600 if private else 0o666 & ~umask())
        sync(temporary)
        settle(temporary, final, overwrite=overwrite)
        sync(final.parent)
    except OSError as error:
        raise unwritable(path, error) from None
    finally:
        scratch.close()


def check_target(path: Path, *, overwrite: bool = False, kept: Iterable[Path] = ()) -> None:
    """Refuse a target early, before any work is done; `kept` files are never replaced."""
    final = Path(os.path.realpath(path))
    if not overwrite and os.path.lexists(final):
        sweep(final.parent, again=True)  # it may belong to an incomplete write of a dead process
    try:
        exists, regular, room = os.path.lexists(final), final.is_file(), final.parent.is_dir()
    except OSError as error:  # a name that is too long to ask about
        raise unwritable(path, error) from None
    if exists and not regular:
        raise OutputError(
            "output_unwritable",
            f"Cannot write '{path}': it is not a regular file. Choose another name.",
        )
    if exists and not overwrite:
        raise _target_exists(path)
    if not room:
        raise OutputError(
            "output_unwritable",
            f"Cannot write '{path}': there is no directory '{path.parent}'. Create it first.",
        )
    check_apart(path, kept)
    check_room(path, final.parent)


def check_room(path: Path, folder: Path) -> None:
    """Refuse a folder that is not writable, or whose disk is almost full."""
    usage = shutil.disk_usage(folder)
    if not os.access(folder, os.W_OK | os.X_OK) or usage.total == 0:  # /proc is no disk at all
        raise OutputError(
            "output_unwritable",
            f"Cannot write '{path}': nothing may be written to '{folder}'. Choose another place.",
        )
    if usage.free < LEAST_ROOM:
        raise _disk_full(path)


def check_apart(
    path: Path, kept: Iterable[Path], *, with_all_in_it: bool = False, folder: bool = False
) -> None:
    """Refuse a target that is a file in use, under any name, whether or not it may be overwritten.

    Nothing in a folder in use is replaced. No file is added that a folder or a pattern in use would
    also read: a Parquet file, or a `folder` of them. A folder that is replaced `with_all_in_it`
    must not hold a file in use either.
    """
    final = Path(os.path.realpath(path))
    folder = folder or with_all_in_it
    table = folder or final.exists() or final.suffix.lower() == ".parquet"
    for used in kept:
        real = Path(os.path.realpath(used))
        inside = table and real in final.parents and real.is_dir()
        around = with_all_in_it and final in real.parents
        matching = _reads_target(used, final, folder=folder)
        if final == real or _is_same_file(final, real) or inside or around or matching:
            raise OutputError(
                "file_in_use",
                f"Cannot write '{path}': '{used}' is in use and would be lost or changed, which "
                f"{option('overwrite', True)} does not allow. Choose another name.",
            )


def _reads_target(pattern: Path, final: Path, *, folder: bool) -> bool:
    """Whether a pattern matches the target, or a file that a target folder may contain."""
    if os.path.lexists(pattern):  # an existing path is a name, not a pattern
        return False
    if _matches(pattern, final):
        return True
    above = pattern.parent
    deeper = above.name == "**" and final.parent in _folders(above)
    return folder and (deeper or _matches(above, final))


def _matches(pattern: Path, final: Path) -> bool:
    return fnmatchcase(final.name, pattern.name) and final.parent in _folders(pattern.parent)


def _folders(pattern: Path) -> set[Path]:
    """The real paths of the folders that match a pattern."""
    paths = glob(str(pattern), recursive=True)  # noqa: PTH207  as it is read
    return {Path(os.path.realpath(path)) for path in paths}


def _is_same_file(first: Path, second: Path) -> bool:
    """Whether two paths are one file, also by a hard link."""
    try:
        return first.samefile(second)
    except OSError:
        return False


def write_text(path: Path, text: str, *, overwrite: bool = False, private: bool = False) -> None:
    """Write a text file atomically."""
    with whole(path, overwrite=overwrite, private=private) as temporary:
        temporary.write_text(text, encoding="utf-8")


def settle(temporary: Path, path: Path, *, overwrite: bool) -> None:
    """Rename into place; without `overwrite`, a file that appeared meanwhile is not replaced."""
    if not overwrite:
        # link fails if the target exists; rename would replace it silently.
        with suppress(PermissionError, NotADirectoryError):
            os.link(temporary, path)
            return
    temporary.replace(path)


def sync(path: Path) -> None:
    """Sync a file, or the names in a folder, to the disk."""
    if locks is None and path.is_dir():  # Windows cannot open a folder
        return
    descriptor = os.open(path, os.O_RDWR if locks is None else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def mount_point(written: str) -> Path:
    """A path from a list of mounts of the kernel, which writes a space in octal."""
    return Path(re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), written))


def umask() -> int:
    """The process's umask, the permissions removed from new files. It can only be read by setting
    it, so it is set to the strictest value for that moment."""
    current = os.umask(0o077)
    os.umask(current)
    return current


def _target_exists(path: Path) -> OutputError:
    return OutputError(
        "output_exists",
        f"Cannot write '{path}': it exists. Choose another name or pass "
        f"{option('overwrite', True)}.",
    )


def unwritable(path: Path, error: OSError) -> SfumatoError:
    """The error for a failed write to a path, with the system's reason."""
    if error.errno in _FULL:
        return _disk_full(path)
    if error.errno == errno.EEXIST:
        return _target_exists(path)
    reason = os.strerror(error.errno) if error.errno else "the system refused"
    return OutputError("output_unwritable", f"Cannot write '{path}': {reason}.")


def _disk_full(path: Path) -> InternalError:
    return InternalError(
        "disk_full", f"Cannot write '{path}': the disk is full. Free some space and try again."
    )


PATIENCE_SECONDS = 30.0
"""The usual time to wait for the lock of another process."""

_LOCKS = Path("/proc/locks")
_LONGEST_PAUSE = 0.008


def acquire_lock(handle: int, *, seconds: float) -> bool:
    """Lock an open file against other processes; return whether it was possible in time."""
    deadline = time.monotonic() + seconds
    pause = 0.0005
    while True:
        try:
            locks.flock(handle, locks.LOCK_EX | locks.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
        else:
            return True
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def release_lock(handle: int) -> None:
    """Release the lock of an open file."""
    locks.flock(handle, locks.LOCK_UN)


def lock_holder(handle: int) -> str:
    """Describe the process that holds the lock of an open file, as far as the system tells."""
    status = os.fstat(handle)
    device, node = status.st_dev, str(status.st_ino)
    lock_id = (f"{os.major(device):02x}:{os.minor(device):02x}", node)
    with suppress(OSError):
        for line in _LOCKS.read_text(encoding="ascii", errors="replace").splitlines():
            fields = line.split()
            if len(fields) < 6 or fields[1] != "FLOCK":
                continue
            *device_numbers, inode = fields[5].split(":")
            if (":".join(device_numbers), inode) == lock_id and int(fields[4]) > 0:
                return f"process {fields[4]}{_process_name(fields[4])}"
    return "another process"


def _process_name(process: str) -> str:
    with suppress(OSError):
        name = Path("/proc", process, "comm").read_text(encoding="utf-8", errors="replace").strip()
        return f" ({name})" if name.isprintable() else ""
    return ""
