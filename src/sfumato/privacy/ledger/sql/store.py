"""The ledger's storage in an SQL database, one transaction at a time.

A `Dialect` provides what differs between databases.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy import inspect
from sqlalchemy.exc import DBAPIError

from sfumato.errors import LedgerError
from sfumato.privacy.accounting.filters import Budget
from sfumato.privacy.ledger.chain import (
    ENTRY_BYTES,
    FORMAT,
    Account,
    ChargeRequest,
    Entry,
    Position,
    canonical,
    digest,
    first_entry,
)
from sfumato.privacy.ledger.rules import damaged
from sfumato.privacy.ledger.sql import tables
from sfumato.privacy.ledger.sql.tables import entries, metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from sqlalchemy import Connection, Engine, Executable

    from sfumato.privacy.accounting.filters import Charge
    from sfumato.privacy.ledger.chain import Draft, Key
    from sfumato.privacy.ledger.large_answers import AnswerFiles


@dataclass
class KnownAccounts:
    """A cache of accounts at a position; it is valid while the chain still ends there."""

    position: Position
    accounts: dict[str, Account]


class SqlView:
    """The ledger's storage as one transaction sees it.

    A writer that finds the chain at the position where it left it need not read its accounts again:
    balances follow from the entries alone.
    """

    def __init__(
        self,
        connection: Connection,
        check_storage: Callable[[Connection], None],
        known: KnownAccounts | None = None,
    ) -> None:
        self._connection = connection
        self._check_storage = check_storage
        self._position: Position | None = None
        self.known = known

    def position(self) -> Position:
        """The last entry."""
        if self._position is not None:
            return self._position
        row = self._connection.execute(tables.LAST_ENTRY).first()
        if row is None:
            raise damaged("it has no entries")
        self._position = Position(row.seq, row.hash)
        if self.known is None or self.known.position != self._position:
            self.known = KnownAccounts(self._position, {})
        return self._position

    def entry(self, seq: int) -> Entry | None:
        """One entry."""
        row = self._connection.execute(tables.ONE_ENTRY, {"of_seq": seq}).first()
        return None if row is None else Entry(row.seq, row.body, row.hash)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """All entries after one, oldest first."""
        while rows := self._page(tables.NEXT_ENTRIES, {"after": after}):
            yield from map(Entry._make, rows)
            after = rows[-1].seq

    def records(self, after: int) -> Iterator[tuple[Entry, str | None]]:
        """Records and rollbacks after an entry, each with the hash of the entry before it."""
        while rows := self._page(tables.NEXT_RECORDS, {"after": after}):
            for *entry, before in rows:
                yield Entry._make(entry), before
            after = rows[-1].seq

    def recorded(self, prefix: str) -> bool:
        """Whether the JSON of any entry starts with `prefix`."""
        rows = self._connection.execute(tables.ENTRY_STARTING, {"prefix": prefix})
        return rows.first() is not None

    def account(self, name: str) -> Account | None:
        """One account."""
        if self.known is not None and name in self.known.accounts:
            return self.known.accounts[name]
        row = self._connection.execute(tables.ONE_ACCOUNT, {"of_account": name}).first()
        return None if row is None else self._account(*row)

    def accounts(self) -> list[Account]:
        """All accounts, by name."""
        rows = self._connection.execute(tables.ALL_ACCOUNTS).all()
        return [self._account(*row) for row in rows]

    def _account(self, name: str, parent: str | None, budget: str, seal: str) -> Account:
        units: dict[int, list[int | None]] = {}
        for number, unit_count in self._connection.execute(tables.BALANCE, {"of_account": name}):
            units.setdefault(number, []).append(unit_count)
        spent = tuple(_charge(counts) for counts in units.values())
        # A flipped bit in a balance must never look like unspent budget.
        if _seal(name, parent, budget, spent) != seal:
            raise damaged(f"the row of account {name!r} does not match its seal")
        return Account(name, parent, _budget(budget), spent)

    def dataset(self, name: str) -> str | None:
        """The account that a data set is charged to."""
        return self._connection.scalar(tables.ONE_DATASET, {"of_dataset": name})

    def requests_among(self, keys: Collection[Key]) -> dict[Key, ChargeRequest]:
        """The charged questions among these keys that were not voided, one query per page."""
        requests: dict[Key, ChargeRequest] = {}
        key_list = list(keys)
        for start in range(0, len(key_list), tables.PAGE):
            page = {"keys": key_list[start : start + tables.PAGE]}
            for row in self._connection.execute(tables.SOME_REQUESTS, page):
                request = ChargeRequest._make(row)
                requests[request.key] = request
        return requests

    def requests(self) -> Iterator[tuple[ChargeRequest, bytes | None]]:
        """Every charged question that was not voided, with its stored answer."""
        after = {"after_principal": "", "after_request": ""}
        while rows := self._page(tables.NEXT_REQUESTS, after):
            for *request, answer in rows:
                yield ChargeRequest._make(request), answer
            last = rows[-1]
            after = {"after_principal": last.principal, "after_request": last.request}

    def answer(self, charge: int) -> bytes | None:
        """The stored answer to a charge."""
        return self._connection.scalar(tables.ONE_ANSWER, {"of_charge": charge})

    def stored_bytes(self) -> dict[str, int]:
        """The size in bytes of each principal's stored answers."""
        return read_stored(self._connection)

    def check_storage(self) -> None:
        """Raise when the database finds damage in its own files."""
        self._check_storage(self._connection)

    def save(self, draft: Draft) -> None:
        """Write all changes of a draft."""
        self.add_entries(draft.entries)
        if draft.has_records:
            # Created with the first record: an older ledger without records needs no index.
            self.index_records()
        self._save_accounts(draft)
        roots = [{"name": name, "account": root} for name, root in draft.datasets.items()]
        self._run(tables.ADD_DATASETS, roots)
        # Changed requests are deleted and inserted anew; voided ones stay deleted.
        self._run(tables.DROP_REQUESTS, [_key(*key) for key in draft.replaced()])
        live_requests = [request for request in draft.requests.values() if request is not None]
        self._run(tables.ADD_REQUESTS, [_request_row(request) for request in live_requests])
        answers = [{"charge": seq, "answer": row} for seq, row in draft.answers.items()]
        self._run(tables.ADD_ANSWERS, answers)
        raise_stored(self._connection, draft.stored_bytes)
        known = {} if self.known is None else self.known.accounts
        self.known = KnownAccounts(draft.position, {**known, **draft.accounts})

    def add_entries(self, added: Iterable[Entry]) -> None:
        """Append entries."""
        rows = [{"seq": entry.seq, "body": entry.body, "hash": entry.hash} for entry in added]
        self._run(tables.ADD_ENTRIES, rows)

    def index_records(self) -> None:
        """Create the index of records in a ledger from before there were records."""
        tables.RECORD_INDEX.create(self._connection, checkfirst=True)

    def _save_accounts(self, draft: Draft) -> None:
        opened = [_account_row(draft.accounts[name]) for name in draft.opened]
        self._run(tables.ADD_ACCOUNTS, opened)
        changed = [account for name, account in draft.accounts.items() if name not in draft.opened]
        names = [{"of_account": account.name} for account in changed]
        rows = [{"of_account": account.name, **_account_row(account)} for account in changed]
        self._run(tables.CHANGE_ACCOUNTS, rows)
        self._run(tables.DROP_BALANCES, names)
        balances = [row for account in draft.accounts.values() for row in _balance_rows(account)]
        self._run(tables.ADD_BALANCES, balances)

    def _page(self, statement: Executable, after: dict[str, Any]) -> Sequence[Any]:
        return self._connection.execute(statement, after).all()

    def _run(self, statement: Executable, rows: list[dict[str, Any]]) -> None:
        if rows:
            self._connection.execute(statement, rows)


