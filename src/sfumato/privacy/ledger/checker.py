"""An independent checker of an exported ledger: `python checker.py EXPORT.jsonl`.

It shares no code with the ledger and needs only Python, so that a mistake in the ledger's own
arithmetic cannot hide here. It checks the hash chain, that every charge equals the cost of its
event, that no charge overspends, and the final head; it returns the spending of every account.

Amounts are lists, one item per filter of the account's budget: a list of whole units, or null once
the filter is broken. A charge is granted while at least one filter of each account is unbroken.
"""

from __future__ import annotations

import hashlib
import json
import sys
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

Amount = list[list[int] | None]

QUANTITIES = {
    "pure": ("epsilon",),
    "approx": ("epsilon", "delta"),
    "zcdp": ("rho", "delta"),
    "renyi": ("divergence",),
}
PER_UNIT = {"epsilon": 10**9, "divergence": 10**9, "rho": 10**18, "delta": 10**18}


class ExportError(Exception):
    """The export is damaged, incomplete or overspent."""


def check(lines: Iterable[str]) -> dict[str, Amount]:
    """Replay an export; return what was spent from each account, or raise `ExportError`."""
    previous, seq, head = "0" * 64, 0, None
    accounts: dict[str, CheckedAccount] = {}
    pending: dict[int, dict[str, Any]] = {}
    for line in lines:
        if head is not None:
            raise ExportError("There is a line after the head.")
        try:
            entry = json.loads(line)
            if "head" in entry:
                head = entry["head"]
                continue
            seq += 1
            claimed = entry.pop("hash")
            text = json.dumps(entry, sort_keys=True, separators=(",", ":"))
            previous = hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()
            if claimed != previous or entry["seq"] != seq:
                raise ExportError(f"Entry {seq} does not continue the chain.")
            _apply(entry, accounts, pending)
        except (ArithmeticError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ExportError(f"Entry {seq} cannot be read: {error!r}.") from None
    if head != {"hash": previous, "seq": seq}:
        raise ExportError(f"The head does not belong to the {seq} entries before it.")
    return {name: account.spent for name, account in accounts.items()}


class CheckedAccount:
    """The limits, the spending and the events of one account."""

    def __init__(self) -> None:
        self.filters: list[dict[str, str]] = []
        self.limits: Amount = []
        self.spent: Amount = []
        self.events: list[dict[str, Any]] = []

    def limit(self, entry: dict[str, Any]) -> None:
        """Set a new budget and recount every event so far under it."""
        self.filters = entry["budget"]["filters"]
        self.limits = [
            [Fraction(spec[name]) * PER_UNIT[name] // 1 for name in QUANTITIES[spec["kind"]]]
            for spec in self.filters
        ]
        self.spent = [[0] * len(limits or ()) for limits in self.limits]
        for event in self.events:
            self.spend(event)
        if (entry["limits"], entry["spent"]) != (self.limits, self.spent):
            raise ExportError(f"Entry {entry['seq']} does not follow from its budget.")

    def spend(self, event: dict[str, Any]) -> Amount:
        """Add the cost of an event, and return it."""
        charge = [
            _units(spec, event, limit)
            for spec, limit in zip(self.filters, self.limits, strict=True)
        ]
        self.spent = _cap(_combine(self.spent, charge, 1), self.limits)
        return charge


def _apply(
    entry: dict[str, Any], accounts: dict[str, CheckedAccount], pending: dict[int, dict[str, Any]]
) -> None:
    kind = entry["kind"]
    if kind in {"account", "limit"}:
        if (kind == "account") == (entry["account"] in accounts):
            raise ExportError(f"Entry {entry['seq']} opens an account twice or never.")
        accounts.setdefault(entry["account"], CheckedAccount()).limit(entry)
    elif kind in {"charge", "burn"}:
        for name, charge in entry["charges"].items():
            if accounts[name].spend(entry["event"]) != charge:
                raise ExportError(f"Entry {entry['seq']} charges {name!r} something else.")
            accounts[name].events.append(entry["event"])
            if kind == "charge" and not any(units is not None for units in accounts[name].spent):
                raise ExportError(f"Entry {entry['seq']} overspends account {name!r}.")
        if kind == "charge":
            pending[entry["seq"]] = entry
    elif kind in {"void", "answer"}:
        if entry["charge"] not in pending:
            raise ExportError(f"Entry {entry['seq']} closes a charge that is not open.")
        charged = pending.pop(entry["charge"])
        for name, charge in charged["charges"].items() if kind == "void" else ():
            accounts[name].spent = _combine(accounts[name].spent, charge, -1)
            accounts[name].events.remove(charged["event"])
    elif kind not in {"genesis", "dataset", "record", "rollback"}:
        raise ExportError(f"Entry {entry['seq']} is of the unknown kind {kind!r}.")


def _units(
    spec: dict[str, str], event: dict[str, Any], limit: list[int] | None
) -> list[int] | None:
    """The units that an event costs in a filter, rounded up; None if they exceed the limit."""
    costs = _costs(spec, event)
    names = QUANTITIES[spec["kind"]]
    if costs is None:
        return None
    units = [-(-cost * PER_UNIT[name] // 1) for cost, name in zip(costs, names, strict=True)]
    return None if any(x > y for x, y in zip(units, limit or (), strict=True)) else units


def _costs(spec: dict[str, str], event: dict[str, Any]) -> list[Fraction] | None:
    """The exact cost of an event; a person is in one part of a parallel one, or in two."""
    kind = event["kind"]
    if kind == "repeated":
        inner_costs = _costs(spec, event["event"])
        return None if inner_costs is None else [event["count"] * cost for cost in inner_costs]
    if kind not in {"composed", "parallel"}:
        return _leaf_costs(spec, event)
    branch_costs = [
        _costs(spec, branch) for branch in event["events" if kind == "composed" else "parts"]
    ]
    if any(costs is None for costs in branch_costs):
        return None
    branches_per_person = {"add-remove": 1, "replace-one": 2}
    counted = len(branch_costs) if kind == "composed" else branches_per_person[event["relation"]]
    columns = zip(*(costs for costs in branch_costs if costs is not None), strict=True)
    return [sum(sorted(column)[-counted:], Fraction(0)) for column in columns]


def _leaf_costs(spec: dict[str, str], event: dict[str, Any]) -> list[Fraction] | None:
    """The exact cost of one use of one mechanism; None if the filter cannot express it."""
    kind, delta = event["kind"], Fraction(event.get("delta", 0))
    epsilon = Fraction(event.get("epsilon", 0))
    if kind == "laplace-noise":
        epsilon = Fraction(event["l1_sensitivity"]) / Fraction(event["scale"])
    rho = epsilon**2 / (8 if kind == "exponential-choice" else 2)
    if kind == "concentrated":
        rho = Fraction(event["rho"])
    elif kind == "gaussian-noise":
        rho = Fraction(event["l2_sensitivity_squared"]) / (2 * Fraction(event["variance"]))
    elif spec["kind"] in {"pure", "approx"}:
        pure = spec["kind"] == "pure"
        return None if pure and delta else [epsilon] if pure else [epsilon, delta]
    if spec["kind"] == "zcdp":
        return [rho, delta]
    if spec["kind"] != "renyi" or delta:
        return None
    order = Fraction(spec["order"])
    if kind in {"gaussian-noise", "concentrated"}:
        return [order * rho]
    divergence = min(epsilon, _divergence(epsilon, order, event.get("categories", 2)))
    return [min(divergence, order * rho) if kind == "exponential-choice" else divergence]


def _divergence(epsilon: Fraction, order: Fraction, categories: int) -> Fraction:
    """The Renyi divergence of randomized response, to 60 digits: far more than a unit needs."""
    with localcontext(prec=60):
        e, a = (Decimal(x.numerator) / x.denominator for x in (epsilon, order))
        top = (a * e).exp() + ((1 - a) * e).exp() + categories - 2
        return Fraction((top / (e.exp() + categories - 1)).ln() / (a - 1))


def _combine(total: Amount, change: Amount, sign: int) -> Amount:
    return [
        None if a is None or b is None else [x + sign * y for x, y in zip(a, b, strict=True)]
        for a, b in zip(total, change, strict=True)
    ]


def _cap(total: Amount, limit: Amount) -> Amount:
    return [
        None if a is None or b is None or any(x > y for x, y in zip(a, b, strict=True)) else a
        for a, b in zip(total, limit, strict=True)
    ]


if __name__ == "__main__":
    with open(sys.argv[1], encoding="ascii") as export:  # noqa: PTH123 - no import needed
        sys.stdout.write(json.dumps(check(export), sort_keys=True) + "\n")
