"""Writing files whole or not at all."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import InternalError, OutputError, SfumatoError
from sfumato.scratch import Scratch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LEAST_ROOM = 1 << 20
"""Bytes that must be free on a disk before anything is spent on what is to be written to it."""

_FULL = {errno.ENOSPC, errno.EDQUOT}


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
        raise _unwritable(path, error) from None
    try:
        temporary = scratch.path / "whole"
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        yield temporary
        temporary.chmod(0o600 if private else 0o666 & ~_umask())
        _sync(temporary)
        _settle(temporary, final, overwrite=overwrite)
        _sync(final.parent)
    except OSError as error:
        raise _unwritable(path, error) from None
    finally:
        scratch.close()


def check_target(path: Path, *, overwrite: bool = False, kept: Iterable[Path] = ()) -> None:
    """Refuse a target early, before any work is done for it; what is `kept` is never replaced."""
    final = Path(os.path.realpath(path))
    try:
        exists, regular, room = os.path.lexists(final), final.is_file(), final.parent.is_dir()
    except OSError as error:  # a name that is too long to ask about
        raise _unwritable(path, error) from None
    if exists and not regular:
        raise OutputError(
            "output_not_a_file",
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
    disk = os.statvfs(folder)
    if not os.access(folder, os.W_OK | os.X_OK) or disk.f_blocks == 0:  # /proc is no disk at all
        raise OutputError(
            "output_unwritable",
            f"Cannot write '{path}': nothing may be written to '{folder}'. Choose another place.",
        )
    if disk.f_bavail * disk.f_frsize < LEAST_ROOM:
        raise _full(path)


def check_apart(path: Path, kept: Iterable[Path], *, with_all_in_it: bool = False) -> None:
    """Refuse a target that is a file in use, by whatever name, asked to overwrite or not.

    In a folder that is in use nothing is replaced, and no Parquet file added, which would be read
    with it. A target that is replaced with all in it may hold no file in use either.
    """
    final = Path(os.path.realpath(path))
    for one in kept:
        real = Path(os.path.realpath(one))
        inside = real in final.parents and (final.exists() or final.suffix.lower() == ".parquet")
        around = with_all_in_it and final in real.parents
        if final == real or _same(final, real) or (inside and real.is_dir()) or around:
            raise OutputError(
                "output_in_use",
                f"Cannot write '{path}': '{one}' is in use and would be lost or changed, which "
                "--overwrite does not allow. Choose another name.",
            )


def _same(one: Path, other: Path) -> bool:
    """Whether two names lead to one file, which a hard link does too."""
    try:
        return one.samefile(other)
    except OSError:
        return False


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


def _exists(path: Path) -> OutputError:
    return OutputError(
        "output_exists",
        f"Cannot write '{path}': it exists. Choose another name or pass --overwrite.",
    )


def _unwritable(path: Path, error: OSError) -> SfumatoError:
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
