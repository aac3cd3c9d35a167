"""Reading and writing the book within one transaction."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sfumato.ledger.book import Account, Request
from sfumato.ledger.chain import Entry, Position, canonical, digest
from sfumato.ledger.rules import damaged
from sfumato.ledger.sql import statements
from sfumato.privacy.filters import Budget

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from sqlalchemy import Connection, Executable

    from sfumato.ledger.book import Draft, Key
    from sfumato.privacy.filters import Charge


@dataclass
class Known:
    """Accounts as they stood at a position; the chain decides whether they still stand so."""

    position: Position
    accounts: dict[str, Account]


class SqlView:
    """The book as one transaction sees it.

    A writer that finds the chain where it left it need not read again what it wrote: the balances
    follow from the entries alone.
    """

    def __init__(
        self,
        connection: Connection,
        check_storage: Callable[[Connection], None],
        known: Known | None = None,
    ) -> None:
        self._connection = connection
        self._check_storage = check_storage
        self._position: Position | None = None
        self.known = known

    def position(self) -> Position:
        """The last entry."""
        if self._position is not None:
            return self._position
        row = self._connection.execute(statements.LAST_ENTRY).first()
        if row is None:
            raise damaged("it has no entries")
        self._position = Position(row.seq, row.hash)
        if self.known is None or self.known.position != self._position:
            self.known = Known(self._position, {})
        return self._position

    def entry(self, seq: int) -> Entry | None:
        """One entry."""
        row = self._connection.execute(statements.ONE_ENTRY, {"of_seq": seq}).first()
        return None if row is None else Entry(row.seq, row.body, row.hash)

    def entries(self) -> Iterator[Entry]:
        """All entries, oldest first."""
        after = 0
        while rows := self._page(statements.NEXT_ENTRIES, {"after": after}):
            yield from map(Entry._make, rows)
            after = rows[-1].seq

    def recorded(self, prefix: str) -> bool:
        """Whether the JSON of any entry starts with `prefix`."""
        found = self._connection.execute(statements.ENTRY_STARTING, {"prefix": prefix})
        return found.first() is not None

    def account(self, name: str) -> Account | None:
        """One account."""
        if self.known is not None and name in self.known.accounts:
            return self.known.accounts[name]
        row = self._connection.execute(statements.ONE_ACCOUNT, {"of_account": name}).first()
        return None if row is None else self._account(*row)

    def accounts(self) -> list[Account]:
        """All accounts, by name."""
        rows = self._connection.execute(statements.ALL_ACCOUNTS).all()
        return [self._account(*row) for row in rows]

    def _account(self, name: str, parent: str | None, budget: str, seal: str) -> Account:
        units: dict[int, list[int | None]] = {}
        for number, part in self._connection.execute(statements.BALANCE, {"of_account": name}):
            units.setdefault(number, []).append(part)
        spent = tuple(_charge(parts) for parts in units.values())
        if _seal(name, parent, budget, spent) != seal:
            raise damaged(f"the row of account {name!r} does not match its seal")
        return Account(name, parent, _budget(budget), spent)

    def dataset(self, name: str) -> str | None:
        """The account that a data set is charged to."""
        return self._connection.scalar(statements.ONE_DATASET, {"of_dataset": name})

    def requests_among(self, keys: Collection[Key]) -> dict[Key, Request]:
        """Those charged questions that were not voided, in one query per page."""
        found: dict[Key, Request] = {}
        asked = list(keys)
        for start in range(0, len(asked), statements.PAGE):
            page = {"keys": asked[start : start + statements.PAGE]}
            for row in self._connection.execute(statements.SOME_REQUESTS, page):
                request = Request._make(row)
                found[request.key] = request
        return found

    def requests(self) -> Iterator[tuple[Request, bytes | None]]:
        """Every charged question that was not voided, with its stored answer."""
        after = {"after_principal": "", "after_request": ""}
        while rows := self._page(statements.NEXT_REQUESTS, after):
            for *request, answer in rows:
                yield Request._make(request), answer
            last = rows[-1]
            after = {"after_principal": last.principal, "after_request": last.request}

    def answer(self, charge: int) -> bytes | None:
        """The stored answer to a charge."""
        return self._connection.scalar(statements.ONE_ANSWER, {"of_charge": charge})

    def check_storage(self) -> None:
        """Raise when the database finds damage in its own files."""
        self._check_storage(self._connection)

    def save(self, draft: Draft) -> None:
        """Write down all that a draft holds."""
        self.add_entries(draft.entries)
        self._save_accounts(draft)
        roots = draft.datasets.items()
        self._run(
            statements.ADD_DATASETS, [{"name": name, "account": root} for name, root in roots]
        )
        self._run(statements.DROP_REQUESTS, [_key(*key) for key in draft.replaced()])
        kept = [request for request in draft.requests.values() if request is not None]
        self._run(statements.ADD_REQUESTS, [_request_row(request) for request in kept])
        answers = draft.answers.items()
        self._run(
            statements.ADD_ANSWERS, [{"charge": seq, "answer": text} for seq, text in answers]
        )
        known = {} if self.known is None else self.known.accounts
        self.known = Known(draft.position, {**known, **draft.accounts})

    def add_entries(self, added: Iterable[Entry]) -> None:
        """Append entries."""
        rows = [{"seq": entry.seq, "body": entry.body, "hash": entry.hash} for entry in added]
        self._run(statements.ADD_ENTRIES, rows)

    def _save_accounts(self, draft: Draft) -> None:
        opened = [_account_row(draft.accounts[name]) for name in draft.opened]
        self._run(statements.ADD_ACCOUNTS, opened)
        changed = [account for name, account in draft.accounts.items() if name not in draft.opened]
        names = [{"of_account": account.name} for account in changed]
        rows = [{"of_account": one.name, **_account_row(one)} for one in changed]
        self._run(statements.CHANGE_ACCOUNTS, rows)
        self._run(statements.DROP_BALANCES, names)
        balances = [row for account in draft.accounts.values() for row in _balance_rows(account)]
        self._run(statements.ADD_BALANCES, balances)

    def _page(self, statement: Executable, after: dict[str, Any]) -> Sequence[Any]:
        return self._connection.execute(statement, after).all()

    def _run(self, statement: Executable, rows: list[dict[str, Any]]) -> None:
        if rows:
            self._connection.execute(statement, rows)


def _key(principal: str, request_id: str) -> dict[str, str]:
    return {"of_principal": principal, "of_request": request_id}


def _request_row(request: Request) -> dict[str, object]:
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
        for part, ceiling in enumerate(limit):
            yield {
                "account": account.name,
                "filter": number,
                "part": part,
                "spent": None if spent is None else spent[part],
                "ceiling": ceiling,
            }


def _charge(parts: list[int | None]) -> tuple[int, ...] | None:
    """The units of one filter; all of them are NULL once it is broken."""
    counted = tuple(part for part in parts if part is not None)
    return counted if len(counted) == len(parts) else None


def _seal(name: str, parent: str | None, budget: str, spent: Charge) -> str:
    return digest(canonical([name, parent, budget, spent]).encode())


# Budgets are read and written at every charge and hardly ever change.


@lru_cache(maxsize=1024)
def _budget(text: str) -> Budget:
    return Budget.from_record(json.loads(text))


@lru_cache(maxsize=1024)
def _budget_text(budget: Budget) -> str:
    return canonical(budget.to_record())
