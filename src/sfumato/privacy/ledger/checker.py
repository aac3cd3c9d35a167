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
from functools import lru_cache
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

    def count_sums_only(self, entry: dict[str, Any]) -> None:
        """Give the whole guarantee to one sum, which only an account without charges may do."""
        if self.events or self.spent != [[0] * len(limits or ()) for limits in self.limits]:
            raise ExportError(f"Entry {entry['seq']} changes how a used account is counted.")
        sums, concentrated = self.filters
        delta = sum(Fraction(spec["delta"]) for spec in self.filters)
        delta += Fraction(concentrated["conversion_delta"])
        guarantee = {"kind": "approx", "epsilon": sums["epsilon"], "delta": str(delta)}
        if entry["budget"]["filters"] != [guarantee] or sums["kind"] != "approx":
            raise ExportError(f"Entry {entry['seq']} changes the guarantee of an account.")
        self.limit(entry)

    def spend(self, event: dict[str, Any]) -> Amount:
        """Add the cost of an event, and return it."""
        charge = [
            _units(spec, event, limit)
            for spec, limit in zip(self.filters, self.limits, strict=True)
        ]
        self.spent = _cap(_combine(self.spent, charge, 1), self.limits)
        return charge

    def void(self, event: dict[str, Any], charge: Amount, *, recounts: bool) -> None:
        """Return a charge. Older entries leave a broken filter broken; newer ones recount it."""
        self.events.remove(event)
        if not recounts or None not in self.spent:
            self.spent = _combine(self.spent, charge, -1)
            return
        self.spent = [[0] * len(limits or ()) for limits in self.limits]
        for standing in self.events:
            self.spend(standing)


def _apply(
    entry: dict[str, Any], accounts: dict[str, CheckedAccount], pending: dict[int, dict[str, Any]]
) -> None:
    kind = entry["kind"]
    if kind in {"account", "limit"}:
        if (kind == "account") == (entry["account"] in accounts):
            raise ExportError(f"Entry {entry['seq']} opens an account twice or never.")
        accounts.setdefault(entry["account"], CheckedAccount()).limit(entry)
    elif kind == "sums":
        accounts[entry["account"]].count_sums_only(entry)
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
        _close(entry, accounts, pending)
    elif kind not in {"genesis", "dataset", "record", "rollback"}:
        raise ExportError(f"Entry {entry['seq']} is of the unknown kind {kind!r}.")


def _close(
    entry: dict[str, Any], accounts: dict[str, CheckedAccount], pending: dict[int, dict[str, Any]]
) -> None:
    """Close an open charge: by its answer, or by returning it."""
    if entry["charge"] not in pending:
        raise ExportError(f"Entry {entry['seq']} closes a charge that is not open.")
    charged = pending.pop(entry["charge"])
    if entry["kind"] == "answer":
        return
    for name, charge in charged["charges"].items():
        accounts[name].void(charged["event"], charge, recounts="spent" in entry)
    if "spent" in entry:
        spent = {name: accounts[name].spent for name in charged["charges"]}
        if entry["spent"] != spent:
            raise ExportError(f"Entry {entry['seq']} returns something else.")


def _units(
    spec: dict[str, str], event: dict[str, Any], limit: list[int] | None
) -> list[int] | None:
    """The units that an event costs in a filter, rounded up; None if they exceed the limit."""
    if event["kind"] == "purchase":
        _prove(json.dumps(event, sort_keys=True))
        sums = spec["kind"] in {"pure", "approx"}
        pair = {"kind": "approx", "epsilon": event["epsilon"], "delta": event["delta"]}
        event = pair if sums else event["event"]
    costs = _costs(spec, event)
    names = QUANTITIES[spec["kind"]]
    if costs is None:
        return None
    units = [-(-cost * PER_UNIT[name] // 1) for cost, name in zip(costs, names, strict=True)]
    return None if any(x > y for x, y in zip(units, limit or (), strict=True)) else units


@lru_cache(maxsize=4096)
def _prove(purchase: str) -> None:
    """Check that the event of a purchase keeps its pair, by sums or by zCDP."""
    record = json.loads(purchase)
    epsilon, delta = Fraction(record["epsilon"]), Fraction(record["delta"])
    sums = _costs({"kind": "approx"}, record["event"])
    if sums is not None and sums[0] <= epsilon and sums[1] <= delta:
        return
    rho, spent = _costs({"kind": "zcdp"}, record["event"]) or (Fraction(0), Fraction(1))
    if rho <= 0 or spent + _zcdp_delta(rho, epsilon) > delta:
        raise ExportError("A purchase states a pair that its event does not keep.")


def _zcdp_delta(rho: Fraction, epsilon: Fraction) -> Fraction:
    """The delta of zCDP at an epsilon, to 60 digits (Canonne, Kamath & Steinke 2020, Prop. 12).

    Any order above 1 gives a bound; the best one lies where the derivative in the order vanishes.
    """
    with localcontext(prec=60):
        r, e = (Decimal(x.numerator) / x.denominator for x in (rho, epsilon))
        low, high = Decimal("1e-30"), Decimal("1e30")
        for _ in range(200):  # halves the ratio of the bracket's ends
            excess = (low * high).sqrt()
            slope = r * (2 * excess + 1) + (excess / (1 + excess)).ln() - e
            low, high = (low, excess) if slope > 0 else (excess, high)
        exponent = high * (r * (1 + high) - e + (high / (1 + high)).ln()) - (1 + high).ln()
        return Fraction(min(exponent.exp(), Decimal(1)))


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
