"""The journal of files that appear together: what to take back of a writing that did not end.

It lies in the scratch folder of its writing and names only what is in that folder and beside it,
each by its bare name: whoever plants a journal can have nothing done elsewhere. What is not
exactly such a journal, of this user and writable to nobody else, is none.

Decision 0110.
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

_LONGEST = 1 << 20
_PLACE = re.compile(r"[0-9]{1,9}")
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_FOLDER = os.O_RDONLY | ONLY_FOLDERS | NO_LINKS | NOT_INHERITED
_FILE = os.O_RDONLY | NO_LINKS | NO_WAITING | NOT_INHERITED

Mark = tuple[int, ...]
"""What tells a file or folder, unchanged, from any other."""


class JournalEntry(NamedTuple):
    """One of several files or folders that appear together.

    `final` is its name beside the scratch folder, `place` the number of the folder in the scratch
    folder where it waits; what it replaces is kept beside that.
    """

    final: str
    place: str
    mark: Mark

    @property
    def old(self) -> str:
        """The name in the scratch folder of what is replaced."""
        return f"{self.place}.old"


class LastFile(NamedTuple):
    """Where the last of all appears, in this folder or another, and the folder where it waits."""

    final: str
    place: str
    mark: Mark

    def stands(self) -> bool:
        """Whether it has appeared: it is there, or is not waiting any more."""
        if mark_of(Path(self.final)) == self.mark:
            return True
        place = Path(self.place)
        try:
            if not stat.S_ISDIR(place.lstat().st_mode):
                return False
            waiting = [one.lstat() for one in place.iterdir()]
        except OSError:
            return False
        return all(not stat.S_ISDIR(one.st_mode) and one.st_nlink > 1 for one in waiting)


class Journal(NamedTuple):
    """What one folder gets of a writing, and how to tell whether the writing has ended."""

    entries: tuple[JournalEntry, ...]
    last: LastFile


def mark_of(path: Path) -> Mark | None:
    """What tells a file or folder, unchanged, from any other; None where nothing is."""
    try:
        found = path.lstat()
    except OSError:
        return None
    if stat.S_ISDIR(found.st_mode):
        return found.st_dev, found.st_ino
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def write_journal(scratch: Path, journal: Journal) -> None:
    """Say what is about to appear beside a scratch folder, and what appears last of all."""
    with (scratch / JOURNAL).open("w", encoding="utf-8") as stream:
        stream.write(dumps({"entries": list(journal.entries), "last": journal.last}))
        stream.flush()
        os.fsync(stream.fileno())


def read_journal(scratch: Path) -> Journal | None:
    """The journal of a scratch folder; None where there is none that may be followed."""
    try:
        folder = os.open(scratch, _FOLDER)
    except (OSError, ValueError):
        return None
    try:
        if not _is_ours(os.fstat(folder)):
            return None
        file = os.open(JOURNAL, _FILE, dir_fd=folder)
        with os.fdopen(file, "rb") as stream:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode) or not _is_ours(found) or found.st_size > _LONGEST:
                return None
            return _parsed(json.loads(stream.read(_LONGEST)))
    except (OSError, ValueError, RecursionError):
        return None
    finally:
        os.close(folder)


def undo(scratch: Path, entries: Sequence[JournalEntry]) -> None:
    """Take back what was put in place, the last of it first, and put back what was there."""
    for entry in reversed(entries):
        final, old = scratch.parent / entry.final, scratch / entry.old
        if mark_of(final) == entry.mark:
            _take_back(final, scratch / entry.place, entry.mark)
        if os.path.lexists(old) and not os.path.lexists(final):
            old.rename(final)


def _take_back(final: Path, place: Path, mark: Mark) -> None:
    """Move what appeared to where it waited, so that it is seen to wait again."""
    if place.is_symlink() or not place.is_dir():
        final.rename(place.with_suffix(".undone"))
    elif len(mark) > 2 and any(mark_of(one) == mark for one in place.iterdir()):
        final.unlink()  # it was linked, and its other name is still there
    else:
        final.rename(place / "undone")


def _is_ours(found: os.stat_result) -> bool:
    return is_ours(found) and not found.st_mode & _OTHERS_WRITE


def _parsed(found: object) -> Journal:
    if not isinstance(found, dict) or found.keys() != {"entries", "last"}:
        raise ValueError
    if not isinstance(found["entries"], list):
        raise ValueError
    entries = tuple(JournalEntry(*_three(one)) for one in found["entries"])
    last = LastFile(*_three(found["last"]))
    for entry in entries:
        bare = entry.final not in ("", ".", "..") and not {"/", "\0"} & {*entry.final}
        if not bare or not _PLACE.fullmatch(entry.place):
            raise ValueError
    if any("\0" in path or not Path(path).is_absolute() for path in last[:2]):
        raise ValueError
    return Journal(entries, last)


def _three(found: object) -> tuple[str, str, Mark]:
    match found:
        case [str(final), str(place), [*mark]] if len(mark) in (2, 4):
            numbers = tuple(one for one in mark if type(one) is int and 0 <= one < 1 << 64)
            if len(numbers) == len(mark):
                return final, place, numbers
    raise ValueError
