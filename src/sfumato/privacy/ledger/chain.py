"""What a ledger keeps, a chain of entries, and what a place that keeps it must offer.

Every entry carries the SHA-256 of itself and of the entry before it.
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
"""What stands for the hash before the first entry."""

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


class Position(NamedTuple):
    """A place in the chain: how many entries there are and the hash of the last."""

    seq: int
    hash: str


class Entry(NamedTuple):
    """One line of the book: its canonical JSON and the hash that binds it to all before it."""

    seq: int
    body: str
    hash: str

    @property
    def is_record(self) -> bool:
        """Whether it is a record or a rollback, which alone begin with their kind."""
        return self.body.startswith('{"kind":')


def canonical(value: object) -> str:
    """Write JSON in the one form that is hashed: sorted keys, no blanks, ASCII."""
    return _ENCODER.encode(value)


def link(previous: str, body: str) -> str:
    """The hash of an entry whose canonical JSON is `body`, after an entry with hash `previous`."""
    return hashlib.sha256(f"{previous}\n{body}".encode()).hexdigest()


def digest(content: bytes) -> str:
    """The SHA-256 of a request's body or of an answer, as the ledger records it."""
    return hashlib.sha256(content).hexdigest()


FORMAT = 1
"""The version of entries and tables that this code reads and writes."""


ENTRY_BYTES = 1024
"""What an answered question takes in the book besides its answer: two entries and two rows."""

Key = tuple[str, str]
"""A principal and its request id; two principals may use the same id."""


@dataclass(frozen=True)
class Account:
    """A budget and what was spent of it; a child is a share of its parent's budget."""

    name: str
    parent: str | None
    budget: Budget
    spent: Charge


class ChargeRequest(NamedTuple):
    """A principal's charged question: the entry that charged it, the entry that answered it."""

    principal: str
    request_id: str
    body_digest: str
    charge: int
    answered: int | None = None

    @property
    def key(self) -> Key:
        """What the request is found by."""
        return self.principal, self.request_id


class Reader(Protocol):
    """A consistent view of the book."""

    def position(self) -> Position:
        """The last entry."""

    def entry(self, seq: int) -> Entry | None:
        """One entry."""

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """All entries behind one, oldest first."""

    def records(self, after: int) -> Iterator[tuple[Entry, str | None]]:
        """Records and rollbacks behind an entry, each with the hash of the entry before it."""

    def recorded(self, prefix: str) -> bool:
        """Whether the JSON of any entry starts with `prefix`."""

    def account(self, name: str) -> Account | None:
        """One account."""

    def accounts(self) -> list[Account]:
        """All accounts, by name."""

    def dataset(self, name: str) -> str | None:
        """The account that a data set is charged to."""

    def requests_among(self, keys: Collection[Key]) -> dict[Key, ChargeRequest]:
        """Those charged questions that were not voided, all looked up at once."""

    def requests(self) -> Iterator[tuple[ChargeRequest, bytes | None]]:
        """Every charged question that was not voided, with its stored answer."""

    def answer(self, charge: int) -> bytes | None:
        """The row of the stored answer to a charge: the answer, or a reference to its file."""

    def stored_bytes(self) -> dict[str, int]:
        """How many bytes the answers of each principal take."""

    def check_storage(self) -> None:
        """Raise when the storage itself finds damage."""


class Writer(Reader, Protocol):
    """A view that nobody else can change until it ends."""

    def save(self, draft: Draft) -> None:
        """Write down all that a draft holds."""


class Store(Protocol):
    """A place that keeps a book."""

    @property
    def files(self) -> AnswerFiles | None:
        """Where large answers lie; None where the book itself holds them."""

    def reading(self) -> AbstractContextManager[Reader]:
        """A view for reading."""

    def writing(self) -> AbstractContextManager[Writer]:
        """A view under the write lock; durable when the block ends, undone when it raises."""

    def close(self) -> None:
        """Let go of all connections."""


class Draft:
    """Changes that are applied together, on top of a view under the write lock."""

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

    def now(self) -> datetime:
        """What the clock says."""
        return self._clock()

    def append(self, kind: str, **fields: object) -> int:
        """Add an entry to the chain. Its time is for people; no charge is decided by it."""
        seq = self.position.seq + 1
        time = self._clock().isoformat(timespec="seconds")
        body = canonical({"kind": kind, "seq": seq, "time": time, **fields})
        self.position = Position(seq, link(self.position.hash, body))
        self.entries.append(Entry(seq, body, self.position.hash))
        return seq

    def recorded(self, **field: str) -> bool:
        """Whether any entry starts with this field: the chain remembers what a table lost."""
        prefix = canonical(field)[:-1] + ","
        return self._reader.recorded(prefix) or any(
            entry.body.startswith(prefix) for entry in self.entries
        )

    def records(self, after: int) -> Iterator[tuple[Entry, str | None]]:
        """Records and rollbacks behind an entry, with those of this draft."""
        yield from self._reader.records(after)
        for one in self.entries:
            if one.is_record and one.seq > after:
                before = self.entry(one.seq - 1)
                yield one, None if before is None else before.hash

    @property
    def has_records(self) -> bool:
        """Whether this draft writes a record."""
        return any(one.is_record for one in self.entries)

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
        kept = {account.name: account for account in self._reader.accounts()}
        return list((kept | self.accounts).values())

    def dataset(self, name: str) -> str | None:
        """The account that a data set is charged to, in this draft."""
        return self.datasets.get(name) or self._reader.dataset(name)

    def prefetch(self, keys: Collection[Key]) -> None:
        """Look up the requests of a whole batch at once."""
        found = self._reader.requests_among(keys)
        self._stored.update((key, found.get(key)) for key in keys)

    def request(self, key: Key) -> ChargeRequest | None:
        """One charged question as it stands in this draft."""
        if key not in self.requests and key not in self._stored:
            self.prefetch([key])
        return self.requests[key] if key in self.requests else self._stored[key]

    def keep_answer(self, request: ChargeRequest, row: bytes, size: int) -> None:
        """Keep the row of an answer of so many bytes, and count them to its principal."""
        self.answers[request.charge] = row
        self.stored_bytes[request.principal] += size + ENTRY_BYTES

    def replaced(self) -> list[Key]:
        """Requests that stood in the book before this draft wrote or removed them."""
        return [key for key in self.requests if self._stored.get(key) is not None]


def follows(reader: Reader, outside: Position | None) -> bool:
    """Whether a database holds all that the outside head has seen."""
    if outside is None:
        return False
    if outside == reader.position():
        return True
    entry = reader.entry(outside.seq)
    return entry is not None and entry.hash == outside.hash


def utc_now() -> datetime:
    """The time printed beside an entry."""
    return datetime.now(UTC)


def first_entry() -> Entry:
    """The entry that makes a chain this ledger's own, by a name that no other ledger has."""
    fields = {"format": FORMAT, "kind": "genesis", "ledger": uuid4().hex, "seq": 1}
    body = canonical({**fields, "time": utc_now().isoformat(timespec="seconds")})
    return Entry(1, body, link(ORIGIN, body))
