"""Writing files whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import InternalError, OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def whole(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Give a path beside `path` to write to; at the end it takes its place, synced to disk.

    On any failure, an interruption included, nothing is left behind and an old file stays whole.
    """
    check_target(path, overwrite=overwrite)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)
    except OSError as error:
        raise _unwritable(path, error) from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        _sync(temporary)
        _settle(temporary, path, overwrite=overwrite)
        _sync(path.parent)
    except OSError as error:
        raise _unwritable(path, error) from None
    finally:
        temporary.unlink(missing_ok=True)


def check_target(path: Path, *, overwrite: bool = False) -> None:
    """Refuse a target early, before any work is done for it."""
    if path.is_dir():
        raise OutputError("output_is_directory", f"Cannot write '{path}': it is a directory.")
    if path.exists() and not overwrite:
        raise OutputError(
            "output_exists",
            f"Cannot write '{path}': it exists. Choose another name or pass --overwrite.",
        )
    if not path.parent.is_dir():
        raise OutputError(
            "output_unwritable",
            f"Cannot write '{path}': there is no directory '{path.parent}'. Create it first.",
        )


def write_text(path: Path, text: str, *, overwrite: bool = False) -> None:
    """Write a text file whole or not at all."""
    with whole(path, overwrite=overwrite) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _settle(temporary: Path, path: Path, *, overwrite: bool) -> None:
    """Rename into place; a file that appeared meanwhile is not overwritten unasked."""
    if not overwrite:
        with suppress(PermissionError, NotADirectoryError):
            os.link(temporary, path)
            return
    temporary.replace(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current


def _unwritable(path: Path, error: OSError) -> InternalError | OutputError:
    if error.errno in _FULL:
        return InternalError("disk_full", f"Cannot write '{path}': the disk is full.")
    if error.errno == errno.EEXIST:
        return OutputError(
            "output_exists",
            f"Cannot write '{path}': it exists. Choose another name or pass --overwrite.",
        )
    reason = os.strerror(error.errno) if error.errno else "the system refused"
    return OutputError("output_unwritable", f"Cannot write '{path}': {reason}.")
