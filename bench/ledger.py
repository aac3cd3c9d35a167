"""How many durable charges a second the ledger takes, and how fast it verifies itself."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.privacy.accounting.event_records import to_record
from sfumato.privacy.accounting.events import PureEvent
from sfumato.privacy.accounting.filters import Budget, charge_from_record
from sfumato.privacy.ledger.base import Ledger
from sfumato.privacy.ledger.chain import ChargeRequest, Draft, digest, utc_now
from sfumato.privacy.ledger.commit import OutsideHead
from sfumato.privacy.ledger.rules import cost, known
from sfumato.privacy.ledger.rules import store as store_answer
from sfumato.privacy.ledger.sql.sqlite import create_sqlite, sqlite_store

if TYPE_CHECKING:
    from collections.abc import Iterator

_EVENT = PureEvent(epsilon=Fraction(1, 10**6))
_BODY = digest(b"")


def rows() -> list[dict[str, object]]:
    """Measure everything; the rate of bare syncs says what this disk can do at all."""
    return [
        _row("syncs of 512 bytes, bare", "per second", _bare_syncs(500), None),
        _row("charges, one writer", "per second", _one_writer(1000), 300),
        _row("charges, 32 threads, group commit", "per second", _threads(32, 200), 2000),
        _row("verify 1,000,000 entries", "seconds", _verify(1_000_000), 20),
    ]


def _row(name: str, unit: str, value: float, wanted: float | None) -> dict[str, object]:
    return {"name": f"ledger: {name}", "unit": unit, "value": value, "wanted": wanted}


def _bare_syncs(count: int) -> float:
    with tempfile.TemporaryFile() as file:
        start = time.perf_counter()
        for _ in range(count):
            os.pwrite(file.fileno(), bytes(512), 0)
            os.fdatasync(file.fileno())
        return count / (time.perf_counter() - start)


@contextmanager
def _ledger() -> Iterator[tuple[Path, Ledger]]:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "head").mkdir()
        path = Path(folder) / "ledger.sqlite"
        ledger = create_sqlite(path, head=Path(folder) / "head" / "head")
        budget = Budget.for_epsilon_delta(epsilon=10, delta="1/1000000")
        ledger.open_account("visits", budget=budget)
        ledger.open_account("visits/alice", budget=budget, parent="visits")
        yield path, ledger
        ledger.close()


def _charge(ledger: Ledger, request_id: str) -> None:
    ledger.reserve(
        _EVENT,
        accounts=["visits/alice"],
        principal="alice",
        request_id=request_id,
        body_digest=_BODY,
    )


def _one_writer(count: int) -> float:
    with _ledger() as (_, ledger):
        start = time.perf_counter()
        for number in range(count):
            _charge(ledger, str(number))
        return count / (time.perf_counter() - start)


def _threads(threads: int, count: int) -> float:
    def work(thread: int) -> None:
        for number in range(count):
            _charge(ledger, f"{thread}-{number}")

    with _ledger() as (_, ledger):
        workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return threads * count / (time.perf_counter() - start)


def _verify(entries: int) -> float:
    """Fill a ledger with charges and answers in large transactions, then let it verify itself."""
    with _ledger() as (path, _):
        store, head = sqlite_store(path), OutsideHead(path.parent / "head" / "head")
        written = 3
        while written < entries:
            batch = min(25_000, (entries - written + 1) // 2)
            with store.writing() as writer:
                draft = Draft(writer, utc_now)
                _fill(draft, batch)
                writer.save(draft)
            head.write(draft.position)
            written += 2 * batch
        full = Ledger(store, head=head)
        start = time.perf_counter()
        found = full.verify()
        seconds = time.perf_counter() - start
        full.close()
        if found.position.seq < entries:
            raise RuntimeError(f"verified {found.position.seq} entries instead of {entries}")
        return seconds


def _fill(draft: Draft, count: int) -> None:
    """What charges and their answers write, without asking each time whether the budget admits."""
    accounts = [known(draft, name) for name in ("visits", "visits/alice")]
    charges = {account.name: cost(account.budget, _EVENT) for account in accounts}
    event = to_record(_EVENT)
    for _ in range(count):
        request_id = str(draft.position.seq)
        seq = draft.append(
            "charge",
            body=_BODY,
            charges=charges,
            event=event,
            principal="alice",
            request=request_id,
        )
        request = ChargeRequest("alice", request_id, _BODY, seq)
        draft.requests[request.key] = request
        answer = b'{"rows": [[1234]]}'
        store_answer(draft, request, answer, answer, {})
    for account in accounts:
        units = [[part * count for part in parts or ()] for parts in charges[account.name]]
        spent = account.budget.add(account.spent, charge_from_record(units))
        draft.accounts[account.name] = replace(account, spent=spent)


def main() -> None:
    """Print one line per figure."""
    for row in rows():
        wanted = "" if row["wanted"] is None else f"   (wanted: {row['wanted']})"
        print(f"{row['name']:45} {row['value']:12.1f} {row['unit']}{wanted}")


if __name__ == "__main__":
    main()
