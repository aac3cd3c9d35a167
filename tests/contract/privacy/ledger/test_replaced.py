"""Files put in the place of open ones, as a restored backup does, close the ledger (decision
`ledger`).

A process that went on with the deleted files would spend a budget that others spend again.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.fixtures.ledgers import ask, charge, code_of, nano

if TYPE_CHECKING:
    from sfumato.privacy.accounting.filters import Budget


def copied(path: Path) -> Path:
    """A faithful copy of a database or a head, as a backup of this moment holds it."""
    copy = path.with_name(path.name + ".copy")
    if path.suffix != ".sqlite":
        return Path(shutil.copy2(path, copy))
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    return copy


def put_in_place(*paths: Path) -> None:
    for path, copy in [(path, copied(path)) for path in paths]:
        copy.replace(path)
        for log in ("-wal", "-shm"):
            path.with_name(path.name + log).unlink(missing_ok=True)


def check_closed(ledger: Any, *, request_id: str = "r2") -> None:
    for action in (
        lambda: charge(ledger, "9/10", request_id),
        lambda: ask(ledger, "r1"),
        lambda: ledger.records("token"),
        ledger.verify,
        ledger.accounts,
        lambda: ledger.acknowledge_rollback(operator="Ann"),
    ):
        assert code_of(action) == "ledger_replaced"


def test_L3_a_replaced_database_and_head_are_not_spent_beside(place: Any, one: Budget) -> None:
    if place.kind != "sqlite":
        pytest.skip("only files are replaced")
    running = place.open()
    running.open_account("visits", budget=one)
    running.store(charge(running, "1/10", "r1"), b"answer")
    put_in_place(Path(place.address), place.head)
    fresh = place.open()
    charge(fresh, "9/10", "r2")
    check_closed(running)
    assert fresh.verify().requests == 2
    assert nano(fresh) == 1_000_000_000


@pytest.mark.parametrize("part", ["database", "head"])
def test_L6_one_replaced_file_closes_the_ledger_for_good(
    durable_place: Any, one: Budget, part: str
) -> None:
    if (durable_place.kind, part) == ("postgres", "database"):
        pytest.skip("a server keeps its own files")
    path = durable_place.head if part == "head" else Path(durable_place.address)
    running = durable_place.open()
    running.open_account("visits", budget=one)
    before = path.with_name("before")
    os.link(path, before)
    put_in_place(path)
    check_closed(running)
    before.replace(path)
    check_closed(running)  # what happened meanwhile is unknown


@pytest.mark.parametrize("part", ["database", "head"])
def test_L6_a_removed_file_closes_the_ledger(durable_place: Any, one: Budget, part: str) -> None:
    if (durable_place.kind, part) == ("postgres", "database"):
        pytest.skip("a server keeps its own files")
    path = durable_place.head if part == "head" else Path(durable_place.address)
    running = durable_place.open()
    running.open_account("visits", budget=one)
    path.unlink()
    check_closed(running)
    assert not path.exists()


@pytest.mark.parametrize("step", ["locked", "saved", "committed"])
def test_L1_no_receipt_for_a_charge_whose_files_were_replaced_meanwhile(
    durable_place: Any, one: Budget, step: str
) -> None:
    armed: list[str] = []

    def replace(at: str) -> None:
        if at in armed:
            armed.clear()
            put_in_place(durable_place.head)

    running = durable_place.open(at_step=replace)
    running.open_account("visits", budget=one)
    armed.append(step)
    assert code_of(charge, running, "1/10", "r1") == "ledger_replaced"
    check_closed(running)
