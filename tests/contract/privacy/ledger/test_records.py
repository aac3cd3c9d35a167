"""Records: what operators decided, in the chain, for every kind of ledger."""

from __future__ import annotations

import io
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool
from tests.fixtures.ledgers import charge, code_of

from sfumato.errors import SfumatoError
from sfumato.privacy.accounting.filters import Budget
from sfumato.privacy.ledger.checker import check
from sfumato.privacy.ledger.records import Amendment, BookState

if TYPE_CHECKING:
    from sfumato.privacy.ledger.base import Ledger

TOLD = {"kind": "external", "epsilon": "1/3", "list": [1, None, True], "name": "Zoë"}


def test_the_last_value_of_a_name_stands(place: Any, one: Budget) -> None:
    ledger = place.open()
    assert ledger.records("principal") == {}
    ledger.record("principal", "alice", {"old": 1}, operator="ann")
    ledger.record("principal", "bob", TOLD, operator="ann")
    ledger.record("token", "alice", 7, operator="ann")
    ledger.open_account("visits", budget=one)
    ledger.record("principal", "alice", TOLD, operator="ann")
    assert ledger.records("principal") == {"alice": TOLD, "bob": TOLD}
    ledger.record("principal", "bob", None, operator="ann")
    ledger.record("principal", "nobody", None, operator="ann")
    assert ledger.records("principal") == {"alice": TOLD}
    assert ledger.records("token") == {"alice": 7}
    assert place.open().records("principal") == {"alice": TOLD}
    assert ledger.verify().position.seq == 8


def test_what_another_process_wrote_is_seen_at_once(durable_place: Any) -> None:
    here, there = durable_place.open(), durable_place.open()
    for turn in range(3):
        here.record("token", "t", turn, operator="ann")
        assert there.records("token") == {"t": turn}
        there.record("token", "t", None, operator="ann")
        assert here.records("token") == {}


def test_whoever_gets_records_cannot_change_them(place: Any) -> None:
    ledger = place.open()
    ledger.record("token", "t", 1, operator="ann")
    ledger.records("token")["t"] = 2
    assert ledger.records("token") == {"t": 1}


def test_an_export_with_records_is_checked_by_a_stranger(place: Any, one: Budget) -> None:
    ledger = place.open()
    ledger.open_account("visits", budget=one)
    ledger.record("principal", "alice", TOLD, operator="ann")
    charge(ledger, "1/10", "r1")
    stream = io.StringIO()
    ledger.export(stream)
    assert check(stream.getvalue().splitlines()) == {"visits": [[10**8]]}


@pytest.mark.parametrize(
    ("topic", "name", "value", "operator", "code"),
    [
        ("", "t", 1, "ann", "name_invalid"),
        ("token", "a\nb", 1, "ann", "name_invalid"),
        ("token", "t", 1, "", "name_invalid"),
        ("token", "t", float("nan"), "ann", "record_invalid"),
        ("token", "t", object(), "ann", "record_invalid"),
        ("token", "t", "x" * 70_000, "ann", "record_invalid"),
    ],
)
def test_what_cannot_stand_is_refused(place: Any, topic: str, name: str, value: object,
                                      operator: str, code: str) -> None:  # fmt: skip
    ledger = place.open()
    assert code_of(ledger.record, topic, name, value, operator=operator) == code
    assert ledger.verify().position.seq == 1


def test_an_amendment_is_written_whole_or_not_at_all(place: Any, one: Budget) -> None:
    ledger = place.open()
    ledger.open_account("visits/a", budget=one)
    ledger.open_account("visits/b", budget=one)
    ledger.store(charge(ledger, "3/4", "r1", account="visits/a"), b"42")
    before = ledger.verify()
    half, two = (Budget.for_epsilon_delta(epsilon=epsilon) for epsilon in ("1/2", 2))

    def move(_: BookState) -> Amendment:
        return Amendment({"visits/b": two, "visits/a": half, "visits/c": one}, {("p", "a"): 1})

    assert code_of(ledger.amend, move, operator="ann") == "budget_out_of_range"
    bad = Amendment({"visits/b": two}, {("p", "a"): object()})
    assert code_of(ledger.amend, lambda _: bad, operator="ann") == "record_invalid"
    assert code_of(ledger.amend, lambda _: bad, operator="a\tb") == "name_invalid"
    assert ledger.verify() == before
    whole = Amendment({"visits/b": two, "visits/a": one, "visits/c": half}, {("p", "a"): 1})
    ledger.amend(lambda _: whole, operator="ann")
    budgets = {one.name: one.budget for one in ledger.accounts()}
    assert budgets == {"visits/a": one, "visits/b": two, "visits/c": half}
    assert ledger.records("p") == {"a": 1}
    assert ledger.verify().position.seq == before.position.seq + 4


def test_amendments_at_once_each_see_what_the_others_did(place: Any) -> None:
    ledger = place.open()
    ledger.record("count", "n", 0, operator="ann")

    def one_more(now: BookState) -> Amendment:
        return Amendment(records={("count", "n"): now.records["count"]["n"] + 1})

    def add() -> None:
        for _ in range(10):
            ledger.amend(one_more, operator="ann")

    run_all([Thread(target=add) for _ in range(4)])
    assert ledger.records("count") == {"n": 40}
    assert ledger.verify().position.seq == 42


