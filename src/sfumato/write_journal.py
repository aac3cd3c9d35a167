"""The journal of a write of several files: which files to undo if the write did not complete.

The journal is in the scratch folder of the write. It refers only to entries of that folder and of
its parent, by bare names, so that a planted journal cannot change files elsewhere. A journal is
used only if it has exactly this form, belongs to this user and is writable by nobody else.

Decision `writing-releases`.
"""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sfumato.platform_support import NO_LINKS, NO_WAITING, NOT_INHERITED, ONLY_FOLDERS, is_ours
from sfumato.text import dumps

if TYPE_CHECKING:
    from collections.abc import Sequence

JOURNAL = "journal.json"
"""The name of a journal in its scratch folder."""

_LONGEST = 1 << 20  # a planted file of a gigabyte must not fill the memory
_NUMBER = re.compile(r"[0-9]{1,9}")
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_FOLDER = os.O_RDONLY | ONLY_FOLDERS | NO_LINKS | NOT_INHERITED
# A planted link is not followed, and a planted pipe does not block.
_FILE = os.O_RDONLY | NO_LINKS | NO_WAITING | NOT_INHERITED

Mark = tuple[int, ...]
"""The identity of an unchanged file (device, inode, size, time) or folder (device, inode)."""


class JournalEntry(NamedTuple):
    """One of several files or folders that appear together.

    `final` is its name in the parent of the scratch folder. `waiting` is the number of the folder
    within the scratch folder where it waits. The file that it replaces is kept next to that folder.
    """

    final: str
    waiting: str
    mark: Mark

    @property
    def old(self) -> str:
        """The name of the replaced file in the scratch folder."""
        return f"{self.waiting}.old"


class LastFile(NamedTuple):
    """The absolute path of the last file of the write, and of the folder where it waits."""

    final: str
    waiting: str
    mark: Mark

    def stands(self) -> bool:
        """Whether it has appeared, which completes the write: it is in place or no longer waits."""
        if mark_of(Path(self.final)) == self.mark:
            return True
        folder = Path(self.waiting)
        try:
            if not stat.S_ISDIR(folder.lstat().st_mode):
                return False
            statuses = [entry.lstat() for entry in folder.iterdir()]
        except OSError:
            return False
        # A file that was linked into place has two names; a folder is moved, not linked.
        return all(not stat.S_ISDIR(status.st_mode) and status.st_nlink > 1 for status in statuses)


class Journal(NamedTuple):
    """The files of a write in one folder, and the last file, which tells whether it completed."""

    entries: tuple[JournalEntry, ...]
    last: LastFile


def mark_of(path: Path) -> Mark | None:
    """The identity of a file or folder; None if there is none."""
    try:
        status = path.lstat()
    except OSError:
        return None
    if stat.S_ISDIR(status.st_mode):
        return status.st_dev, status.st_ino
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def write_journal(scratch: Path, journal: Journal) -> None:
    """Write and sync the journal of a scratch folder, before the first file appears."""
    with (scratch / JOURNAL).open("w", encoding="utf-8") as stream:
        stream.write(dumps({"entries": list(journal.entries), "last": journal.last}))
        stream.flush()
        os.fsync(stream.fileno())


def read_journal(scratch: Path) -> Journal | None:
    """The journal of a scratch folder; None if there is none that can be trusted."""
    try:
        folder = os.open(scratch, _FOLDER)
    except (OSError, ValueError):
        return None
    try:
        if not _is_ours(os.fstat(folder)):
            return None
        file = os.open(JOURNAL, _FILE, dir_fd=folder)
        with os.fdopen(file, "rb") as stream:
            status = os.fstat(file)
            is_usable = stat.S_ISREG(status.st_mode) and _is_ours(status)
            if not is_usable or status.st_size > _LONGEST:
                return None
            return _parse_journal(json.loads(stream.read(_LONGEST)))
    except (OSError, ValueError, RecursionError):
        return None
    finally:
        os.close(folder)


def undo(scratch: Path, entries: Sequence[JournalEntry]) -> None:
    """Undo a write: take its files back, the last first, and put the replaced files back."""
    # In reverse: an interrupted undo leaves what an interrupted write leaves, and can be repeated.
    for entry in reversed(entries):
        final, old = scratch.parent / entry.final, scratch / entry.old
        if mark_of(final) == entry.mark:
            _take_back(final, scratch / entry.waiting, entry.mark)
        if os.path.lexists(old) and not os.path.lexists(final):
            old.rename(final)


def _take_back(final: Path, folder: Path, mark: Mark) -> None:
    """Move a file that appeared back to the folder where it waited."""
    if folder.is_symlink() or not folder.is_dir():
        final.rename(folder.with_suffix(".undone"))
    elif len(mark) > 2 and any(mark_of(entry) == mark for entry in folder.iterdir()):
        final.unlink()  # it was linked, and its other name is still there
    else:
        final.rename(folder / "undone")


def _is_ours(status: os.stat_result) -> bool:
    return is_ours(status) and not status.st_mode & _OTHERS_WRITE


def _parse_journal(document: object) -> Journal:
    if not isinstance(document, dict) or document.keys() != {"entries", "last"}:
        raise ValueError
    if not isinstance(document["entries"], list):
        raise ValueError
    entries = tuple(JournalEntry(*_read_entry(entry)) for entry in document["entries"])
    last = LastFile(*_read_entry(document["last"]))
    for entry in entries:
        # A name with a slash, or "..", would reach files outside the folder of the write.
        bare = entry.final not in ("", ".", "..") and not {"/", "\0"} & {*entry.final}
        if not bare or not _NUMBER.fullmatch(entry.waiting):
            raise ValueError
    if any("\0" in path or not Path(path).is_absolute() for path in last[:2]):
        raise ValueError
    return Journal(entries, last)


def _read_entry(raw: object) -> tuple[str, str, Mark]:
    match raw:
        case [str(final), str(waiting), [*mark]] if len(mark) in (2, 4):
            numbers = tuple(
                number for number in mark if type(number) is int and 0 <= number < 1 << 64
            )
            if len(numbers) == len(mark):
                return final, waiting, numbers
    raise ValueError
