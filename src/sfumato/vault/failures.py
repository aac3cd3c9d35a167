"""The operator's log of a vault: why something failed, in words that nobody else may see."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from sfumato.ledger.book import utc_now

if TYPE_CHECKING:
    from pathlib import Path

FAILURES = "failures.log"
"""The file of a vault that says why charged questions, or its ledger, failed. It may quote data."""


def note_charge(folder: Path, charge: int, words: str) -> None:
    """Say why a charged question could not be answered."""
    _note(folder, f"charge {charge}", words)


def note_ledger(folder: Path, words: str) -> None:
    """Say what the system or the database told when the ledger's storage failed."""
    _note(folder, "ledger", words)


def _note(folder: Path, what: str, words: str) -> None:
    """Add a line for the operator's eyes only; what cannot be written must not be told either."""
    line = f"{utc_now().isoformat(timespec='seconds')} {what}: {' '.join(words.split())}\n"
    appending = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(OSError):
        handle = os.open(folder / FAILURES, appending, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as log:
            log.write(line)
