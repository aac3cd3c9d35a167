"""Regular files: whether a path is one, and whether it is still the same file later."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from sfumato.errors import SourceError
from sfumato.platform_support import BYTES_AS_THEY_ARE, NO_WAITING, NOT_INHERITED

# What a path is that is no regular file; reading one of these could block or never end.
_OTHER_SORTS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


@dataclass(frozen=True)
class Version:
    """The state of a file as the file system knows it, without reading the content."""

    device: int
    node: int
    size: int
    modified: int
    changed: int
    """The change time in nanoseconds; unlike the modification time, users cannot set it."""


@dataclass(frozen=True)
class RegularFile:
    """A readable regular file behind any symbolic links, as it was when first seen."""

    name: str
    """The path as the caller wrote it, for messages."""
    path: Path
    version: Version

    @property
    def pattern(self) -> str:
        """The path as an escaped pattern, for readers that take patterns.

        A backslash separates folders in a pattern and cannot be escaped.
        """
        if "\\" in str(self.path) and re.search(r"[*?\[]", str(self.path)):
            raise SourceError(
                "file_unreadable",
                f"Cannot read {self.name!r}: its path has both a backslash and one of * ? [, "
                "which DuckDB cannot be told apart from a pattern.",
                hint="Rename the file or its folder.",
            )
        return re.sub(r"([*?\[])", r"[\1]", str(self.path))

    def open(self) -> BinaryIO:
        """Open the file for reading."""
        return os.fdopen(_descriptor(self.name, self.path)[0], "rb")

    def check_unchanged(self) -> None:
        """Refuse a file that changed or vanished since it was first seen."""
        try:
            current = _version(self.path.stat())
        except OSError:
            current = None
        if current != self.version:
            raise SourceError(
                "source_changed",
                f"{self.name!r} was changed or removed while it was being read. "
                "Start again when nothing writes to it.",
            )


def regular_file(path: Path | str) -> RegularFile:
    """Return the regular file at a path, symbolic links resolved; refuse anything else."""
    name = str(path)
    try:
        real = Path(path).resolve()
    except (OSError, RuntimeError, ValueError):
        raise _refusal(name, "source_missing", "is not a usable path") from None
    descriptor, version = _descriptor(name, real)
    os.close(descriptor)
    return RegularFile(name, real, version)


def _descriptor(name: str, path: Path) -> tuple[int, Version]:
    """Open a file without blocking: opening a named pipe would wait for a writer."""
    try:
        descriptor = os.open(path, os.O_RDONLY | NO_WAITING | NOT_INHERITED | BYTES_AS_THEY_ARE)
    except (FileNotFoundError, NotADirectoryError):
        raise _refusal(name, "source_missing", "does not exist") from None
    except PermissionError:
        raise _refusal(name, "file_unreadable", "may not be read by this user") from None
    except (OSError, ValueError):
        raise _refusal(name, "file_unreadable", "cannot be opened") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        sort = _OTHER_SORTS.get(stat.S_IFMT(status.st_mode), "not a regular file")
        raise _refusal(name, "file_unreadable", f"is {sort}")
    return descriptor, _version(status)


def _refusal(name: str, code: str, reason: str) -> SourceError:
    return SourceError(
        code, f"Cannot read {name!r}: it {reason}. Name a CSV or Parquet file that can be read."
    )


def _version(status: os.stat_result) -> Version:
    return Version(
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    )
