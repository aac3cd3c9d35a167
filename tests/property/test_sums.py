"""Sums hold: whoever adds up what was paid is never refused, and never gets more than the total.

The law, over adaptive mixtures of pure, Gaussian and threshold purchases on own and shared
accounts: a list of purchases whose epsilons sum to at most epsilon, and whose deltas sum to at
most the share that belongs to sums, is granted. The standing charges of an account always keep one
filter, and so the total guarantee.
"""

from __future__ import annotations

import io
from fractions import Fraction
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fixtures.ledgers import BODY

from sfumato.errors import BudgetError
from sfumato.exact_numbers import DELTA_UNIT, EPSILON_UNIT
from sfumato.privacy.accounting import zcdp
from sfumato.privacy.accounting.composition import basic_price, total
from sfumato.privacy.accounting.events import (
    ApproxEvent,
    Composed,
    ConcentratedEvent,
    GaussianNoise,
    PureEvent,
    ThresholdKeysEvent,
)
from sfumato.privacy.accounting.filters import SUMS_SHARE, Budget
from sfumato.privacy.accounting.losses import Approx, spendable_rho
from sfumato.privacy.accounting.price import price
from sfumato.privacy.accounting.purchase import event_of, purchase, summed_event
from sfumato.privacy.ledger.checker import check
from sfumato.privacy.ledger.memory import memory_ledger

if TYPE_CHECKING:
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.accounting.purchase import Charged
    from sfumato.privacy.ledger.base import Ledger

budgets = st.tuples(
    st.sampled_from([Fraction(1), Fraction(3), Fraction(7, 10), Fraction(10)]),
    st.sampled_from([Fraction(1, 10**8), Fraction(1, 10**6), Fraction(1, 30_000)]),
)
shares = st.lists(
    st.tuples(st.integers(1, 12), st.integers(0, 6), st.sampled_from(["noise", "rounds", "keys"])),
    min_size=1,
    max_size=8,
)


def _purchases(
    budget: tuple[Fraction, Fraction], parts: list[tuple[int, int, str]]
) -> list[Charged]:
    """Purchases that take all of epsilon and the sums' share of delta, in these proportions."""
    epsilons, deltas = sum(part[0] for part in parts), sum(part[1] for part in parts)
    made = []
    for epsilon_part, delta_part, kind in parts:
        delta = budget[1] * SUMS_SHARE * delta_part / max(deltas, 1)
        offer = price(
            epsilon=budget[0] * epsilon_part / epsilons,
            delta=delta if delta >= DELTA_UNIT else 0,
        )
        assert offer.epsilon is not None
        made.append(purchase(offer, _event(kind, offer.epsilon, offer.delta)))
    return made


def _event(kind: str, epsilon: Fraction, delta: Fraction) -> Event:
    rho = spendable_rho(epsilon=epsilon, delta=delta) if delta else Fraction(0)
    if kind == "keys" and delta:
        return Composed((PureEvent(epsilon=epsilon), ThresholdKeysEvent(delta=delta)))
    if kind == "noise" and rho:
        return GaussianNoise(variance=1 / (2 * rho), l2_sensitivity_squared=Fraction(1))
    if kind == "rounds" and rho:
        return ConcentratedEvent(rho=rho)
    return PureEvent(epsilon=epsilon)


def _reserve(ledger: Ledger, number: int, charged: Charged, *accounts: str) -> bool:
    try:
        ledger.reserve(
            charged,
            accounts=accounts,
            principal="alice",
            request_id=str(number),
            body_digest=BODY,
        )
    except BudgetError:
        return False
    return True


def _check_total(ledger: Ledger, name: str, standing: list[Charged]) -> None:
    """The charges of an account keep one of its filters, computed anew from exact amounts."""
    budget = ledger.account(name).budget
    loss = budget.loss()
    assert isinstance(loss, Approx)
    pairs = [total(summed_event(charged), basic_price) for charged in standing]
    if all(pair is not None for pair in pairs):
        epsilon = sum((pair[0] for pair in pairs if pair), Fraction(0))
        delta = sum((pair[1] for pair in pairs if pair), Fraction(0))
        if epsilon <= loss.epsilon and delta <= loss.delta:
            return
    rho, spent = zcdp.guarantee(Composed(tuple(event_of(charged) for charged in standing)))
    concentrated = budget.filters[-1]
    assert zcdp.delta(ConcentratedEvent(rho=rho.rho), epsilon=loss.epsilon) + spent <= (
        concentrated.delta + concentrated.conversion_delta  # type: ignore[union-attr]
    )


@settings(max_examples=150, deadline=None)
@given(budgets, shares, st.integers(0, 3))
def test_what_was_added_up_is_granted(
    budget: tuple[Fraction, Fraction], parts: list[tuple[int, int, str]], child: int
) -> None:
    ledger = memory_ledger()
    total_budget = Budget.for_epsilon_delta(epsilon=budget[0], delta=budget[1])
    ledger.open_account("people", budget=total_budget)
    ledger.open_account("alice", budget=total_budget)
    ledger.open_account("people/bob", budget=total_budget, parent="people")
    standing = _purchases(budget, parts)
    for number, charged in enumerate(standing):
        accounts = ("people/bob", "alice") if number % 3 == child else ("people", "alice")
        assert _reserve(ledger, number, charged, *accounts), (number, charged)
    for name in ("people", "alice"):
        _check_total(ledger, name, standing)
    ledger.verify()
    _check_export(ledger)