def _key(principal: str, request_id: str) -> dict[str, str]:
    return {"of_principal": principal, "of_request": request_id}


def _request_row(request: ChargeRequest) -> dict[str, object]:
    return {
        "principal": request.principal,
        "request": request.request_id,
        "body": request.body_digest,
        "charge": request.charge,
        "answered": request.answered,
    }


def _account_row(account: Account) -> dict[str, object]:
    budget = _budget_text(account.budget)
    seal = _seal(account.name, account.parent, budget, account.spent)
    return {"name": account.name, "parent": account.parent, "budget": budget, "seal": seal}


def _balance_rows(account: Account) -> Iterator[dict[str, object]]:
    limits = account.budget.limits()
    for number, (spent, limit) in enumerate(zip(account.spent, limits, strict=True)):
        for quantity, ceiling in enumerate(limit):
            yield {
                "account": account.name,
                "filter": number,
                "part": quantity,
                "spent": None if spent is None else spent[quantity],
                "ceiling": ceiling,
            }


def _charge(counts: list[int | None]) -> tuple[int, ...] | None:
    """The units of one filter, or None for a broken one, whose units are all NULL."""
    counted = tuple(count for count in counts if count is not None)
    return counted if len(counted) == len(counts) else None


def _seal(name: str, parent: str | None, budget: str, spent: Charge) -> str:
    return digest(canonical([name, parent, budget, spent]).encode())


# Cached: budgets are read and written at every charge and rarely change.


@lru_cache(maxsize=1024)
def _budget(text: str) -> Budget:
    return Budget.from_record(json.loads(text))


@lru_cache(maxsize=1024)
def _budget_text(budget: Budget) -> str:
    return canonical(budget.to_record())


class Dialect(Protocol):
    """The operations in which databases differ."""

    @property
    def protections(self) -> tuple[str, ...]:
        """Statements, run once, that make the database itself refuse to change an entry."""

    def writing(self, engine: Engine) -> Connection:
        """A connection for one writer at a time."""

    def reading(self, engine: Engine) -> Connection:
        """A connection whose transactions see one moment."""

    def lock_creation(self, connection: Connection) -> None:
        """Lock the creation of tables."""

    def lock(self, connection: Connection) -> None:
        """Take the write lock until the transaction ends."""

    def is_busy(self, error: DBAPIError) -> bool:
        """Whether another writer held the lock for too long."""

    def check_storage(self, connection: Connection) -> None:
        """Raise when the database finds damage in its own files."""


