"""The one place where answers come about: order, price, repetition."""

from __future__ import annotations

import re
import threading
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from sfumato.errors import BudgetError, EngineError, SfumatoError
from sfumato.privacy.accounting.filters import Budget
from sfumato.privacy.ledger.base import Ledger
from sfumato.privacy.ledger.memory import MemoryStore
from sfumato.privacy.ledger.receipt import Receipt
from sfumato.release.codec import from_bytes, to_bytes
from sfumato.vault.answer import AnswerIndex
from sfumato.vault.gatekeeper import Gatekeeper
from sfumato.vault.principals import Principal, PrincipalKind
from sfumato.vault.session import Asker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sfumato.vault.answer import Answer

    Ask = Callable[..., Answer]

OWNER = Asker("owner", ("visits",))
ALICE = Asker("alice", ("visits",), ("visits/alice",))
BOB = Asker("bob", ("visits",), ("visits/bob",))


def spent(ledger: Ledger, account: str) -> Fraction:
    (part,) = ledger.spent(account)
    assert part is not None
    return Fraction(part[0], 10**9)


def nothing() -> AbstractContextManager[dict[str, Any]]:
    return nullcontext({})


def test_the_charge_comes_before_data_and_the_answer_is_stored_before_it_leaves(
    ledger: Ledger, gatekeeper: Gatekeeper, counting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    drawing, storing = Receipt.entropy, type(ledger).store

    def entropy(receipt: Receipt) -> Any:
        seen.append(f"entropy at {spent(ledger, 'visits')}")
        return drawing(receipt)

    def open_data() -> AbstractContextManager[dict[str, Any]]:
        seen.append(f"data at {spent(ledger, 'visits')}")
        return nullcontext({})

    def store(book: Ledger, receipt: Receipt, answer: bytes, **more: Any) -> None:
        storing(book, receipt, answer, **more)
        seen.append("stored")

    monkeypatch.setattr(Receipt, "entropy", entropy)
    monkeypatch.setattr(type(ledger), "store", store)

    def check_data() -> None:
        seen.append(f"checked at {spent(ledger, 'visits')}")

    gatekeeper.answer(counting(), OWNER, open_data, check_data=check_data)
    assert seen == ["checked at 0", "data at 1/2", "entropy at 1/2", "stored"]


def test_an_answer_says_what_it_cost_and_what_is_left(
    ledger: Ledger, gatekeeper: Gatekeeper, counting: Any
) -> None:
    answer = gatekeeper.answer(counting(), OWNER, nothing)
    assert answer.cost == {"epsilon": 0.5}
    assert answer.charged
    assert answer.remaining == {"epsilon": 0.5, "delta": 0.0}
    charge = next(entry for entry in ledger.entries() if '"kind":"charge"' in entry.body)
    assert answer.receipt == f"{charge.seq}:{charge.hash}"
    assert abs(answer.table["n"][0].as_py() - 1000) < 60  # P(noise of scale 2 beyond) < 1e-12


def test_F17_the_identical_question_is_answered_again_for_nothing(
    ledger: Ledger, gatekeeper: Gatekeeper, counting: Any
) -> None:
    first = gatekeeper.answer(counting(), OWNER, nothing)
    again = [gatekeeper.answer(counting(), OWNER, nothing) for _ in range(5)]
    assert all(to_bytes(one) == to_bytes(first) for one in again)
    assert not any(one.charged for one in again)
    assert spent(ledger, "visits") == Fraction(1, 2)


@pytest.mark.parametrize("what", ["about", "epsilon", "purpose", "snapshot"])
def test_another_question_pays(
    what: str, ledger: Ledger, gatekeeper: Gatekeeper, counting: Any
) -> None:
    gatekeeper.answer(counting(), OWNER, nothing)
    method, asker = counting(), OWNER
    if what == "about":
        method = counting(about="people of the north")
    elif what == "epsilon":
        method = counting(epsilon=Fraction(1, 4))
    elif what == "purpose":
        asker = replace(asker, purpose="care")
    else:
        gatekeeper = replace(gatekeeper, snapshot=2)
    assert gatekeeper.answer(method, asker, nothing).charged
    assert spent(ledger, "visits") > Fraction(1, 2)


def test_another_principal_pays_from_their_own_budget_and_gets_the_same_figures(
    ledger: Ledger, gatekeeper: Gatekeeper, counting: Any
) -> None:
    first = gatekeeper.answer(counting(), ALICE, nothing)
    second = gatekeeper.answer(counting(), BOB, lambda: pytest.fail("data was opened"))
    assert second.table == first.table
    assert second.charged
    assert second.cost == first.cost
    assert second.remaining == first.remaining
    assert second.receipt != first.receipt
    assert spent(ledger, "visits") == spent(ledger, "visits/bob") == Fraction(1, 2)
    assert not gatekeeper.answer(counting(), BOB, nothing).charged
    assert not gatekeeper.answer(counting(), OWNER, nothing).charged
    assert spent(ledger, "visits") == Fraction(1, 2)


def test_a_principal_learns_of_their_own_budget_only(gatekeeper: Gatekeeper, counting: Any) -> None:
    """Bad input 41: more than is left, of one's own budget or of the one that all share."""
    gatekeeper.answer(counting(epsilon=Fraction(7, 10)), ALICE, nothing)
    with pytest.raises(BudgetError) as own:
        gatekeeper.answer(counting(epsilon=Fraction(1, 5)), ALICE, nothing)
    assert own.value.code == "budget_exhausted"
    assert "epsilon 0.1 of 0.8 left" in own.value.message
    with pytest.raises(BudgetError) as shared:
        gatekeeper.answer(counting(epsilon=Fraction(2, 5)), BOB, nothing)
    assert shared.value.code == "budget_exhausted"
    assert re.findall(r"[0-9]+(?:\.[0-9]+)?", shared.value.message) == [
        "0.4"
    ]  # what was asked alone


def test_a_refused_question_costs_nothing_and_draws_nothing(
    ledger: Ledger, gatekeeper: Gatekeeper, counting: Any
) -> None:
    with pytest.raises(BudgetError):
        gatekeeper.answer(
            counting(epsilon=Fraction(2)), OWNER, lambda: pytest.fail("data was opened")
        )
    assert spent(ledger, "visits") == 0


def test_an_answer_takes_two_transactions(counting: Any) -> None:
    """One for the charge, one for the answer: that entropy was drawn is noted without a sync."""
    steps: list[str] = []
    ledger = Ledger(MemoryStore(), head=None, at_step=steps.append)
    ledger.open_account("visits", budget=Budget.for_epsilon_delta(epsilon=1))
    steps.clear()
    Gatekeeper(ledger, AnswerIndex()).answer(counting(), OWNER, nothing)
    assert steps.count("committed") == 2


def test_L4_a_request_id_stands_for_one_question(
    ledger: Ledger, gatekeeper: Gatekeeper, counting: Any
) -> None:
    first = gatekeeper.answer(counting(), ALICE, nothing, request_id="r1")
    again = gatekeeper.answer(counting(), ALICE, nothing, request_id="r1")
    other = gatekeeper.answer(counting(), ALICE, nothing, request_id="r2")
    bare = gatekeeper.answer(counting(), ALICE, nothing)
    assert {to_bytes(one) for one in (first, again, other, bare)} == {to_bytes(first)}
    assert spent(ledger, "visits") == Fraction(1, 2)
    with pytest.raises(SfumatoError) as reused:
        gatekeeper.answer(counting(about="others"), ALICE, nothing, request_id="r1")
    assert (reused.value.code, reused.value.exit_code) == ("request_reused", 2)


def test_F16_of_many_at_once_only_those_win_for_whom_there_is_budget(
    ledger: Ledger, gatekeeper: Gatekeeper, counting: Any
) -> None:
    outcomes: list[str] = []

    def ask(number: int) -> None:
        method = counting(epsilon=Fraction(1, 10), about=f"group {number}")
        try:
            gatekeeper.answer(method, OWNER, nothing)
            outcomes.append("answered")
        except BudgetError as refusal:
            outcomes.append(refusal.code)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count("answered") == 10
    assert outcomes.count("budget_exhausted") == 54
    assert spent(ledger, "visits") == 1


def test_stored_answers_are_found_again_by_another_process(
    ledger: Ledger, counting: Any, tmp_path: Path
) -> None:
    first = Gatekeeper(ledger, AnswerIndex(tmp_path)).answer(
        counting(), ALICE, nothing, request_id="r1"
    )
    elsewhere = Gatekeeper(ledger, AnswerIndex(tmp_path))
    again = elsewhere.answer(counting(), ALICE, nothing)
    assert to_bytes(again) == to_bytes(first)
    assert not again.charged


@pytest.mark.parametrize(
    "damage", ["", "[]", '{"alice": ', '{"alice": 7}', '{"alice": "r2"}', '{"alice": "lost"}']
)
def test_a_lost_hint_costs_budget_and_nothing_else(
    damage: str, ledger: Ledger, counting: Any, tmp_path: Path
) -> None:
    def effect() -> None:
        raise MemoryError

    gatekeeper = Gatekeeper(ledger, AnswerIndex(tmp_path))
    small = counting(epsilon=Fraction(1, 10**6), effect=effect)
    with pytest.raises(EngineError):
        gatekeeper.answer(small, ALICE, nothing, request_id="lost")
    gatekeeper.answer(counting(epsilon=Fraction(49, 100)), ALICE, nothing, request_id="r1")
    (hint,) = tmp_path.iterdir()
    hint.write_text(damage)
    assert gatekeeper.answer(counting(epsilon=Fraction(49, 100)), BOB, nothing).charged
    assert spent(ledger, "visits") == Fraction(98, 100) + Fraction(1, 10**6)
    hint.write_text(damage)
    assert not gatekeeper.answer(counting(epsilon=Fraction(49, 100)), BOB, nothing).charged


def test_releases_survive_storage(gatekeeper: Gatekeeper, counting: Any) -> None:
    answer = gatekeeper.answer(counting(), OWNER, nothing)
    back = from_bytes(to_bytes(answer))
    assert back.table == answer.table
    assert (back.guarantee, back.provenance) == (answer.guarantee, answer.provenance)
    assert (back.error, back.receipt) == (answer.error, answer.receipt)


def test_hints_survive_a_line_that_was_written_half(tmp_path: Path) -> None:
    index = AnswerIndex(tmp_path)
    index.note("b" * 64, ("ann", "one"))
    with (tmp_path / f"{'b' * 64}.json").open("ab") as file:
        file.write(b'{"bob": "tw\n[1]\n{"eve": 3}\n')
    index.note("b" * 64, ("bob", "three"))
    assert index.requests_of("b" * 64) == [("ann", "one"), ("bob", "three")]


def test_a_receipt_tells_its_number_to_the_owner_alone(
    gatekeeper: Gatekeeper, counting: Any
) -> None:
    rights = Principal(name="alice", kind=PrincipalKind.EXTERNAL, shapes=frozenset({"query"}))
    answer = gatekeeper.answer(counting(), replace(ALICE, rights=rights), nothing)
    number, _, proof = answer.entry.partition(":")
    assert int(number) > 1
    assert (answer.receipt, answer.to_json()["receipt"]) == (proof, proof)
