"""Spending by principal: which charges used a population's budget, and when, for its owner."""

from __future__ import annotations

import json
from datetime import datetime
from fractions import Fraction
from math import isqrt
from typing import TYPE_CHECKING, NamedTuple

from sfumato.exact_numbers import EPSILON_UNIT
from sfumato.privacy.accounting import zcdp
from sfumato.privacy.accounting.balance import describe_cost
from sfumato.privacy.accounting.composition import basic_price, total
from sfumato.privacy.accounting.event_records import from_record
from sfumato.privacy.accounting.purchase import event_of, summed_event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.privacy.accounting.purchase import Charged
    from sfumato.privacy.ledger.base import Ledger

LOST = "lost with the ledger"
"""The principal of budget that was burnt because nobody knows who spent it."""


class Spent(NamedTuple):
    """One charge: its entry, when, by whom, of which accounts, and how much."""

    entry: int
    time: datetime
    principal: str
    accounts: tuple[str, ...]
    cost: str
    """In words: an epsilon and a delta, or a rho."""
    epsilon: Fraction
    """For a picture: of a rho, the epsilon of pure noise that takes as much."""


def spending(ledger: Ledger) -> list[Spent]:
    """Every charge that stands, oldest first; what was given back is not among them."""
    charges: dict[int, Spent] = {}
    for entry in ledger.entries():
        record = json.loads(entry.body)
        if record["kind"] in ("charge", "burn"):
            event = from_record(record["event"])
            charges[entry.seq] = Spent(
                entry.seq,
                datetime.fromisoformat(record["time"]),
                record.get("principal", LOST),
                tuple(sorted(record["charges"])),
                describe_cost(event),
                _epsilon(event),
            )
        elif record["kind"] == "void":
            charges.pop(record["charge"], None)
    return list(charges.values())


def of_population(spent: Sequence[Spent], population: str) -> list[Spent]:
    """Those that the people of a population paid with their own budget."""
    return [charge for charge in spent if population in charge.accounts]


def by_principal(spent: Sequence[Spent]) -> dict[str, tuple[int, Fraction]]:
    """How often each principal spent, and how much in all, the most first."""
    sums: dict[str, tuple[int, Fraction]] = {}
    for charge in spent:
        often, epsilon = sums.get(charge.principal, (0, Fraction(0)))
        sums[charge.principal] = often + 1, epsilon + charge.epsilon
    return dict(sorted(sums.items(), key=lambda pair: (-pair[1][1], pair[0])))


def _epsilon(charged: Charged) -> Fraction:
    pair = total(summed_event(charged), basic_price)
    if pair is not None:
        return pair[0]
    rho, *_ = total(event_of(charged), zcdp.price) or (Fraction(0),)
    return isqrt(int(2 * rho / EPSILON_UNIT**2)) * EPSILON_UNIT
