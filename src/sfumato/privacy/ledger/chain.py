"""The hash chain of entries, and the interfaces of a store that keeps it.

The hash of every entry covers its text and the hash of the entry before it, so that no entry can be
changed, removed or inserted without changing all later hashes.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol
from uuid import uuid4

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from contextlib import AbstractContextManager

    from sfumato.privacy.accounting.filters import Budget, Charge
    from sfumato.privacy.ledger.large_answers import AnswerFiles

ORIGIN = "0" * 64
"""The previous hash of the first entry."""

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


class Position(NamedTuple):
    """A position in the chain: the number of entries and the hash of the last."""

    seq: int
    hash: str


class Entry(NamedTuple):
    """One entry: its canonical JSON, and the hash of it and all entries before it."""

    seq: int
    body: str
    hash: str

    @property
    def is_record(self) -> bool:
        """Whether it is a record or a rollback: only their sorted keys begin with "kind"."""
        return self.body.startswith('{"kind":')


def canonical(value: object) -> str:
    """Encode JSON in the form that is hashed: sorted keys, no blanks, ASCII."""
    return _ENCODER.encode(value)


def link(previous: str, body: str) -> str:
    """Hash an entry with canonical JSON `body` that follows an entry with hash `previous`."""
    return hashlib.sha256(f"{previous}\n{body}".encode()).hexdigest()


def digest(content: bytes) -> str:
    """The SHA-256 of a request's body or of an answer, as the ledger records it."""
    return hashlib.sha256(content).hexdigest()


FORMAT = 1
"""The version of entries and tables that this code reads and writes."""


ENTRY_BYTES = 1024
"""The approximate bytes of an answered question besides its answer: two entries and two rows."""

Key = tuple[str, str]
"""A principal and its request id; two principals may use the same id."""


@dataclass(frozen=True)
class Account:
    """A budget and what was spent of it. Charges to a child are charged to its parent as well."""

    name: str
    parent: str | None
    budget: Budget
    spent: Charge


class ChargeRequest(NamedTuple):
    """A charged question: who asked, its body, and the numbers of the charge and answer entries."""

    principal: str
    request_id: str
    body_digest: str
    charge: int
    answered: int | None = None

    @property
    def key(self) -> Key:
        """The key of the request: principal and request id."""
        return self.principal, self.request_id


class Reader(Protocol):
    """A consistent view of the ledger's storage."""

    def position(self) -> Position:
        """The last entry."""

    def entry(self, seq: int) -> Entry | None:
        """One entry."""

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """All entries after one, oldest first."""

    def records(self, after: int) -> Iterator[tuple[Entry, str | None]]:
        """Records and rollbacks after an entry, each with the hash of the entry before it."""

    def recorded(self, prefix: str) -> bool:
        """Whether the JSON of any entry starts with `prefix`."""

    def account(self, name: str) -> Account | None:
        """One account."""

    def accounts(self) -> list[Account]:
        """All accounts, by name."""

    def dataset(self, name: str) -> str | None:
        """The account that a data set is charged to."""

    def requests_among(self, keys: Collection[Key]) -> dict[Key, ChargeRequest]:
        """The charged questions among these keys that were not voided, in one lookup."""

    def requests(self) -> Iterator[tuple[ChargeRequest, bytes | None]]:
        """Every charged question that was not voided, with its stored answer."""

    def answer(self, charge: int) -> bytes | None:
        """The row of the stored answer to a charge: the answer, or a reference to its file."""

    def stored_bytes(self) -> dict[str, int]:
        """The size in bytes of each principal's stored answers."""

    def check_storage(self) -> None:
        """Raise when the storage itself finds damage."""


class Writer(Reader, Protocol):
    """A view under the write lock: nobody else can change the storage until it ends."""

    def save(self, draft: Draft) -> None:
        """Write all changes of a draft."""


class Store(Protocol):
    """The storage of a ledger."""

    @property
    def files(self) -> AnswerFiles | None:
        """The files of large answers; None if the database holds them."""

    def reading(self) -> AbstractContextManager[Reader]:
        """A view for reading."""

    def writing(self) -> AbstractContextManager[Writer]:
        """A view under the write lock; durable when the block ends, undone when it raises."""

    def close(self) -> None:
        """Close all connections."""


