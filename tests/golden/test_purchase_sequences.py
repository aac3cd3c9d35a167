"""The twenty lists of purchases of the guide, counted again: before and now."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sfumato.privacy.accounting.balance import describe_balance
from sfumato.privacy.accounting.events import ConcentratedEvent, PureEvent
from sfumato.privacy.accounting.filters import ApproxFilter, Budget, PureFilter, ZcdpFilter
from sfumato.privacy.accounting.losses import spendable_rho
from sfumato.privacy.accounting.price import price
from sfumato.privacy.accounting.purchase import purchase
from sfumato.privacy.ledger.chain import Account
from sfumato.privacy.ledger.rules import charge_account

if TYPE_CHECKING:
    from sfumato.privacy.accounting.events import Event

_PAGE = Path(__file__).parents[2] / "docs" / "guide" / "budgets.md"
_ROWS = [
    [cell.strip() for cell in line.strip("| ").split("|")]
    for line in _PAGE.read_text().splitlines()
    if line.startswith("| (")
]
_PURCHASE = re.compile(r"(?:(\d+) x )?(?:G \(([\d.]+), ([\de.-]+)\)|L ([\d./]+))(?:, |$)")


def _event(epsilon: Fraction, delta: Fraction) -> Event:
    if not delta:
        return PureEvent(epsilon=epsilon)
    return ConcentratedEvent(rho=spendable_rho(epsilon=epsilon, delta=delta))


def _former(epsilon: Fraction, delta: Fraction) -> Budget:
    """Half of the delta for sums, a quarter each for events under zCDP and its conversion."""
    if not delta:
        return Budget((PureFilter(epsilon=epsilon),))
    rho = spendable_rho(epsilon=epsilon, delta=delta / 4)
    return Budget(
        (
            ApproxFilter(epsilon=epsilon, delta=delta / 2),
            ZcdpFilter(rho=rho, delta=delta / 4, conversion_delta=delta / 4),
        )
    )


def test_there_are_twenty_lists() -> None:
    assert len(_ROWS) == 20


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: f"{row[0]} {row[1]}")
def test_a_list_of_purchases_is_granted_as_the_guide_says(row: list[str]) -> None:
    pair, purchases, before, now, left = row
    epsilon, delta = (Fraction(text) for text in pair.strip("()").split(","))
    offers = [
        price(epsilon=found[2] or found[4], delta=found[3] or 0)
        for found in _PURCHASE.finditer(purchases)
        for _ in range(int(found[1] or 1))
    ]
    former = _former(epsilon, delta)
    spent, granted_before, granted_now = former.zero(), 0, 0
    budget = Budget.for_epsilon_delta(epsilon=epsilon, delta=delta)
    account = Account("people", None, budget, budget.zero())
    for found in _PURCHASE.finditer(purchases):
        for _ in range(int(found[1] or 1)):
            event = _event(Fraction(found[2] or found[4]), Fraction(found[3] or 0))
            charge = former.charge(event)
            if former.admits(spent, charge):
                spent, granted_before = former.add(spent, charge), granted_before + 1
    for offer in offers:
        assert offer.epsilon is not None
        charged = charge_account(account, purchase(offer, _event(offer.epsilon, offer.delta)))
        if charged is not None:
            account, granted_now = charged, granted_now + 1
    assert f"{granted_before} of {len(offers)}" == before
    assert f"{granted_now} of {len(offers)}" == now
    assert describe_balance(account.budget, account.spent) == left
