"""Notes in a vault's folder: where answers lie, and what failed, for its operator.

Where answers lie is a hint beside the ledger, which keeps the answers themselves: when it is lost,
a question that was asked before is paid for again. Decision 0097.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from sfumato.errors import SfumatoError
from sfumato.files import write_text
from sfumato.ledger.book import utc_now
from sfumato.release.in_use import FAILURES
from sfumato.texts import dumps

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.ledger.book import Key


class AnswerIndex:
    """The requests under which each question was answered, in memory or in a folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._known: dict[str, dict[str, str]] = {}

    def find(self, body: str) -> list[Key]:
        """The requests that answered a question, of every principal."""
        return list(self._read(body).items())

    def note(self, body: str, key: Key) -> None:
        """Remember that a question was answered; the answer is already safe without this."""
        principal, request_id = key
        requests = {**self._read(body), principal: request_id}
        if self._folder is None:
            self._known[body] = requests
            return
        with suppress(SfumatoError):
            write_text(self._folder / f"{body}.json", dumps(requests), overwrite=True)

    def _read(self, body: str) -> dict[str, str]:
        if self._folder is None:
            return self._known.get(body, {})
        try:
            found = json.loads((self._folder / f"{body}.json").read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        pairs = found.items() if isinstance(found, dict) else ()
        return {one: other for one, other in pairs if isinstance(other, str)}


def note_charge(folder: Path, charge: int, words: str) -> None:
    """Say why a charged question could not be answered."""
    _note(folder, f"charge {charge}", words)


def note_ledger(folder: Path, words: str) -> None:
    """Say what the system or the database told when the ledger's storage failed."""
    _note(folder, "ledger", words)


def note_request(folder: Path, what: str, words: str) -> None:
    """Say why a request failed inside."""
    _note(folder, what, words)


def _note(folder: Path, what: str, words: str) -> None:
    """Add a line for the operator's eyes only; what cannot be written must not be told either."""
    line = f"{utc_now().isoformat(timespec='seconds')} {what}: {' '.join(words.split())}\n"
    appending = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(OSError):
        handle = os.open(folder / FAILURES, appending, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as log:
            log.write(line)