def run_all(threads: list[Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_clock_put_back_brings_nothing_back(place: Any) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    place.open(clock=lambda: now).record("token", "t", 1, operator="ann")
    assert place.open(clock=lambda: now - timedelta(days=365)).decided().time == now
    assert place.open(clock=lambda: now + timedelta(days=1)).decided().time == now + timedelta(
        days=1
    )


def test_a_record_changed_behind_our_back_is_not_believed(durable_place: Any) -> None:
    durable_place.open().record("principal", "alice", {"kind": "public"}, operator="ann")
    protection = {
        "sqlite": "DROP TRIGGER sfumato_entries_no_update",
        "postgres": "DROP TRIGGER sfumato_entries_keep ON sfumato_entries",
    }
    with raw(durable_place).begin() as connection:
        connection.execute(text(protection[durable_place.kind]))
        connection.execute(
            text("UPDATE sfumato_entries SET body = replace(body, 'public', 'owner')")
        )
    ledger: Ledger = durable_place.open()
    assert code_of(ledger.records, "principal") == "ledger_damaged"
    assert code_of(ledger.amend, lambda _: Amendment(), operator="ann") == "ledger_damaged"


def test_a_ledger_older_than_records_takes_them(durable_place: Any) -> None:
    durable_place.open().record("token", "s", 1, operator="ann")
    index = text("DROP INDEX sfumato_record_entries")
    with raw(durable_place).begin() as connection:
        connection.execute(index)
    ledger = durable_place.open()
    assert ledger.records("token") == {"s": 1}
    ledger.record("token", "t", 2, operator="ann")
    assert durable_place.open().records("token") == {"s": 1, "t": 2}
    with raw(durable_place).begin() as connection:
        connection.execute(index)  # it is there again


def test_records_are_found_by_their_index(durable_place: Any) -> None:
    from sfumato.privacy.ledger.sql.tables import NEXT_RECORDS

    durable_place.open().record("token", "t", 1, operator="ann")
    explain = "EXPLAIN QUERY PLAN " if durable_place.kind == "sqlite" else "EXPLAIN "
    with raw(durable_place).begin() as connection:
        if durable_place.kind == "postgres":
            connection.execute(text("SET LOCAL enable_seqscan = off"))
        statement = NEXT_RECORDS.params(after=0).compile(
            connection, compile_kwargs={"literal_binds": True}
        )
        plan = connection.execute(text(explain + str(statement).replace(":", "\\:"))).all()
    assert "sfumato_record_entries" in str(plan)


def test_a_rollback_ends_what_was_recorded(durable_place: Any) -> None:
    """The lost entries may have taken a token back."""
    ledger = durable_place.open()
    ledger.record("token", "t", 1, operator="ann")
    durable_place.head.unlink()
    ledger = durable_place.open()
    assert code_of(ledger.records, "token") == "ledger_rolled_back"
    assert code_of(ledger.decided) == "ledger_rolled_back"
    ledger.acknowledge_rollback(operator="ann")
    assert ledger.records("token") == {}
    ledger.record("token", "u", 1, operator="ann")
    assert durable_place.open().records("token") == {"u": 1}


def raw(place: Any) -> Any:
    """The database itself, as somebody with a shell has it."""
    address = f"sqlite:///{place.address}"
    if place.kind == "postgres":
        address = place.address.replace("postgresql://", "postgresql+psycopg://")
    return create_engine(address, poolclass=NullPool)


def test_a_record_is_not_hidden_by_removing_the_entry_before_it(durable_place: Any) -> None:
    """As somebody would who wants a revoked token to live on."""
    ledger = durable_place.open()
    ledger.record("token", "t", 1, operator="ann")
    ledger.record("token", "other", 1, operator="ann")
    ledger.record("token", "t", None, operator="ann")
    protection = {
        "sqlite": "DROP TRIGGER sfumato_entries_no_delete",
        "postgres": "DROP TRIGGER sfumato_entries_keep ON sfumato_entries",
    }
    with raw(durable_place).begin() as connection:
        connection.execute(text(protection[durable_place.kind]))
        connection.execute(text("DELETE FROM sfumato_entries WHERE seq = 3"))
    assert code_of(durable_place.open().records, "token") == "ledger_damaged"


def test_a_budget_that_is_lowered_while_it_is_spent_is_never_overspent(durable_place: Any) -> None:
    """Two servers on one ledger: one charges, one lowers; the chain is replayed at the end."""
    here, there = durable_place.open(), durable_place.open()
    here.open_account("visits", budget=Budget.for_epsilon_delta(epsilon=1))
    granted = []

    def spend() -> None:
        for turn in range(30):
            with suppress(SfumatoError):
                granted.append(charge(here, "1/50", f"r{turn}"))

    def lower() -> None:
        for percent in range(95, 5, -5):
            smaller = Budget.for_epsilon_delta(epsilon=Fraction(percent, 100))
            with suppress(SfumatoError):
                there.amend(lambda _, one=smaller: Amendment({"visits": one}), operator="ann")

    run_all([Thread(target=spend), Thread(target=lower)])
    account = here.account("visits")
    assert account.spent == ((len(granted) * 2 * 10**7,),)
    assert account.budget.remaining(account.spent) != (None,)
    here.verify()
