"""The operator's log of failures, `failures.log` in a vault's folder.

It says why a request or a charged question failed, in words that may quote data. So its owner alone
may read it, and nothing of it reaches whoever asked.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from sfumato.privacy.ledger.chain import utc_now
from sfumato.release.files_in_use import FAILURES

if TYPE_CHECKING:
    from pathlib import Path


def note_failure(folder: Path, subject: str, words: str) -> None:
    """Add a line about a failure; a log that cannot be written fails nothing else."""
    line = f"{utc_now().isoformat(timespec='seconds')} {subject}: {' '.join(words.split())}\n"
    with suppress(OSError):
        handle = opened_to_append(folder / FAILURES)
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as log:
            log.write(line)


def opened_to_append(path: Path) -> int:
    """Open a file of the vault to append to it; its owner alone may read it."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, 0o600)