amounts = st.sampled_from(
    [Fraction(1, 20), Fraction(1, 3), Fraction(1, 2), Fraction(1), Fraction(2)]
)
failures = st.sampled_from(
    [Fraction(0), Fraction(1, 10**9), Fraction(1, 10**7), Fraction(1, 10**6)]
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(amounts, failures, st.sampled_from(["noise", "rounds", "keys", "rho", "void"])),
        min_size=1,
        max_size=30,
    )
)
def test_no_mixture_passes_the_total(wishes: list[tuple[Fraction, Fraction, str]]) -> None:
    """Adaptive mixtures, with charges that are returned: whatever was granted keeps the total."""
    ledger = memory_ledger()
    ledger.open_account("people", budget=Budget.for_epsilon_delta(epsilon=3, delta="1e-6"))
    standing: list[Charged] = []
    for number, (epsilon, delta, kind) in enumerate(wishes):
        charged: Charged
        if kind == "rho":
            charged = ConcentratedEvent(rho=epsilon / 20)
        else:
            offer = price(epsilon=epsilon, delta=delta)
            assert offer.epsilon is not None
            charged = purchase(offer, _event(kind, offer.epsilon, delta))
        try:
            receipt = ledger.reserve(
                charged,
                accounts=["people"],
                principal="alice",
                request_id=str(number),
                body_digest=BODY,
            )
        except BudgetError:
            continue
        if kind == "void":
            ledger.void(receipt)
        else:
            standing.append(charged)
        if standing:
            _check_total(ledger, "people", standing)
        sums = _sums(standing)
        if sums is not None:  # what is left of the sum adds up with what was paid
            spent = ledger.spent("people")[0]
            assert (
                spent is None
                or abs(Fraction(spent[0]) * EPSILON_UNIT - sums) <= len(wishes) * EPSILON_UNIT
            )
    ledger.verify()
    _check_export(ledger)


def _sums(standing: list[Charged]) -> Fraction | None:
    pairs = [total(summed_event(charged), basic_price) for charged in standing]
    return None if None in pairs else sum((pair[0] for pair in pairs if pair), Fraction(0))


def _check_export(ledger: Ledger) -> None:
    """The independent checker proves every pair again and counts the same."""
    text = io.StringIO()
    ledger.export(text)
    counted = check(text.getvalue().splitlines())
    for account in ledger.accounts():
        spent = [None if units is None else list(units) for units in account.spent]
        assert counted[account.name] == spent


def test_a_first_purchase_of_everything_is_granted_and_closes_the_account() -> None:
    ledger = memory_ledger()
    budget = Budget.for_epsilon_delta(epsilon=1, delta="1e-6")
    ledger.open_account("people", budget=budget)
    (charged,) = _purchases((Fraction(1), Fraction(1, 10**6) / SUMS_SHARE), [(1, 1, "noise")])
    assert _reserve(ledger, 1, charged, "people")
    assert ledger.account("people").budget == budget.sums_only()
    assert ledger.account("people").budget.loss() == budget.loss()
    assert ledger.remaining("people") == ((0, 0),)
    assert not _reserve(ledger, 2, PureEvent(epsilon=EPSILON_UNIT), "people")
    ledger.verify()


def test_a_used_account_keeps_its_filters() -> None:
    """The choice precedes every output: after any, the whole delta is not for sums alone."""
    ledger = memory_ledger()
    ledger.open_account("people", budget=Budget.for_epsilon_delta(epsilon=3, delta="1e-6"))
    assert _reserve(ledger, 1, PureEvent(epsilon=EPSILON_UNIT), "people")
    wish = ApproxEvent(epsilon=Fraction(1), delta=Fraction(95, 10**8))
    assert not _reserve(ledger, 2, wish, "people")


def test_a_returned_charge_mends_the_filter_that_it_broke() -> None:
    ledger = memory_ledger()
    ledger.open_account("people", budget=Budget.for_epsilon_delta(epsilon=3, delta="1e-6"))
    assert _reserve(ledger, 1, PureEvent(epsilon=Fraction(1, 10)), "people")
    receipt = ledger.reserve(
        ConcentratedEvent(rho=Fraction(1, 20)),
        accounts=["people"],
        principal="alice",
        request_id="2",
        body_digest=BODY,
    )
    assert ledger.spent("people")[0] is None
    ledger.void(receipt)
    assert ledger.spent("people") == ((100_000_000, 0), (5 * 10**15, 0))
    assert _reserve(ledger, 3, PureEvent(epsilon=Fraction(29, 10)), "people")
    ledger.verify()
    _check_export(ledger)
