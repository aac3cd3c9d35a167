"""What is left of a budget, and why it cannot pay, in one line."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from sfumato.errors import as_keyword, spell
from sfumato.exact_numbers import EPSILON_UNIT
from sfumato.privacy.accounting.balance import (
    describe_balance,
    describe_cost,
    explain_shortage,
    largest_epsilon,
    purchase_table,
    remaining_amounts,
)
from sfumato.privacy.accounting.events import (
    ApproxEvent,
    ConcentratedEvent,
    GaussianNoise,
    PureEvent,
)
from sfumato.privacy.accounting.filters import Budget, Charge, RenyiFilter
from sfumato.privacy.accounting.losses import spendable_rho
from sfumato.privacy.accounting.price import price
from sfumato.privacy.accounting.purchase import Charged, Purchase
from sfumato.privacy.ledger.chain import Account
from sfumato.privacy.ledger.rules import charge_account
from sfumato.privacy.mechanisms.spending import spendings

PURE = Budget.for_epsilon_delta(epsilon=3)
BOTH = Budget.for_epsilon_delta(epsilon=3, delta="1e-6")


def spent(budget: Budget, *events: Charged) -> Charge:
    found = budget.zero()
    for event in events:
        found = budget.add(found, budget.charge(event))
    return found


def pure(epsilon: str) -> PureEvent:
    return PureEvent(epsilon=Fraction(epsilon))


def approx(epsilon: str, delta: str) -> ApproxEvent:
    return ApproxEvent(epsilon=Fraction(epsilon), delta=Fraction(delta))


def bought(epsilon: str, delta: str) -> Purchase:
    rho = spendable_rho(epsilon=Fraction(epsilon), delta=Fraction(delta))
    event = ConcentratedEvent(rho=rho)
    return Purchase(event=event, epsilon=Fraction(epsilon), delta=Fraction(delta))


def gaussian(rho: str) -> GaussianNoise:
    return GaussianNoise(variance=1 / (2 * Fraction(rho)), l2_sensitivity_squared=Fraction(1))


@pytest.mark.parametrize(
    ("budget", "events", "line"),
    [
        (PURE, (), "epsilon 3 of 3 left"),
        (PURE, (pure("0.1"), pure("0.2")), "epsilon 2.7 of 3 left"),
        (PURE, (pure("1/3"),), "epsilon 2.66666 of 3 left"),
        (BOTH, (), "epsilon 3 of 3 left, delta 1e-6"),
        (BOTH, (pure("0.5"),), "epsilon 2.5 of 3 left, delta 9e-7 left"),
        (BOTH, (approx("0.5", "1e-7"),), "epsilon 2.5 of 3 left, delta 8e-7 left"),
        (
            BOTH,
            (bought("1", "1e-7"),),
            "epsilon 2 of 3 left (2.70839 with delta 1e-7), delta 8e-7 left",
        ),
    ],
)
def test_what_is_left_is_one_line(budget: Budget, events: tuple[Charged, ...], line: str) -> None:
    assert describe_balance(budget, spent(budget, *events)) == line


def test_no_more_is_told_than_there_is() -> None:
    """After Gaussian noise an epsilon is bought with a rho: the largest, and no unit more."""
    used = spent(BOTH, gaussian("0.1"))
    most = remaining_amounts(BOTH, used)["epsilon"]
    assert BOTH.admits(used, BOTH.charge(PureEvent(epsilon=most)))
    assert not BOTH.admits(used, BOTH.charge(PureEvent(epsilon=most + Fraction(1, 10**9))))


@pytest.mark.parametrize(
    ("used", "delta"),
    [
        *((None, delta) for delta in ("0", "1e-9", "1e-7", "9e-7", "9.5e-7", "1e-6")),
        *(("0.1", delta) for delta in ("0", "1e-9", "1e-7", "9e-7")),
    ],
)
def test_the_largest_purchase_that_is_told_is_the_largest_that_is_granted(
    used: str | None, delta: str
) -> None:
    budget = Budget.for_epsilon_delta(epsilon=1, delta="1e-6")
    account = Account("a", None, budget, spent(budget, *([pure(used)] if used else [])))
    largest = largest_epsilon(budget, account.spent, Fraction(delta))

    def is_granted(epsilon: Fraction) -> bool:
        charged = pure(str(epsilon)) if delta == "0" else bought(str(epsilon), delta)
        return charge_account(account, charged) is not None

    assert is_granted(largest)
    # The conversion between epsilon and rho is rounded against us, by a unit at most.
    assert not is_granted(largest + 2 * EPSILON_UNIT)


@pytest.mark.parametrize("used", [(), ("0.1",), ("0.1", "0.5")])
def test_each_line_of_the_table_is_the_largest_purchase_of_its_delta(used: tuple[str, ...]) -> None:
    budget = Budget.for_epsilon_delta(epsilon=1, delta="1e-6")
    account = Account("a", None, budget, spent(budget, *map(pure, used)))
    lines = purchase_table(budget, account.spent)
    assert [line["delta"] for line in lines][:4] == ["0", "1e-9", "1e-8", "1e-7"]
    for line in lines:
        epsilon, delta = line["epsilon"], line["delta"]
        slightly_more = str(Fraction(epsilon) + Fraction(1, 10**5))
        for asked, granted in ((epsilon, True), (slightly_more, False)):
            charged = pure(asked) if delta == "0" else bought(asked, delta)
            assert (charge_account(account, charged) is not None) is granted, (asked, delta)


def test_a_budget_without_sums_tells_no_delta_for_them() -> None:
    renyi = RenyiFilter(
        order=Fraction(8), divergence=Fraction(1), conversion_delta=Fraction(1, 10**6)
    )
    budget = Budget((renyi,))
    assert remaining_amounts(budget, budget.zero())["delta"] == 0


def test_what_is_asked_is_told_as_people_write_it() -> None:
    assert describe_cost(pure("3/10")) == "epsilon 0.3"
    assert describe_cost(approx("1/3", "1e-6")) == "epsilon 0.333334, delta 1e-6"
    assert describe_cost(gaussian("0.02")) == "rho 0.02"


def test_a_shortage_of_rho_alone_says_to_ask_without() -> None:
    """A large epsilon has broken the filter of rhos, while epsilons are left in the other."""
    told = explain_shortage(BOTH, spent(BOTH, pure("1")), gaussian("0.01"))
    assert "epsilon 2 of 3 left" in told
    assert "ask without delta= and rho=" in spell(told, as_keyword)


@pytest.mark.parametrize(
    ("budget", "event", "said"),
    [
        (PURE, pure("4"), ("costs epsilon 4", "epsilon 3 of 3 left", "Ask for less with epsilon=")),
        (
            PURE,
            approx("1", "1e-6"),
            ("costs epsilon 1, delta 1e-6", "needs a delta", "delta=1e-6"),
        ),
        (PURE, gaussian("0.1"), ("costs rho 0.1", "needs a delta")),
        (BOTH, approx("4", "1e-7"), ("at most a delta of 1e-6", "delta=")),
        (BOTH, approx("1", "1e-5"), ("at most a delta of 1e-6", "delta=")),
        (
            BOTH,
            bought("4", "1e-7"),
            ("costs epsilon 4,", "at most epsilon 3 with delta 1e-7"),
        ),
        (BOTH, gaussian("1"), ("costs rho 1;", "at most a rho of 0.1", "rho=")),
    ],
)
def test_a_shortage_says_what_was_asked_what_is_left_and_what_to_do(
    budget: Budget, event: Charged, said: tuple[str, ...]
) -> None:
    told = spell(explain_shortage(budget, budget.zero(), event), as_keyword)
    assert all(one in told for one in said), told


@pytest.mark.parametrize("used", ["0", "1/30", "1/1000"])
@pytest.mark.parametrize("whole", [("1", "1e-6"), ("3", "1e-6"), ("0.7", "1/30000")])
def test_what_a_shortage_says_would_be_paid_is_paid(whole: tuple[str, str], used: str) -> None:
    """A price of all that a budget is, as Gaussian noise, is refused: its delta is parted."""
    budget = Budget.for_epsilon_delta(epsilon=whole[0], delta=whole[1])
    before = spent(budget, *([gaussian(used)] if used != "0" else []))
    asking = price(epsilon=whole[0], delta=whole[1])
    event = ConcentratedEvent(rho=spendings(asking)[-1].rho or Fraction(0))
    assert not budget.admits(before, budget.charge(event))
    if "rho" not in remaining_amounts(budget, before):
        return
    told = spell(explain_shortage(budget, before, event), as_keyword)
    said = re.search("which epsilon=(.*) delta=(.*) buys", told)
    assert said is not None
    paid = spendings(price(epsilon=said[1], delta=said[2]))[-1].rho
    assert paid is not None
    assert budget.admits(before, budget.charge(ConcentratedEvent(rho=paid)))
    if used == "0":
        assert said[1] == whole[0]
