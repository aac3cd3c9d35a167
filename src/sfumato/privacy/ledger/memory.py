"""A ledger in memory, with the same rules; it ends with its process."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, NoReturn

from sfumato.errors import LedgerError
from sfumato.privacy.ledger.base import Ledger
from sfumato.privacy.ledger.chain import Entry, Position, first_entry

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from sfumato.privacy.ledger.chain import Account, ChargeRequest, Draft, Key


def memory_ledger() -> Ledger:
    """A new ledger in memory."""
    return Ledger(MemoryStore(), head=None)


class MemoryStore:
    """The ledger's storage in lists and dictionaries, under one lock."""

    files = None

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._entries: list[Entry] = [first_entry()]
        self._accounts: dict[str, Account] = {}
        self._datasets: dict[str, str] = {}
        self._requests: dict[Key, ChargeRequest] = {}
        self._answers: dict[int, bytes] = {}
        self._stored_bytes: Counter[str] = Counter()
        self._saved: Draft | None = None

    def __reduce__(self) -> NoReturn:
        raise LedgerError(
            "object_not_shareable",
            "A ledger in memory cannot be copied or pickled: each copy would spend the whole "
            "budget.",
            hint="Ask the table that there is, or keep a vault.",
        )

    @contextmanager
    def reading(self) -> Iterator[MemoryStore]:
        """The store itself, under its lock."""
        with self._lock:
            yield self

    @contextmanager
    def writing(self) -> Iterator[MemoryStore]:
        """The store itself, under its lock; a saved draft is applied when the block ends."""
        with self._lock:
            try:
                yield self
                # Applied only if the block ended without an exception, as a transaction commits.
                if self._saved is not None:
                    self._apply(self._saved)
            finally:
                self._saved = None

    def close(self) -> None:
        """Nothing to close."""

    def position(self) -> Position:
        """The last entry."""
        last = self._entries[-1]
        return Position(last.seq, last.hash)

    def entry(self, seq: int) -> Entry | None:
        """One entry."""
        return self._entries[seq - 1] if 0 < seq <= len(self._entries) else None

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """All entries after one, oldest first."""
        return iter(self._entries[after:])

    def records(self, after: int) -> Iterator[tuple[Entry, str | None]]:
        """Records and rollbacks after an entry, each with the hash of the entry before it."""
        pairs = pairwise(self._entries[max(after - 1, 0) :])
        return ((entry, previous.hash) for previous, entry in pairs if entry.is_record)

    def recorded(self, prefix: str) -> bool:
        """Whether the JSON of any entry starts with `prefix`."""
        return any(entry.body.startswith(prefix) for entry in self._entries)

    def account(self, name: str) -> Account | None:
        """One account."""
        return self._accounts.get(name)

    def accounts(self) -> list[Account]:
        """All accounts, by name."""
        return [self._accounts[name] for name in sorted(self._accounts)]

    def dataset(self, name: str) -> str | None:
        """The account that a data set is charged to."""
        return self._datasets.get(name)

    def requests_among(self, keys: Collection[Key]) -> dict[Key, ChargeRequest]:
        """The charged questions among these keys that were not voided."""
        return {key: self._requests[key] for key in keys if key in self._requests}

    def requests(self) -> Iterator[tuple[ChargeRequest, bytes | None]]:
        """Every charged question that was not voided, with its stored answer."""
        return iter(
            [(request, self._answers.get(request.charge)) for request in self._requests.values()]
        )

    def answer(self, charge: int) -> bytes | None:
        """The stored answer to a charge."""
        return self._answers.get(charge)

    def stored_bytes(self) -> dict[str, int]:
        """The size in bytes of each principal's stored answers."""
        return dict(self._stored_bytes)

    def check_storage(self) -> None:
        """Memory cannot check itself."""

    def save(self, draft: Draft) -> None:
        """Apply a draft when the `writing` block ends."""
        self._saved = draft

    def _apply(self, draft: Draft) -> None:
        self._entries.extend(draft.entries)
        self._accounts.update(draft.accounts)
        self._datasets.update(draft.datasets)
        self._answers.update(draft.answers)
        self._stored_bytes.update(draft.stored_bytes)
        for key, request in draft.requests.items():
            if request is None:
                self._requests.pop(key, None)
            else:
                self._requests[key] = request