class Draft:
    """Changes of one transaction, on top of a view under the write lock."""

    def __init__(self, reader: Reader, clock: Callable[[], datetime]) -> None:
        self._reader = reader
        self._clock = clock
        self.position = reader.position()
        self.entries: list[Entry] = []
        self.accounts: dict[str, Account] = {}
        self.opened: set[str] = set()
        self.datasets: dict[str, str] = {}
        self.requests: dict[Key, ChargeRequest | None] = {}
        self._stored: dict[Key, ChargeRequest | None] = {}
        self.answers: dict[int, bytes] = {}
        self.stored_bytes: Counter[str] = Counter()

    def current_time(self) -> datetime:
        """The time of the ledger's clock."""
        return self._clock()

    def append(self, kind: str, **fields: object) -> int:
        """Append an entry to the chain. Its time is informative; no charge depends on it."""
        seq = self.position.seq + 1
        time = self._clock().isoformat(timespec="seconds")
        body = canonical({"kind": kind, "seq": seq, "time": time, **fields})
        self.position = Position(seq, link(self.position.hash, body))
        self.entries.append(Entry(seq, body, self.position.hash))
        return seq

    def recorded(self, **field: str) -> bool:
        """Whether any entry starts with this field: it detects a table row that was deleted."""
        prefix = canonical(field)[:-1] + ","
        return self._reader.recorded(prefix) or any(
            entry.body.startswith(prefix) for entry in self.entries
        )

    def records(self, after: int) -> Iterator[tuple[Entry, str | None]]:
        """Records and rollbacks after an entry, with those of this draft."""
        yield from self._reader.records(after)
        for entry in self.entries:
            if entry.is_record and entry.seq > after:
                before = self.entry(entry.seq - 1)
                yield entry, None if before is None else before.hash

    @property
    def has_records(self) -> bool:
        """Whether this draft writes a record."""
        return any(entry.is_record for entry in self.entries)

    def history(self) -> Iterator[Entry]:
        """All entries, with those of this draft."""
        yield from self._reader.entries()
        yield from self.entries

    def entry(self, seq: int) -> Entry | None:
        """One entry, of this draft or before it."""
        if self.entries and seq >= self.entries[0].seq:
            return self.entries[seq - self.entries[0].seq]
        return self._reader.entry(seq)

    def account(self, name: str) -> Account | None:
        """One account as it stands in this draft."""
        if name not in self.accounts:
            account = self._reader.account(name)
            if account is None:
                return None
            self.accounts[name] = account
        return self.accounts[name]

    def all_accounts(self) -> list[Account]:
        """All accounts as they stand in this draft."""
        stored_accounts = {account.name: account for account in self._reader.accounts()}
        return list((stored_accounts | self.accounts).values())

    def dataset(self, name: str) -> str | None:
        """The account that a data set is charged to, in this draft."""
        return self.datasets.get(name) or self._reader.dataset(name)

    def prefetch(self, keys: Collection[Key]) -> None:
        """Look up the requests of a whole batch at once."""
        requests = self._reader.requests_among(keys)
        self._stored.update((key, requests.get(key)) for key in keys)

    def request(self, key: Key) -> ChargeRequest | None:
        """One charged question as it stands in this draft."""
        if key not in self.requests and key not in self._stored:
            self.prefetch([key])
        # A None in `requests` is a request that this draft voided; it hides the stored one.
        return self.requests[key] if key in self.requests else self._stored[key]

    def keep_answer(self, request: ChargeRequest, row: bytes, size: int) -> None:
        """Add the row of an answer of `size` bytes, and count them to its principal."""
        self.answers[request.charge] = row
        # The entries of an answer take space too, also where the answer itself is empty.
        self.stored_bytes[request.principal] += size + ENTRY_BYTES

    def replaced(self) -> list[Key]:
        """Requests of this draft that the storage already holds, and so must delete first."""
        return [key for key in self.requests if self._stored.get(key) is not None]


def follows(reader: Reader, outside: Position | None) -> bool:
    """Whether the database contains the position of the outside head: nothing was rolled back."""
    if outside is None:
        return False
    if outside == reader.position():
        return True
    # The hash covers all earlier entries, so one equal entry means an equal prefix.
    entry = reader.entry(outside.seq)
    return entry is not None and entry.hash == outside.hash


def utc_now() -> datetime:
    """The current time in UTC."""
    return datetime.now(UTC)


def first_entry() -> Entry:
    """The first entry, with a random id: two ledgers never share a chain."""
    fields = {"format": FORMAT, "kind": "genesis", "ledger": uuid4().hex, "seq": 1}
    body = canonical({**fields, "time": utc_now().isoformat(timespec="seconds")})
    return Entry(1, body, link(ORIGIN, body))
