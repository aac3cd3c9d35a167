"""Any sequence of operations leaves balances that three implementations agree on."""

from __future__ import annotations

import io
from fractions import Fraction
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fixtures.ledgers import BODY

from sfumato.errors import BudgetError, LedgerError
from sfumato.privacy.accounting.events import GaussianNoise, PureEvent
from sfumato.privacy.accounting.filters import Budget
from sfumato.privacy.ledger.checker import check
from sfumato.privacy.ledger.memory import memory_ledger

if TYPE_CHECKING:
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.ledger.base import Ledger
    from sfumato.privacy.ledger.receipt import Receipt

TREE = {"visits": None, "visits/a": "visits", "visits/b": "visits", "shops": None}

epsilons = st.fractions(Fraction(1, 1000), Fraction(1, 2), max_denominator=1000)
events: st.SearchStrategy[Event] = st.one_of(
    epsilons.map(lambda epsilon: PureEvent(epsilon=epsilon)),
    st.fractions(1, 1000, max_denominator=7).map(
        lambda variance: GaussianNoise(variance=variance, l2_sensitivity_squared=Fraction(1))
    ),
)
operations = st.lists(
    st.tuples(
        events,
        st.sets(st.sampled_from(sorted(TREE)), min_size=1),
        st.sampled_from(["leave", "store", "void", "draw and void"]),
    ),
    max_size=25,
)


def open_tree(delta: str) -> Ledger:
    ledger = memory_ledger()
    for name, parent in TREE.items():
        budget = Budget.for_epsilon_delta(epsilon=1, delta=delta)
        ledger.open_account(name, budget=budget, parent=parent)
    return ledger


def end(ledger: Ledger, receipt: Receipt, ending: str) -> bool:
    """Bring a receipt to its end; tell whether its charge stands."""
    if ending == "store":
        receipt.entropy()
        ledger.store(receipt, b"answer")
    elif ending == "void":
        ledger.void(receipt)
        return False
    elif ending == "draw and void":
        receipt.entropy()
        try:
            ledger.void(receipt)
        except LedgerError:
            return True
        raise AssertionError("a charge was given back after its entropy was drawn")
    return True


@settings(max_examples=30, deadline=None)
@given(operations, st.sampled_from(["0", "1/1000000"]))
def test_balances_are_exact_and_within_limits(
    steps: list[tuple[Event, set[str], str]], delta: str
) -> None:
    ledger = open_tree(delta)
    standing: dict[str, list[Event]] = {name: [] for name in TREE}
    voided = False
    for number, (event, names, ending) in enumerate(steps):
        before = {account.name: account.spent for account in ledger.accounts()}
        try:
            receipt = ledger.reserve(
                event,
                accounts=names,
                principal="alice",
                request_id=str(number),
                body_digest=BODY,
            )
        except BudgetError:
            assert {account.name: account.spent for account in ledger.accounts()} == before
            continue
        charged = names | {parent for name in names if (parent := TREE[name]) is not None}
        if end(ledger, receipt, ending):
            for name in charged:
                standing[name].append(event)
        else:
            voided = True
    for account in ledger.accounts():
        expected = account.budget.zero()
        for event in standing[account.name]:
            expected = account.budget.add(expected, account.budget.charge(event))
        assert any(part is not None for part in account.spent)
        for held, exact in zip(account.spent, expected, strict=True):
            # A filter that a voided charge broke stays broken; that only loses budget.
            assert held == exact or (voided and held is None)
    target = io.StringIO()
    ledger.export(target)
    balances = check(target.getvalue().splitlines())
    assert balances == {
        account.name: [None if part is None else list(part) for part in account.spent]
        for account in ledger.accounts()
    }
    ledger.verify()
