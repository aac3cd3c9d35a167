"""One of many processes that race for a budget: prints what became of each attempt."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

from sfumato.errors import BudgetError
from sfumato.privacy.accounting.events import PureEvent
from sfumato.privacy.ledger.base import Ledger
from sfumato.privacy.ledger.chain import digest
from sfumato.privacy.ledger.commit import OutsideHead
from sfumato.privacy.ledger.sql.postgres import postgres_store
from sfumato.privacy.ledger.sql.sqlite import sqlite_store


def say(outcome: str, cost: str) -> None:
    sys.stdout.write(f"{outcome} {cost}\n")
    sys.stdout.flush()


def main(kind: str, address: str, head: str, worker: str, *costs: str) -> None:
    store = sqlite_store(Path(address)) if kind == "sqlite" else postgres_store(address)
    # Many processes on few cores may hold each other up for long.
    ledger = Ledger(store, head=OutsideHead(Path(head), timeout_seconds=200))
    sys.stdin.readline()
    for number, cost in enumerate(costs):
        try:
            receipt = ledger.reserve(
                PureEvent(epsilon=Fraction(int(cost), 10**9)),
                accounts=[f"visits/{int(worker) % 4}"],
                principal=worker,
                request_id=str(number),
                body_digest=digest(b""),
            )
        except BudgetError:
            say("refused", cost)
            continue
        if number % 3 == 0:
            ledger.store(receipt, cost.encode())
        say("granted", cost)
    ledger.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
