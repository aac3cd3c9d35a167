"""No overspending, exact and clock-free (promises 3, 7, 8), and limits."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from tests.fixtures.ledgers import BODY, charge, code_of, nano, pure, run_threads

from sfumato.errors import BudgetError, ParameterError
from sfumato.privacy.accounting.filters import Budget
from sfumato.privacy.ledger.records import Amendment

if TYPE_CHECKING:
    from sfumato.privacy.ledger.base import Ledger
    from sfumato.privacy.ledger.receipt import Receipt


def test_L3_no_overspend_under_concurrency(place: Any, one: Budget) -> None:
    ledgers = [place.open() for _ in range(2)]
    ledgers[0].open_account("visits", budget=one)
    granted: list[str] = []

    def spend(worker: int) -> None:
        for turn in range(4):
            try:
                charge(ledgers[worker % 2], "1/50", f"{worker}-{turn}")
                granted.append(f"{worker}-{turn}")
            except BudgetError:
                pass

    run_threads(spend, 32)
    assert len(granted) == 50
    assert nano(ledgers[0]) == 1_000_000_000
    assert ledgers[1].verify().requests == 50


def test_L3_a_child_is_charged_with_its_parents_or_not_at_all(place: Any, one: Budget) -> None:
    ledger = place.open()
    half = Budget.for_epsilon_delta(epsilon="1/2")
    ledger.open_account("visits", budget=one)
    for name in ("alice", "bob", "carol"):
        ledger.open_account(f"visits/{name}", budget=half, parent="visits")
    charge(ledger, "1/2", "r1", "visits/alice")
    with pytest.raises(BudgetError, match=r"epsilon 0 of 0\.5 left"):
        charge(ledger, "1/10", "r2", "visits/alice")
    charge(ledger, "4/10", "r3", "visits/bob")
    with pytest.raises(BudgetError) as refused:  # the parent's rest is not the child's to know
        charge(ledger, "2/10", "r4", "visits/carol")
    assert refused.value.code == "budget_exhausted"
    assert "'visits'" in refused.value.message
    assert "too little budget left: ask its owner" in refused.value.message
    assert nano(ledger, "visits/carol") == 0
    assert nano(ledger) == 900_000_000
    assert ledger.remaining("visits") == ((100_000_000,),)


def test_L3_several_data_sets_in_one_transaction(place: Any, one: Budget) -> None:
    ledger = place.open()
    ledger.open_account("visits", budget=one)
    ledger.open_account("shops", budget=Budget.for_epsilon_delta(epsilon="1/10"))

    def both(epsilon: str, request_id: str) -> None:
        ledger.reserve(
            pure(epsilon),
            accounts=["visits", "shops"],
            principal="alice",
            request_id=request_id,
            body_digest=BODY,
        )

    both("1/10", "r1")
    assert code_of(both, "1/10", "r2") == "budget_exhausted"
    assert (nano(ledger, "visits"), nano(ledger, "shops")) == (100_000_000, 100_000_000)


def test_L3_child_never_above_parent(place: Any, one: Budget) -> None:
    ledger = place.open()
    ledger.open_account("visits", budget=one)
    two = Budget.for_epsilon_delta(epsilon=2)
    with_delta = Budget.for_epsilon_delta(epsilon="1/2", delta="1/1000000")
    for budget in (two, with_delta):
        assert (
            code_of(ledger.open_account, "visits/a", budget=budget, parent="visits")
            == "budget_out_of_range"
        )
    ledger.open_account("visits/a", budget=one, parent="visits")
    half = Budget.for_epsilon_delta(epsilon="1/2")
    for name, budget in (("visits/a", two), ("visits", half)):
        assert (
            code_of(ledger.set_limit, name, budget=budget, operator="root") == "budget_out_of_range"
        )


def test_L7_exact_arithmetic(place: Any, one: Budget) -> None:
    ledger = place.open()
    ledger.open_account("visits", budget=one)
    for turn in range(10):
        charge(ledger, "1/10", f"r{turn}")
    assert code_of(charge, ledger, "1/1000000000", "r10") == "budget_exhausted"
    assert nano(ledger) == 1_000_000_000


def test_L7_charges_are_rounded_up(place: Any, one: Budget) -> None:
    ledger = place.open()
    ledger.open_account("visits", budget=one)
    charge(ledger, "1/3", "r1")
    assert nano(ledger) == 333_333_334


def test_L8_clock_free(place: Any, one: Budget) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    clock = [now, now - timedelta(days=365), now + timedelta(days=3650)]
    ledger = place.open(clock=lambda: clock[len(list(ledger_times)) % 3])
    ledger_times: list[int] = []
    ledger.open_account("visits", budget=one)
    for turn in range(6):
        ledger_times.append(turn)
        charge(ledger, "1/10", f"r{turn}")
    records = [json.loads(entry.body) for entry in ledger.entries()]
    assert [record["seq"] for record in records] == list(range(1, 9))
    assert len({record["time"] for record in records[2:]}) == 3
    assert nano(ledger) == 600_000_000
    ledger.verify()


def test_F16_sixty_four_for_the_last_tenth(place: Any, one: Budget) -> None:
    ledger = place.open()
    ledger.open_account("visits", budget=one)
    charge(ledger, "9/10", "first")
    outcomes: list[str] = []

    def attempt(worker: int) -> None:
        try:
            charge(ledger, "1/10", f"r{worker}")
            outcomes.append("granted")
        except BudgetError:
            outcomes.append("refused")

    run_threads(attempt, 64)
    assert sorted(outcomes) == ["granted"] + ["refused"] * 63


def test_F16_registering_again_resets_nothing(place: Any, one: Budget) -> None:
    ledger = place.open()
    ledger.open_account("visits", budget=one)
    ledger.open_account("fresh", budget=one)
    ledger.attach("stays", account="visits")
    charge(ledger, "7/10", "r1")
    again = place.open()
    assert again.open_account("visits", budget=one).spent == ((700_000_000,),)
    again.attach("stays", account="visits")
    again.attach("growth of stays", account="visits")
    assert again.account_of("growth of stays") == again.account_of("stays") == "visits"
    assert code_of(again.attach, "stays", account="fresh") == "dataset_attached"
    larger = Budget.for_epsilon_delta(epsilon=2)
    assert code_of(again.open_account, "visits", budget=larger) == "name_taken"
    assert nano(again) == 700_000_000


def test_a_limit_is_raised_by_an_entry_and_keeps_what_was_spent(place: Any, one: Budget) -> None:
    ledger = place.open()
    ledger.open_account("visits", budget=one)
    charge(ledger, "1", "r1")
    ledger.void(charge_free(ledger))
    raised = Budget.for_epsilon_delta(epsilon=2, delta="1/1000000")
    account = ledger.set_limit("visits", budget=raised, operator="root")
    assert account.spent == raised.add(raised.zero(), raised.charge(pure("1")))
    last = json.loads(list(ledger.entries())[-1].body)
    assert (last["kind"], last["operator"]) == ("limit", "root")
    low = Budget.for_epsilon_delta(epsilon="1/2")
    assert code_of(ledger.set_limit, "visits", budget=low, operator="root") == "budget_out_of_range"
    ledger.verify()


def charge_free(ledger: Ledger) -> Receipt:
    ledger.open_account("spare", budget=Budget.for_epsilon_delta(epsilon=1))
    return charge(ledger, "1/2", "spare", "spare")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"accounts": []}, "parameter_missing"),
        ({"accounts": ["nobody"]}, "account_unknown"),
        ({"accounts": ["\ud800"]}, "name_invalid"),
        ({"principal": ""}, "name_invalid"),
        ({"principal": "a\nb"}, "name_invalid"),
        ({"request_id": "x" * 201}, "name_invalid"),
        ({"request_id": "\ud800"}, "name_invalid"),
        ({"body_digest": "abc"}, "name_invalid"),
    ],
)
def test_bad_requests_are_refused_and_charge_nothing(
    place: Any, one: Budget, change: dict[str, Any], code: str
) -> None:
    ledger = place.open()
    ledger.open_account("visits", budget=one)
    good = {"accounts": ["visits"], "principal": "a", "request_id": "r", "body_digest": BODY}
    with pytest.raises(ParameterError) as caught:
        ledger.reserve(pure("1/10"), **{**good, **change})
    assert caught.value.code == code
    assert nano(ledger) == 0
    ledger.reserve(pure("1/10"), **good)  # a refusal is no failure


@pytest.mark.parametrize("way", ["limit", "amendment"])
def test_L3_a_limit_that_is_lowered_while_it_is_spent_holds_from_its_entry_on(
    place: Any, one: Budget, way: str
) -> None:
    """Several lower it step by step, by several ledgers, while others spend; any order may come."""
    ledgers = [place.open() for _ in range(2)]
    ledgers[0].open_account("visits", budget=one)
    granted: list[int] = []
    lowered: list[int] = []
    late: list[int] = []
    codes: set[str] = set()

    def spend(worker: int) -> None:
        for turn in range(12):
            known = min(lowered, default=100)
            try:
                charge(ledgers[worker % 2], "1/100", f"{worker}-{turn}")
            except BudgetError:
                continue
            granted.append(worker)
            if (nano(ledgers[worker % 2]) or 0) > known * 10_000_000:
                late.append(known)

    def lower(worker: int) -> None:
        for percent in range(90, 20, -10):
            budget = Budget.for_epsilon_delta(epsilon=Fraction(percent, 100))
            ledger = ledgers[worker % 2]
            try:
                if way == "limit":
                    ledger.set_limit("visits", budget=budget, operator="Ann")
                else:
                    ledger.amend(lambda _, to=budget: Amendment({"visits": to}, {}), operator="Ann")
            except ParameterError as refused:
                codes.add(refused.code)
                return
            lowered.append(percent)

    run_threads(lambda worker: (lower if worker == 3 else spend)(worker), 8)
    assert late == []
    assert lowered
    assert codes <= {"budget_out_of_range"}
    # By the entries alone, in their order: nothing was ever granted above the limit of its moment.
    limit, spent = 100, 0
    for entry in ledgers[0].entries():
        body = json.loads(entry.body)
        if body["kind"] == "limit":
            [[units]] = Budget.from_record(body["budget"]).limits()
            limit = units // 10_000_000
        elif body["kind"] == "charge":
            spent += 1
        assert spent <= limit
    assert limit == lowered[-1]
    assert spent == len(granted) == min(limit, 7 * 12)
    assert nano(ledgers[1]) == spent * 10_000_000
    ledgers[0].verify()
