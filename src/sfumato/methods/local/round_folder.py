"""The rounds that lie in a folder, found by their ids."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING

from sfumato.errors import SfumatoError
from sfumato.methods.local.collection import Collection
from sfumato.methods.local.rounds import key_file

if TYPE_CHECKING:
    from pathlib import Path

SURVEYS = "surveys"
"""The folder of a vault in which its rounds lie."""


class RoundFolder:
    """Opens each round of a folder once; files that came later are found when asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock = folder, Lock()
        self._seen: set[tuple[str, int, bool]] = set()
        self._open: dict[str, Collection] = {}

    def __call__(self, round_id: str) -> Collection | None:
        """The round of an id, if there is one."""
        with self._lock:
            if round_id not in self._open:
                self._look()
            return self._open.get(round_id)

    def _look(self) -> None:
        for path in sorted(self._folder.glob("*.toml")):
            file = (path.name, path.stat().st_mtime_ns, key_file(path).exists())
            if file in self._seen:
                continue
            self._seen.add(file)
            with suppress(SfumatoError):  # no round, or one without its key: none that answers here
                collection = Collection(path)
                self._open.setdefault(collection.round.id, collection)


@cache
def rounds_of(vault_folder: Path) -> RoundFolder:
    """The rounds of a vault."""
    return RoundFolder(vault_folder / SURVEYS)