def missing() -> LedgerError:
    """The error for a database that is gone or empty: an empty one would be a fresh budget."""
    return LedgerError(
        "ledger_missing",
        "The ledger's database is missing or holds no ledger. No answer is given.",
        hint=(
            "Put it back, or a backup of it and acknowledge the loss; only 'sfumato init' "
            "creates a ledger."
        ),
    )


class SqlStore:
    """The storage of a ledger in a database."""

    def __init__(
        self,
        engine: Engine,
        dialect: Dialect,
        *,
        files: AnswerFiles | None = None,
        create: bool = False,
    ) -> None:
        self._engine, self._dialect, self.files = engine, dialect, files
        self._known: KnownAccounts | None = None
        try:
            if create:
                self._create()
            self._check_version()
            self._add_stored()
        except BaseException:
            self.close()
            raise

    def _create(self) -> None:
        """Create the tables and the first entry, unless they exist."""
        with self._transaction() as connection:
            with self._patience():
                self._dialect.lock_creation(connection)
            if self._has_tables(connection):
                return
            metadata.create_all(connection, checkfirst=False)
            for statement in self._dialect.protections:
                connection.exec_driver_sql(statement)
            connection.execute(tables.ADD_TURN, {"id": 1})
            view = SqlView(connection, self._dialect.check_storage)
            view.add_entries([first_entry()])

    def _has_tables(self, connection: Connection) -> bool:
        return self._engine.dialect.has_table(connection, entries.name)

    def _check_version(self) -> None:
        """Refuse a database without a ledger: an empty ledger would be a fresh budget."""
        with self._dialect.reading(self._engine) as connection, connection.begin():
            if not self._has_tables(connection):
                raise missing()
            first = SqlView(connection, self._dialect.check_storage).entry(1)
        if first is None or json.loads(first.body).get("format") != FORMAT:
            raise LedgerError(
                "ledger_unusable",
                f"The ledger was written by another version; this one reads format {FORMAT} only.",
            )

    def _add_stored(self) -> None:
        """Create the sums of stored bytes in a ledger from before there were limits on them."""
        with self._dialect.reading(self._engine) as connection, connection.begin():
            if has_stored(connection):
                return
        with self._transaction() as connection, self._patience():
            self._dialect.lock_creation(connection)
            self._dialect.lock(connection)
            add_stored(connection)

    @contextmanager
    def reading(self) -> Iterator[SqlView]:
        """A view of one moment."""
        with self._dialect.reading(self._engine) as connection, connection.begin():
            yield SqlView(connection, self._dialect.check_storage)

    @contextmanager
    def writing(self) -> Iterator[SqlView]:
        """A view under the write lock; durable when the block ends, undone when it raises."""
        # Forget the cache until the commit returns: after a failure it may be ahead of the
        # database.
        known, self._known = self._known, None
        with self._transaction() as connection:
            with self._patience():
                self._dialect.lock(connection)
            view = SqlView(connection, self._dialect.check_storage, known)
            yield view
        self._known = view.known

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self._dialect.writing(self._engine) as connection:
            with self._patience():
                transaction = connection.begin()
            with transaction:
                yield connection

    @contextmanager
    def _patience(self) -> Iterator[None]:
        """Turn a lock timeout into `ledger_busy`: unlike after a failure, the state is known."""
        try:
            yield
        except DBAPIError as error:
            if not self._dialect.is_busy(error):
                raise
            raise LedgerError(
                "ledger_busy",
                "The ledger is held by another process for too long.",
                hint="Try again later.",
            ) from None


# The size of each principal's stored answers, kept as a sum per principal. Decision
# `server-limits`.


def has_stored(connection: Connection) -> bool:
    """Whether the database has the table of sums; one of an earlier version has none."""
    return inspect(connection).has_table(tables.stored.name)


def add_stored(connection: Connection) -> None:
    """Create the table of sums unless another process just did; call it under the locks."""
    if has_stored(connection):
        return
    tables.stored.create(connection)
    for principal, length, answered in connection.execute(tables.SUM_ANSWERS).all():
        total = length + answered * ENTRY_BYTES
        connection.execute(tables.ADD_STORED, {"principal": principal, "bytes": total})


def read_stored(connection: Connection) -> dict[str, int]:
    """The sums of all principals."""
    return {row.principal: row.bytes for row in connection.execute(tables.ALL_STORED)}


def raise_stored(connection: Connection, added_bytes: Mapping[str, int]) -> None:
    """Add bytes to the sums of principals, in the transaction that stores their answers."""
    for principal, size in added_bytes.items():
        raised = {"of_principal": principal, "more": size}
        if not connection.execute(tables.RAISE_STORED, raised).rowcount:
            connection.execute(tables.ADD_STORED, {"principal": principal, "bytes": size})
