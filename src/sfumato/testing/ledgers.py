"""Short words for tests of ledgers and vaults, and what must be true of every name of a source."""

from __future__ import annotations

import os
import threading
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.errors import SfumatoError
from sfumato.ledger.book import digest
from sfumato.privacy.events import PureEvent
from sfumato.vault import accounts
from sfumato.vault.registration import Registration, add_public, create

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.ledger.base import Ledger
    from sfumato.ledger.receipt import Receipt

BODY = digest(b"SELECT COUNT(*) FROM visits")


def pure(epsilon: str) -> PureEvent:
    """An event of that epsilon."""
    return PureEvent(epsilon=Fraction(epsilon))


def charge(ledger: Ledger, epsilon: str, request_id: str, account: str = "visits") -> Receipt:
    """Reserve as alice, for the same question each time."""
    return ledger.reserve(
        pure(epsilon),
        accounts=[account],
        principal="alice",
        request_id=request_id,
        body_digest=BODY,
    )


def ask(ledger: Ledger, request_id: str, body: str = BODY) -> bytes | None:
    """Ask for alice's stored answer."""
    return ledger.answer(principal="alice", request_id=request_id, body_digest=body)


def nano(ledger: Ledger, account: str = "visits") -> int | None:
    """What an account with a pure budget has spent, in units of 1e-9."""
    (part,) = ledger.spent(account)
    return None if part is None else part[0]


def code_of(action: Callable[..., object], *arguments: Any, **options: Any) -> str:
    """The code of the error that an action must raise, with a message of one line."""
    try:
        action(*arguments, **options)
    except SfumatoError as error:
        return error.code if "\n" not in error.message else "more than one line"
    return "no error"


def in_child(action: Callable[[], object]) -> str:
    """The code of the error that an action raises in a forked child."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, code_of(action).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as pipe:
        return pipe.read().decode()


def run_threads(work: Callable[[int], None], count: int) -> None:
    """Run work in that many threads at once."""
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


VAULT = Path("clinic")
"""Where the vault lies."""

ROWS = 300
"""How many rows the tables have."""

_SCHEMA = """\
table = "t"
[columns.who]
kind = "integer"
role = "identifier"
nullable = false
[columns.name]
kind = "text"
[columns.cost]
kind = "real"
bounds = [0.0, 100.0]
[columns.born]
kind = "date"
bounds = [1900-01-01, 2030-01-01]
[columns.agreed]
kind = "boolean"
"""


def make() -> None:
    """Make a vault here, and a schema for its tables."""
    Path("t.toml").write_text(_SCHEMA)
    create(VAULT)


def rows(start: int = 0) -> pa.Table:
    """A table of every kind, with missing values; another start gives other people."""
    numbers = range(start, start + ROWS)
    return pa.table(
        {
            "who": pa.array(numbers, pa.int64()),
            "name": [f"n{one % 7}" if one % 5 else None for one in numbers],
            "cost": [None if one % 11 == 0 else one / 8 for one in numbers],
            "born": pa.array([one * 40 for one in numbers], pa.int32()).cast(pa.date32()),
            "agreed": [one % 2 == 0 for one in numbers],
        }
    )


def add(name: str, source: str, **changes: Any) -> None:
    """Add a private source."""
    given = {"schema": Path("t.toml"), "unit": "row", "epsilon": "1"}
    Registration(name=name, source=source, **{**given, **changes}).add_to(VAULT)


def add_publicly(name: str, source: str) -> None:
    """Add a source as public."""
    add_public(VAULT, name=name, source=source, schema=Path("t.toml"), keys={})


def refusal(action: Callable[..., object], *given: Any, **options: Any) -> str:
    """The code with which an action is refused, which must leave the vault as it is."""
    before = state()
    code = code_of(action, *given, **options)
    assert state() == before
    return code


def state() -> object:
    """All of a vault, byte by byte; of its ledger all entries and accounts."""
    files = {
        path: path.read_bytes()
        for path in (*VAULT.rglob("*"), VAULT.with_name(f"{VAULT.name}.head"))
        if path.is_file() and "ledger.sqlite" not in path.name
    }
    with closing(accounts.opened_ledger(VAULT)) as ledger:
        entries = [entry.body for entry in ledger.entries()]
    return files, entries, accounts.balances(VAULT)


def check_alias(alias: str, population: str = "visits") -> None:
    """It is refused as another's, as public, and taken only where its people have a budget."""
    assert refusal(add, "again", alias) == "dataset_attached"
    assert refusal(add, "again", alias, population="others") == "dataset_attached"
    assert refusal(add_publicly, "again", alias) == "source_private"
    add("again", alias, population=population, epsilon=None)
    assert [one["account"] for one in accounts.balances(VAULT)] == [population]
