"""What is left of a budget and what a question asks of it, in one line that a person reads."""

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

_DIGITS = 6


def left(budget: Budget, spent: Charge) -> dict[str, Fraction]:
    """The largest epsilon, rho and delta that one more question may cost.

    Several filters guard a budget, and a question needs the room of one of them only. Pure noise
    of epsilon takes epsilon^2 / 2 of a rho.
    """
    largest = {"epsilon": Fraction(0), "delta": Fraction(0)}
    for one, part in zip(budget.filters, budget.remaining(spent), strict=True):
        if part is None:
            continue
        amounts = {
            name: count * unit for count, (name, _, unit) in zip(part, one.limits, strict=True)
        }
        if "rho" in amounts:
            # The largest epsilon in whole units whose square is at most twice the rho.
            amounts["epsilon"] = isqrt(floor(2 * amounts["rho"] / EPSILON_UNIT**2)) * EPSILON_UNIT
        for name, amount in amounts.items():
            largest[name] = max(largest.get(name, Fraction(0)), amount)
    return largest


def balance(budget: Budget, spent: Charge) -> str:
    """What is left in one line: 'epsilon 2.5 of 3 left, delta 1e-6'; never more than there is.

    Of a delta that questions have used, what one of them may still use is told; before that, the
    delta of the budget.
    """
    now, (whole, untouched) = left(budget, spent), _whole(budget)
    told = f"epsilon {_cut(now['epsilon'])} of {_cut(whole.epsilon)} left"
    if not isinstance(whole, Approx):
        return told
    if now["delta"] == untouched:
        return f"{told}, delta {_cut(whole.delta)}"
    return f"{told}, delta {_cut(now['delta'])} of {_cut(whole.delta)} left"


@lru_cache(maxsize=256)
def _whole(budget: Budget) -> tuple[Pure | Approx, Fraction]:
    """What a budget promises, and the largest delta of its first question: found with effort."""
    return budget.loss(), left(budget, budget.zero())["delta"]


def asked(event: Event) -> str:
    """What an event costs: 'epsilon 0.3, delta 1e-6', or a rho where noise is Gaussian."""
    amounts = total(event, basic_price)
    name = "epsilon"
    if amounts is None:
        amounts, name = total(event, zcdp.price) or (), "rho"
    return ", ".join(
        f"{one} {plain(amount, digits=_DIGITS, up=True)}"
        for one, amount in zip((name, "delta"), amounts, strict=False)
        if amount
    )


def shortage(budget: Budget, spent: Charge, event: Event) -> str:
    """Why a budget cannot pay for an event, and what to do next."""
    line = f"this asks {asked(event)}, and there is {balance(budget, spent)}."
    needed, now = total(event, basic_price), left(budget, spent)
    delta = Fraction(0) if needed is None else needed[1]
    if (needed is None or delta) and not isinstance(_whole(budget)[0], Approx):
        what = "Gaussian noise" if needed is None else "It"
        return (
            f"{line} {what} needs a delta, and this budget has none: ask without {option('delta')} "
            f"and {option('rho')}, or let its owner give it one, such as {option('delta', 1e-6)} "
            "in 'sfumato ledger limit'."
        )
    if needed is None and "rho" not in now:
        return (
            f"{line} Gaussian noise is paid for with a rho, of which nothing is left since earlier "
            f"questions took more of it than there was: ask without {option('delta')} and "
            f"{option('rho')}, or ask its owner for budget."
        )
    if delta > now["delta"]:
        most = f"a delta of {_cut(now['delta'])}: give no more with {option('delta')}"
    elif needed is None:
        rho = now["rho"]
        most = f"a rho of {_cut(rho)}: give no more with {option('rho')}{_bought_by(budget, rho)}"
    else:
        return f"{line} Ask for less with {option('epsilon')}, or ask its owner for budget."
    return f"{line} One question may use at most {most}, or ask its owner for budget."


def _bought_by(budget: Budget, rho: Fraction) -> str:
    """What buys no more than a rho: less delta than the budget has, which is parted there."""
    filters = (one for one in budget.filters if isinstance(one, ZcdpFilter))
    delta = next(one.conversion_delta for one in filters)
    epsilon = zcdp_to_approx(Zcdp(rho=rho), delta=delta).epsilon
    told = plain(epsilon, digits=_DIGITS, up=True)
    if spendable_rho(epsilon=Fraction(told), delta=delta) > rho:
        told = _cut(epsilon)
    return f", which {option('epsilon', float(told))} {option('delta', float(_cut(delta)))} buys"


def _cut(amount: Fraction) -> str:
    return plain(amount, digits=_DIGITS)
