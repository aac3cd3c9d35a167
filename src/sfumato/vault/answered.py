"""Where the answer to a question was stored: who asked it, under which request.

This is a hint beside the ledger, which keeps the answers themselves. When it is lost, a question
that was asked before is paid for again.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

from sfumato.errors import SfumatoError
from sfumato.files import write_text
from sfumato.strict_json import dumps

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.ledger.book import Key

ANSWERS = "answers"
"""The folder of a vault that remembers where answers are stored."""


class Answered:
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
