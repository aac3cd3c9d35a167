"""Sentences about a budget: how much remains, what a question costs, why it cannot be paid."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import floor, isqrt
from typing import TYPE_CHECKING

from sfumato.errors import option
from sfumato.exact_numbers import EPSILON_UNIT, plain
from sfumato.privacy.accounting import zcdp
from sfumato.privacy.accounting.composition import basic_price, total
from sfumato.privacy.accounting.filters import ZcdpFilter
from sfumato.privacy.accounting.losses import Approx, Zcdp, spendable_rho, zcdp_to_approx

if TYPE_CHECKING:
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.accounting.filters import Budget, Charge
    from sfumato.privacy.accounting.losses import Pure

# Significant digits shown. A remainder is rounded down and a cost up, so that a reader who takes
# the shown numbers literally never overspends.
_DIGITS = 6


def remaining_amounts(budget: Budget, spent: Charge) -> dict[str, Fraction]:
    """Compute the largest epsilon, rho and delta that one more question may cost.

    A question needs room in one of the budget's filters only, so each amount is the largest over
    the unbroken filters. Amounts of different names need not be available together.

    Parameters
    ----------
    budget : Budget
        The filters and their limits.
    spent : Charge
        The units spent so far in each filter.

    Returns
    -------
    dict of str to Fraction
        "epsilon" and "delta" always, "rho" while a zCDP filter is unbroken.
    """
    largest = {"epsilon": Fraction(0), "delta": Fraction(0)}
    for budget_filter, counts in zip(budget.filters, budget.remaining(spent), strict=True):
        if counts is None:
            continue
        amounts = {
            name: count * unit
            for count, (name, _, unit) in zip(counts, budget_filter.limits, strict=True)
        }
        if "rho" in amounts:
            # Pure epsilon costs epsilon^2 / 2 of rho (Bun & Steinke 2016, Proposition 1.4), so
            # this is the largest epsilon, in whole units, with epsilon^2 <= 2 rho.
            amounts["epsilon"] = isqrt(floor(2 * amounts["rho"] / EPSILON_UNIT**2)) * EPSILON_UNIT
        for name, amount in amounts.items():
            largest[name] = max(largest.get(name, Fraction(0)), amount)
    return largest


def describe_balance(budget: Budget, spent: Charge) -> str:
    """Describe what remains in one line, rounded down: 'epsilon 2.5 of 3 left, delta 1e-6'.

    The delta is that of the budget until a question has used some of it; then it is the largest
    delta that one more question may use.
    """
    remaining, (guarantee, full_delta) = remaining_amounts(budget, spent), _full_budget(budget)
    sentence = f"epsilon {_floored(remaining['epsilon'])} of {_floored(guarantee.epsilon)} left"
    if not isinstance(guarantee, Approx):
        return sentence
    if remaining["delta"] == full_delta:
        return f"{sentence}, delta {_floored(guarantee.delta)}"
    return f"{sentence}, delta {_floored(remaining['delta'])} of {_floored(guarantee.delta)} left"


@lru_cache(maxsize=256)
def _full_budget(budget: Budget) -> tuple[Pure | Approx, Fraction]:
    """The guarantee of a budget, and the largest delta of its first question.

    Cached, because the conversion from zCDP searches for the best order.
    """
    return budget.loss(), remaining_amounts(budget, budget.zero())["delta"]


def describe_cost(event: Event) -> str:
    """Describe the cost of an event: 'epsilon 0.3, delta 1e-6', or a rho for Gaussian noise."""
    amounts = total(event, basic_price)
    name = "epsilon"
    if amounts is None:
        amounts, name = total(event, zcdp.price) or (), "rho"
    return ", ".join(
        f"{quantity} {plain(amount, digits=_DIGITS, up=True)}"
        for quantity, amount in zip((name, "delta"), amounts, strict=False)
        if amount
    )


def explain_shortage(budget: Budget, spent: Charge, event: Event) -> str:
    """Explain why a budget cannot pay for an event, and what to do next."""
    line = f"this asks {describe_cost(event)}, and there is {describe_balance(budget, spent)}."
    needed, remaining = total(event, basic_price), remaining_amounts(budget, spent)
    delta = Fraction(0) if needed is None else needed[1]
    if (needed is None or delta) and not isinstance(_full_budget(budget)[0], Approx):
        subject = "Gaussian noise" if needed is None else "It"
        return (
            f"{line} {subject} needs a delta, and this budget has none: ask without "
            f"{option('delta')} and {option('rho')}, or let its owner give it one, such as "
            f"{option('delta', 1e-6)} in 'sfumato ledger limit'."
        )
    if needed is None and "rho" not in remaining:
        return (
            f"{line} Gaussian noise is paid for with a rho, of which nothing is left since earlier "
            f"questions took more of it than there was: ask without {option('delta')} and "
            f"{option('rho')}, or ask its owner for budget."
        )
    if delta > remaining["delta"]:
        maximum = f"a delta of {_floored(remaining['delta'])}: give no more with {option('delta')}"
    elif needed is None:
        rho = remaining["rho"]
        maximum = (
            f"a rho of {_floored(rho)}: give no more with {option('rho')}{_equivalent(budget, rho)}"
        )
    else:
        return f"{line} Ask for less with {option('epsilon')}, or ask its owner for budget."
    return f"{line} One question may use at most {maximum}, or ask its owner for budget."


def _equivalent(budget: Budget, rho: Fraction) -> str:
    """Name an epsilon and delta, as options, that buy at most this rho.

    The delta is the zCDP filter's conversion delta, which is only a part of the budget's delta.
    """
    zcdp_filters = (
        budget_filter for budget_filter in budget.filters if isinstance(budget_filter, ZcdpFilter)
    )
    delta = next(budget_filter.conversion_delta for budget_filter in zcdp_filters)
    epsilon = zcdp_to_approx(Zcdp(rho=rho), delta=delta).epsilon
    epsilon_text = plain(epsilon, digits=_DIGITS, up=True)
    if spendable_rho(epsilon=Fraction(epsilon_text), delta=delta) > rho:
        epsilon_text = _floored(epsilon)
    delta_option = option("delta", float(_floored(delta)))
    return f", which {option('epsilon', float(epsilon_text))} {delta_option} buys"


def _floored(amount: Fraction) -> str:
    return plain(amount, digits=_DIGITS)
