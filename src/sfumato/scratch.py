"""Scratch folders: for their owner's eyes alone, and gone when their process is.

A process that is killed cannot clean up after itself. Its folder is locked as long as it lives, by
the kernel and not by a number that another process may get later; so whoever comes next in the same
place can tell what is dead, and removes it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

MARK = ".sfumato-scratch"
"""How the name of every scratch folder ends."""

_LONGEST_PREFIX = 100
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


def sweep(parent: Path) -> None:
    """Remove, once in a process, what dead processes of this user left in a folder."""
    here = (os.getpid(), os.path.realpath(parent))
    if here in _swept:
        return
    _swept.add(here)
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.endswith(MARK):
                _remove_dead(Path(entry.path))


def _made(parent: Path, prefix: str) -> tuple[Path, int]:
    """A new folder and the handle that locks it."""
    while True:
        # Named before it is made: an interruption may come right after, and finds it then.
        path = parent / f"{prefix[:_LONGEST_PREFIX]}{token_hex(8)}{MARK}"
        try:
            path.mkdir(mode=0o700)
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            with suppress(OSError):  # a file system without locks, on which nobody sweeps either
                fcntl.flock(handle, fcntl.LOCK_EX)
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


def _remove(path: Path, handle: int, process: int) -> None:
    """Remove one's own folder; a forked child only lets go of its parent's."""
    try:
        if os.getpid() == process:
            shutil.rmtree(path, ignore_errors=True)
    except BaseException:  # an interruption must not leave half of it
        shutil.rmtree(path, ignore_errors=True)
        raise
    finally:
        os.close(handle)


def _remove_dead(path: Path) -> None:
    """Remove a folder of this user that no living process holds."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if os.fstat(handle).st_uid == os.geteuid():
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    except OSError:  # it is alive, or nobody can tell
        return
    finally:
        os.close(handle)
