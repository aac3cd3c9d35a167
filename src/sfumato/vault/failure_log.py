"""The operator's log of failures, `failures.log` in a vault's folder.

It holds the cause of failed requests and charged queries, in texts that may quote data. So only the
owner of the folder may read it, and no part of it reaches the asker (F11).
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from sfumato.privacy.ledger.chain import utc_now
from sfumato.release.files_in_use import FAILURES

if TYPE_CHECKING:
    from pathlib import Path


def note_failure(folder: Path, subject: str, message: str) -> None:
    """Add a line about a failure; a log that cannot be written fails nothing else."""
    # One line, whatever the message holds: nobody can forge an entry with a line feed.
    line = f"{utc_now().isoformat(timespec='seconds')} {subject}: {' '.join(message.split())}\n"
    with suppress(OSError):
        handle = open_to_append(folder / FAILURES)
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as log:
            log.write(line)


def open_to_append(path: Path) -> int:
    """Open a file of the vault to append to it; its owner alone may read it.

    Each write is one append, so that lines of several processes do not mix; a symbolic link in its
    place is refused.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, 0o600)
