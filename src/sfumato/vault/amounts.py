"""What is left of budgets, in the numbers that people ask with."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sfumato.ledger.base import Ledger
    from sfumato.ledger.book import Account


def left(account: Account) -> dict[str, float]:
    """The largest epsilon, rho and delta that one more question may cost.

    Several filters guard a budget, and a question needs the room of one of them only. Pure noise
    of epsilon takes epsilon^2 / 2 of a rho.
    """
    largest: dict[str, float] = {"epsilon": 0.0, "delta": 0.0}
    parts = account.budget.remaining(account.spent)
    for one, part in zip(account.budget.filters, parts, strict=True):
        if part is None:
            continue
        amounts = {
            name: float(count * unit)
            for count, (name, _, unit) in zip(part, one.limits, strict=True)
        }
        if "rho" in amounts:
            amounts["epsilon"] = sqrt(2 * amounts["rho"])
        for name, amount in amounts.items():
            largest[name] = max(largest.get(name, 0.0), amount)
    return largest


def remaining(ledger: Ledger, names: Iterable[str]) -> Mapping[str, float]:
    """What one more question that is charged to all these accounts may cost."""
    found = [left(ledger.account(name)) for name in names]
    shared = set.intersection(*(set(one) for one in found))
    return {
        name: min(one[name] for one in found)
        for name in ("epsilon", "delta", "rho")
        if name in shared
    }
