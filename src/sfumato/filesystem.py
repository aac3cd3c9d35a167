"""Files of ours: written whole or not at all, scratch folders, and locks between processes.

A scratch folder is for its owner's eyes alone, and gone when its process is. A process that is
killed cannot clean up after itself. Its folder is locked as long as it lives, by the kernel and not
by a number that another process may get later; so whoever comes next in the same place can tell
what is dead, and removes it. Where several files are to appear together, a journal in the folder
says which: of a writing that did not get to the last of them, all is taken back.

Decision `writing-releases`.
"""

from __future__ import annotations

import errno
import os
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
"""How the folder of large answers is named, behind the name of a ledger in SQLite."""
MARK = ".sfumato-scratch"
"""How the name of every scratch folder ends."""

_LONGEST_PREFIX_BYTES = 100
released: list[Path] = []
"""The releases that this command has put in their places, which an interruption does not undo."""

_swept: set[tuple[int, str]] = set()


class Scratch:
    """A folder of one process, removed when it is closed or its process ends in good order."""

    def __init__(self, parent: Path, prefix: str) -> None:
        sweep(parent)
        self.path, handle = _made(parent, prefix)
        self._remove = weakref.finalize(self, _remove, self.path, handle, os.getpid())

    def close(self) -> None:
        """Remove the folder and all that is in it."""
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
    """Where scratch goes that belongs beside nothing."""
    return Path(tempfile.gettempdir())


def sweep(parent: Path, *, again: bool = False) -> None:
    """Remove, once in a process, what dead processes of this user left in a folder."""
    here = (os.getpid(), os.path.realpath(parent))
    if here in _swept and not again:
        return
    _swept.add(here)
    for path in _scratches(parent) if locks else ():
        _remove_dead(path)


def _scratches(parent: Path) -> list[Path]:
    with suppress(OSError):
        return [one for one in parent.iterdir() if one.name.endswith(MARK)]
    return []


def _made(parent: Path, prefix: str) -> tuple[Path, int | None]:
    """A new folder and the handle that locks it, where there are locks."""
    start = prefix.encode(errors="ignore")[:_LONGEST_PREFIX_BYTES].decode(errors="ignore")
    while True:
        # Named before it is made: an interruption may come right after, and finds it then.
        path = parent / f"{start}{token_hex(8)}{MARK}"
        try:
            path.mkdir(mode=0o700)
            if locks is None:
                return path, None
            handle = os.open(path, os.O_RDONLY | ONLY_FOLDERS | NOT_INHERITED)
            with suppress(OSError):  # a file system without locks, on which nobody sweeps either
                locks.flock(handle, locks.LOCK_EX)
            if path.exists():  # the name, not what a handle still holds
                return path, handle
            os.close(handle)
        except FileExistsError:  # somebody else's, which is left alone
            continue
        except FileNotFoundError:  # somebody swept it before it was locked: once more
            if not parent.is_dir():
                raise
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise


def _remove(path: Path, handle: int | None, process: int) -> None:
    """Remove one's own folder; a forked child only lets go of its parent's."""
    try:
        if os.getpid() == process:
            shutil.rmtree(path, ignore_errors=True)
    except BaseException:  # an interruption must not leave half of it
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
            elif journal is not None:  # it is never judged again
                (path / JOURNAL).unlink()
            elif _is_open_to_others(handle) and os.path.lexists(path / JOURNAL):
                return  # nobody can tell whose journal it is
            shutil.rmtree(path, ignore_errors=True)
    except OSError:  # it is alive, or nobody can tell
        return
    finally:
        os.close(handle)


def _is_open_to_others(handle: int) -> bool:
    return bool(os.fstat(handle).st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def unfinished(path: Path) -> bool:
    """Whether a file, or one in a folder, was put in place by a writing that has not ended."""
    real = Path(os.path.realpath(path))
    for folder in (real.parent, real):
        for scratch in _scratches(folder):
            journal = read_journal(scratch)
            if journal is None or journal.last.stands():
                continue
            if any(real in (folder, folder / entry.final) for entry in journal.entries):
                return True
    return False


LEAST_ROOM = 1 << 20
"""Bytes that must be free on a disk before anything is spent on what is to be written to it."""

_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}


