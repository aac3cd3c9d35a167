"""Sentences about a budget: how much remains, what a question costs, why it cannot be paid."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import floor, isqrt
from typing import TYPE_CHECKING

from sfumato.errors import option
from sfumato.exact_numbers import DELTA_UNIT, EPSILON_UNIT, floor_units, plain
from sfumato.privacy.accounting import zcdp
from sfumato.privacy.accounting.composition import basic_price, total
from sfumato.privacy.accounting.events import Composed
from sfumato.privacy.accounting.filters import ZcdpFilter
from sfumato.privacy.accounting.losses import Approx, Zcdp, spendable_rho, zcdp_to_approx
from sfumato.privacy.accounting.purchase import Purchase, event_of, summed_event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.privacy.accounting.filters import Budget, Charge
    from sfumato.privacy.accounting.losses import Pure
    from sfumato.privacy.accounting.purchase import Charged

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
        "epsilon", of a question without a delta, and "delta" always; "rho" while a zCDP filter is
        unbroken.
    """
    largest = {"epsilon": largest_epsilon(budget, spent), "delta": Fraction(0)}
    if _may_count_sums_only(budget, spent) is not None:
        largest["delta"] = _guarantee(budget)[1]
    for budget_filter, counts in zip(budget.filters, budget.remaining(spent), strict=True):
        if counts is None:
            continue
        for count, (name, _, unit) in zip(counts, budget_filter.limits, strict=True):
            if name in {"rho", "delta"}:
                largest[name] = max(largest.get(name, Fraction(0)), count * unit)
    return largest


def largest_epsilon(budget: Budget, spent: Charge, delta: Fraction = Fraction(0)) -> Fraction:
    """Compute the largest epsilon that one more purchase with this delta may cost.

    A sum has room for what it has left. A rho has room for the largest epsilon whose Gaussian noise
    costs no more: without a delta epsilon^2 / 2 (Bun & Steinke 2016, Proposition 1.4), else by the
    conversion to which methods calibrate their noise.
    """
    sums = _may_count_sums_only(budget, spent)
    largest = Fraction(0) if sums is None else largest_epsilon(sums, sums.zero(), delta)
    for budget_filter, counts in zip(budget.filters, budget.remaining(spent), strict=True):
        if counts is None:
            continue
        amounts = {
            name: count * unit
            for count, (name, _, unit) in zip(counts, budget_filter.limits, strict=True)
        }
        if "rho" in amounts:
            largest = max(largest, _epsilon_of_rho(amounts["rho"], delta))
        elif "epsilon" in amounts and delta <= amounts.get("delta", 0):
            largest = max(largest, amounts["epsilon"])
    return largest


def _may_count_sums_only(budget: Budget, spent: Charge) -> Budget | None:
    """The budget that a first charge may turn this one into: its whole delta for sums."""
    return budget.sums_only() if spent == budget.zero() else None


@lru_cache(maxsize=1024)
def _epsilon_of_rho(rho: Fraction, delta: Fraction) -> Fraction:
    if delta == 0 or rho == 0:
        return isqrt(floor(2 * rho / EPSILON_UNIT**2)) * EPSILON_UNIT
    epsilon = zcdp_to_approx(Zcdp(rho=rho), delta=delta).epsilon
    epsilon = floor_units(epsilon, EPSILON_UNIT) * EPSILON_UNIT
    # The conversion rounds up; at most a unit of epsilon is too much.
    return epsilon if spendable_rho(epsilon=epsilon, delta=delta) <= rho else epsilon - EPSILON_UNIT


def purchase_table(budget: Budget, spent: Charge) -> list[dict[str, str]]:
    """List the largest epsilon of one more purchase at several deltas, rounded down.

    The deltas are 0, a thousandth, a hundredth and a tenth of the budget's, and all that is left.
    """
    total_delta = _guarantee(budget)[1]
    deltas = {Fraction(0), remaining_amounts(budget, spent)["delta"]} | {
        floor_units(total_delta / share, DELTA_UNIT) * DELTA_UNIT for share in (1000, 100, 10)
    }
    return [
        {"delta": _floored(delta), "epsilon": _floored(largest_epsilon(budget, spent, delta))}
        for delta in sorted(deltas)
    ]


