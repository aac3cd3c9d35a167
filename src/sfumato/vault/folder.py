"""Notes in a vault's folder: where answers lie, and what failed, for its operator.

Where answers lie is a hint beside the ledger, which keeps the answers themselves: when it is lost,
a question that was asked before is paid for again. Decision 0097.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from sfumato.privacy.ledger.chain import utc_now
from sfumato.release.files_in_use import FAILURES
from sfumato.text import dumps

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.privacy.ledger.chain import Key


class AnswerIndex:
    """The requests under which each question was answered, in memory or in a folder.

    A file has a line for each answer. Lines are added in one write and never synced: what a power
    cut takes, or a crash leaves half written, is paid for again.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._known: dict[str, dict[str, str]] = {}

    def find(self, body: str) -> list[Key]:
        """The requests that answered a question, of every principal."""
        return list(self._read(body).items())

    def note(self, body: str, key: Key) -> None:
        """Remember that a question was answered; the answer is already safe without this."""
        principal, request_id = key
        if self._folder is None:
            self._known[body] = {**self._known.get(body, {}), principal: request_id}
            return
        with suppress(OSError):
            handle = _appending(self._folder / f"{body}.json")
            try:
                os.write(handle, f"{dumps({principal: request_id})}\n".encode())
            finally:
                os.close(handle)

    def _read(self, body: str) -> dict[str, str]:
        if self._folder is None:
            return self._known.get(body, {})
        try:
            lines = (self._folder / f"{body}.json").read_bytes().splitlines()
        except OSError:
            return {}
        return {one: other for line in lines for one, other in _noted(line)}


def _noted(line: bytes) -> list[Key]:
    """The requests that a line tells of; one that was not written by us tells nothing."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return []
    pairs = found.items() if isinstance(found, dict) else ()
    return [(one, other) for one, other in pairs if isinstance(other, str)]


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
    with suppress(OSError):
        handle = _appending(folder / FAILURES)
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as log:
            log.write(line)


def _appending(path: Path) -> int:
    """A file of ours, opened to be added to."""
    ways = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, ways, 0o600)