@contextmanager
def whole(path: Path, *, overwrite: bool = False, private: bool = False) -> Iterator[Path]:
    """Give a path to write to; at the end what is there takes its place, synced to disk.

    On any failure, an interruption included, nothing is left behind and an old file stays whole.
    Until it is complete nobody else can read it, and one that is `private` not afterwards either.
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
    """Refuse a target early, before any work is done for it; what is `kept` is never replaced."""
    final = Path(os.path.realpath(path))
    if not overwrite and os.path.lexists(final):
        sweep(final.parent, again=True)  # it may be half of what somebody dead was writing
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
        raise _exists(path)
    if not room:
        raise OutputError(
            "output_unwritable",
            f"Cannot write '{path}': there is no directory '{path.parent}'. Create it first.",
        )
    check_apart(path, kept)
    check_room(path, final.parent)


def check_room(path: Path, folder: Path) -> None:
    """Refuse a folder in which nothing can be made, or whose disk is all but full."""
    usage = shutil.disk_usage(folder)
    if not os.access(folder, os.W_OK | os.X_OK) or usage.total == 0:  # /proc is no disk at all
        raise OutputError(
            "output_unwritable",
            f"Cannot write '{path}': nothing may be written to '{folder}'. Choose another place.",
        )
    if usage.free < LEAST_ROOM:
        raise _full(path)


def check_apart(
    path: Path, kept: Iterable[Path], *, with_all_in_it: bool = False, folder: bool = False
) -> None:
    """Refuse a target that is a file in use, by whatever name, asked to overwrite or not.

    In a folder that is in use nothing is replaced. Nothing is added that it or a pattern in use
    would read too: a Parquet file, or a `folder` of them. A folder that is replaced
    `with_all_in_it` may hold no file in use either.
    """
    final = Path(os.path.realpath(path))
    folder = folder or with_all_in_it
    table = folder or final.exists() or final.suffix.lower() == ".parquet"
    for one in kept:
        real = Path(os.path.realpath(one))
        inside = table and real in final.parents and real.is_dir()
        around = with_all_in_it and final in real.parents
        matching = _would_read(one, final, folder=folder)
        if final == real or _same(final, real) or inside or around or matching:
            raise OutputError(
                "output_busy",
                f"Cannot write '{path}': '{one}' is in use and would be lost or changed, which "
                f"{option('overwrite', True)} does not allow. Choose another name.",
            )


def _would_read(pattern: Path, final: Path, *, folder: bool) -> bool:
    """Whether a pattern stands for a file, or for one that a folder may come to hold."""
    if os.path.lexists(pattern):  # what there is stands for itself
        return False
    if _matches(pattern, final):
        return True
    above = pattern.parent
    deeper = above.name == "**" and final.parent in _folders(above)
    return folder and (deeper or _matches(above, final))


def _matches(pattern: Path, final: Path) -> bool:
    return fnmatchcase(final.name, pattern.name) and final.parent in _folders(pattern.parent)


def _folders(pattern: Path) -> set[Path]:
    """The folders that a pattern stands for, behind any links."""
    found = glob(str(pattern), recursive=True)  # noqa: PTH207  as it is read
    return {Path(os.path.realpath(one)) for one in found}


def _same(one: Path, other: Path) -> bool:
    """Whether two names lead to one file, which a hard link does too."""
    try:
        return one.samefile(other)
    except OSError:
        return False


def write_text(path: Path, text: str, *, overwrite: bool = False, private: bool = False) -> None:
    """Write a text file whole or not at all."""
    with whole(path, overwrite=overwrite, private=private) as temporary:
        temporary.write_text(text, encoding="utf-8")


def settle(temporary: Path, path: Path, *, overwrite: bool) -> None:
    """Rename into place; a file that appeared meanwhile is not overwritten unasked."""
    if not overwrite:
        with suppress(PermissionError, NotADirectoryError):
            os.link(temporary, path)
            return
    temporary.replace(path)


def sync(path: Path) -> None:
    """Have a file, or the names in a folder, on the disk."""
    if locks is None and path.is_dir():  # such a system opens no folder
        return
    descriptor = os.open(path, os.O_RDWR if locks is None else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def umask() -> int:
    """What is kept from others in the modes of new files."""
    current = os.umask(0o077)
    os.umask(current)
    return current


def _exists(path: Path) -> OutputError:
    return OutputError(
        "output_exists",
        f"Cannot write '{path}': it exists. Choose another name or pass "
        f"{option('overwrite', True)}.",
    )


def unwritable(path: Path, error: OSError) -> SfumatoError:
    """What the system said about writing to a path, in our words."""
    if error.errno in _FULL:
        return _full(path)
    if error.errno == errno.EEXIST:
        return _exists(path)
    reason = os.strerror(error.errno) if error.errno else "the system refused"
    return OutputError("output_unwritable", f"Cannot write '{path}': {reason}.")


def _full(path: Path) -> InternalError:
    return InternalError(
        "disk_full", f"Cannot write '{path}': the disk is full. Free some space and try again."
    )


PATIENCE_SECONDS = 30.0
"""How long to wait for somebody else's lock."""

_LOCKS = Path("/proc/locks")
_LONGEST_PAUSE = 0.008


def acquire_lock(handle: int, *, seconds: float) -> bool:
    """Lock an open file against all other processes; say whether that was possible in time."""
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
    """Let others have the lock."""
    locks.flock(handle, locks.LOCK_UN)


def lock_holder(handle: int) -> str:
    """Who holds the lock of an open file, in words, as far as the system tells."""
    status = os.fstat(handle)
    device, node = status.st_dev, str(status.st_ino)
    wanted = (f"{os.major(device):02x}:{os.minor(device):02x}", node)
    with suppress(OSError):
        for line in _LOCKS.read_text(encoding="ascii", errors="replace").splitlines():
            words = line.split()
            if len(words) < 6 or words[1] != "FLOCK":
                continue
            *found, inode = words[5].split(":")
            if (":".join(found), inode) == wanted and int(words[4]) > 0:
                return f"process {words[4]}{_name(words[4])}"
    return "another process"


def _name(process: str) -> str:
    with suppress(OSError):
        name = Path("/proc", process, "comm").read_text(encoding="utf-8", errors="replace").strip()
        return f" ({name})" if name.isprintable() else ""
    return ""