def describe_balance(budget: Budget, spent: Charge) -> str:
    """Describe what remains in one line, rounded down: 'epsilon 2.5 of 3 left, delta 1e-6'.

    The epsilon is what remains of the sum, so purchases and the line add up. Where Gaussian noise
    may cost more than that, its largest epsilon follows, at a tenth of the budget's delta.
    """
    guarantee, total_delta = _guarantee(budget)
    remaining = remaining_amounts(budget, spent)
    line = f"epsilon {_floored(remaining['epsilon'])} of {_floored(guarantee.epsilon)} left"
    if not total_delta:
        return line
    if spent == budget.zero():
        return f"{line}, delta {_floored(total_delta)}"
    usual = floor_units(total_delta / 10, DELTA_UNIT) * DELTA_UNIT
    with_delta = largest_epsilon(budget, spent, usual)
    if with_delta > remaining["epsilon"]:
        line += f" ({_floored(with_delta)} with delta {_floored(usual)})"
    return f"{line}, delta {_floored(remaining['delta'])} left"


@lru_cache(maxsize=256)
def _guarantee(budget: Budget) -> tuple[Pure | Approx, Fraction]:
    """The guarantee of a budget and its delta; cached, because a conversion searches an order."""
    loss = budget.loss()
    return loss, loss.delta if isinstance(loss, Approx) else Fraction(0)


def describe_cost(charged: Charged) -> str:
    """Describe a cost: 'epsilon 0.3, delta 1e-6', or a rho for Gaussian noise without a pair."""
    amounts = total(summed_event(charged), basic_price)
    name = "epsilon"
    if amounts is None:
        amounts, name = total(event_of(charged), zcdp.price) or (), "rho"
    return ", ".join(
        f"{quantity} {plain(amount, digits=_DIGITS, up=True)}"
        for quantity, amount in zip((name, "delta"), amounts, strict=False)
        if amount
    )


def describe_costs(charges: Sequence[Charged]) -> str:
    """Describe what charges cost together: the sum of their pairs, or else of their rhos."""
    events = [summed_event(charged) for charged in charges]
    if any(total(event, basic_price) is None for event in events):
        events = [event_of(charged) for charged in charges]
    return describe_cost(Composed(tuple(events)))


def explain_shortage(budget: Budget, spent: Charge, charged: Charged) -> str:
    """Explain why a budget cannot pay for a charge, and what to do next."""
    balance = describe_balance(budget, spent)
    line = f"this request costs {describe_cost(charged)}; the budget has {balance}."
    pair, remaining = total(summed_event(charged), basic_price), remaining_amounts(budget, spent)
    delta = Fraction(0) if pair is None else pair[1]
    if (pair is None or delta) and not _guarantee(budget)[1]:
        subject = "Gaussian noise" if pair is None else "It"
        return (
            f"{line} {subject} needs a delta, and this budget has none: ask without "
            f"{option('delta')} and {option('rho')}, or let its owner give it one, such as "
            f"{option('delta', 1e-6)} in 'sfumato ledger limit'."
        )
    if pair is None and "rho" not in remaining:
        return (
            f"{line} Gaussian noise is paid for with a rho, of which nothing is left since earlier "
            f"questions took more of it than there was: ask without {option('delta')} and "
            f"{option('rho')}, or ask its owner for budget."
        )
    if pair is None:
        rho = remaining["rho"]
        most = (
            f"a rho of {_floored(rho)}: give no more with {option('rho')}{_equivalent(budget, rho)}"
        )
    elif isinstance(charged, Purchase) and (largest := largest_epsilon(budget, spent, delta)):
        most = (
            f"epsilon {_floored(largest)} with delta {_floored(delta)}: give no more with "
            f"{option('epsilon')}"
        )
    elif delta:
        most = f"a delta of {_floored(remaining['delta'])}: give no more with {option('delta')}"
    else:
        return f"{line} Ask for less with {option('epsilon')}, or ask its owner for budget."
    return f"{line} One question may use at most {most}, or ask its owner for budget."


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
