"""An independent reader of an exported ledger: `python checker.py EXPORT.jsonl`.

It shares no code with the ledger and needs nothing but Python. It checks that every line continues
the hash chain, that no charge overspends, and that the last line is the head of the chain; it
returns what was spent from every account.

Amounts are lists, one item per filter of the account's budget: a list of whole units, or null once
the filter is broken. A charge is granted while at least one filter of each account is unbroken.
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

Amount = list[list[int] | None]


class ExportError(Exception):
    """The export is not what an honest ledger wrote."""


def check(lines: Iterable[str]) -> dict[str, Amount]:
    """Replay an export; return what was spent from each account, or raise `ExportError`."""
    previous, seq = "0" * 64, 0
    limits: dict[str, Amount] = {}
    spent: dict[str, Amount] = {}
    pending: dict[int, dict[str, Amount]] = {}
    head = None
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
            _apply(entry, limits, spent, pending)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ExportError(f"Entry {seq} cannot be read: {error!r}.") from None
    if head != {"hash": previous, "seq": seq}:
        raise ExportError(f"The head does not belong to the {seq} entries before it.")
    return spent


def _apply(
    entry: dict[str, Any],
    limits: dict[str, Amount],
    spent: dict[str, Amount],
    pending: dict[int, dict[str, Amount]],
) -> None:
    kind = entry["kind"]
    if kind in {"account", "limit"}:
        if (kind == "account") == (entry["account"] in limits):
            raise ExportError(f"Entry {entry['seq']} opens an account twice or never.")
        limits[entry["account"]] = entry["limits"]
        spent[entry["account"]] = entry["spent"]
    elif kind in {"charge", "burn"}:
        for name, charge in entry["charges"].items():
            spent[name] = _cap(_combine(spent[name], charge, 1), limits[name])
            if kind == "charge" and not any(part is not None for part in spent[name]):
                raise ExportError(f"Entry {entry['seq']} overspends account {name!r}.")
        if kind == "charge":
            pending[entry["seq"]] = entry["charges"]
    elif kind in {"void", "answer"}:
        if entry["charge"] not in pending:
            raise ExportError(f"Entry {entry['seq']} closes a charge that is not open.")
        charges = pending.pop(entry["charge"])
        for name, charge in charges.items() if kind == "void" else ():
            spent[name] = _combine(spent[name], charge, -1)
    elif kind not in {"genesis", "dataset", "rollback"}:
        raise ExportError(f"Entry {entry['seq']} is of the unknown kind {kind!r}.")


def _combine(have: Amount, more: Amount, sign: int) -> Amount:
    return [
        None if a is None or b is None else [x + sign * y for x, y in zip(a, b, strict=True)]
        for a, b in zip(have, more, strict=True)
    ]


def _cap(total: Amount, limit: Amount) -> Amount:
    return [
        None if a is None or b is None or any(x > y for x, y in zip(a, b, strict=True)) else a
        for a, b in zip(total, limit, strict=True)
    ]


if __name__ == "__main__":
    with open(sys.argv[1], encoding="ascii") as export:  # noqa: PTH123 - no import needed
        sys.stdout.write(json.dumps(check(export), sort_keys=True) + "\n")
