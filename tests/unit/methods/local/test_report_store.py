"""The store: all of a delivery or nothing, once, by several at a time, and never after closing."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from sfumato.errors import InternalError, PolicyError, SourceError
from sfumato.methods.local.report_store import RENEWED_EVERY, Item, ReportStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def item(number: int, report: bytes = b"\0", way: str = "device") -> Item:
    return Item(way, report, number.to_bytes(16, "big"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ReportStore]:
    with closing(ReportStore(tmp_path / "r.sqlite", "round")) as opened:
        yield opened


@pytest.fixture
def base(
    store: ReportStore,  # noqa: ARG001  which makes the file
    tmp_path: Path,
) -> Iterator[sqlite3.Connection]:
    """The file of the store, as anybody may open it."""
    with closing(sqlite3.connect(tmp_path / "r.sqlite")) as opened:
        yield opened


def add(store: ReportStore, items: list[Item], rejected: dict[str, int] | None = None) -> list[int]:
    return store.add(enumerate(items), rejected or {})


def people(store: ReportStore) -> int:
    return sum(store.read().reports.values())


def test_reports_are_kept_as_a_bag(store: ReportStore) -> None:
    items = [item(1), item(2, b"\1"), item(3), item(4, b"\1", "hand")]
    assert add(store, items, {"malformed": 2}) == []
    kept = store.read()
    assert kept.reports == {("device", b"\0"): 2, ("device", b"\1"): 1, ("hand", b"\1"): 1}
    assert kept.rejected == {"malformed": 2}
    assert kept.closed is None


def test_a_ticket_counts_once(store: ReportStore) -> None:
    assert add(store, [item(1), item(2), item(1, b"\1"), item(1)]) == [2, 3]
    assert add(store, [item(3), item(2, b"\1")], {"replayed": 5}) == [1]
    kept = store.read()
    assert kept.reports == {("device", b"\0"): 3}
    assert kept.rejected == {"replayed": 8}


def test_nothing_beside_reports_is_kept(
    store: ReportStore, base: sqlite3.Connection, tmp_path: Path
) -> None:
    """No time, no order: the file is the same for any order of arrival."""
    add(store, [item(n, bytes([n % 2])) for n in range(50)])
    tables = {name: sql for name, sql in base.execute("SELECT name, sql FROM sqlite_schema") if sql}
    assert "WITHOUT ROWID" in tables["reports"]
    assert "WITHOUT ROWID" in tables["used"]
    columns = {
        (table, row[1])
        for table in ("reports", "published", "used", "rejected", "about")
        for row in base.execute(f"PRAGMA table_info({table})")
    }
    assert columns == {
        *(("reports", "way"), ("reports", "report"), ("reports", "people")),
        *(("published", "way"), ("published", "report"), ("published", "people")),
        *(("used", "ticket"), ("rejected", "reason"), ("rejected", "items")),
        *(("about", "name"), ("about", "value")),
    }
    assert (tmp_path / "r.sqlite").stat().st_mode & 0o777 == 0o600


def test_no_file_beside_the_store_tells_what_came_with_which_ticket(
    store: ReportStore, tmp_path: Path
) -> None:
    """A log of pages would hold every state of the bag, one delivery after another."""
    numbers = range(10**30, 10**30 + 40)
    for number in numbers:
        add(store, [item(number, bytes([number % 3]))])
    assert [one.name for one in tmp_path.iterdir() if one.stat().st_size] == ["r.sqlite"]
    # The ticket of a delivery stands once in the whole file.
    held = (tmp_path / "r.sqlite").read_bytes()
    assert all(held.count(item(number).ticket) == 1 for number in numbers)


def test_a_closed_store_is_the_same_file_in_whatever_order_reports_came(tmp_path: Path) -> None:
    files = []
    for name, order in (("a", range(60)), ("b", reversed(range(60)))):
        with closing(ReportStore(tmp_path / name, "round")) as store:
            for number in order:
                add(store, [item(number, bytes([number % 7]))])
            store.close_round("2027-01-01T00:00:00Z")
        held = (tmp_path / name).read_bytes()
        files.append(held[:24] + held[28:92] + held[100:])  # without SQLite's counts of changes
    assert files[0] == files[1]


def test_what_is_published_moves_by_groups_of_reports(store: ReportStore) -> None:
    """Who asks after every report learns of groups, never what one said at its time."""
    seen = []
    for number in range(2 * RENEWED_EVERY + 1):
        add(store, [item(number, bytes([number % 3]))])
        seen.append(sum(store.published().reports.values()))
    assert sorted(set(seen)) == [0, RENEWED_EVERY, 2 * RENEWED_EVERY]
    assert people(store) == 2 * RENEWED_EVERY + 1
    add(store, [item(10_000 + number) for number in range(RENEWED_EVERY + 5)])
    assert store.published().reports == store.read().reports
    add(store, [item(20_000)])
    assert store.published().reports != store.read().reports
    store.close_round("2027-01-01T00:00:00Z")
    assert store.published() == store.read()


def test_closing_is_final(store: ReportStore, base: sqlite3.Connection) -> None:
    add(store, [item(1)])
    store.close_round("2027-01-01T00:00:00Z")
    for again in (lambda: add(store, [item(2)]), lambda: store.close_round("2028")):
        with pytest.raises(PolicyError) as refusal:
            again()
        assert refusal.value.code == "round_not_open"
    assert store.read().closed == "2027-01-01T00:00:00Z"
    assert base.execute("SELECT COUNT(*) FROM used").fetchone() == (0,)
    for change in (
        "INSERT INTO reports VALUES ('device', x'05', 1)",
        "UPDATE reports SET people = 9",
        "DELETE FROM reports",
        "DELETE FROM about",
        "UPDATE about SET value = ''",
    ):
        with pytest.raises(sqlite3.IntegrityError):
            base.execute(change)


def test_the_store_of_another_round_is_refused(store: ReportStore, tmp_path: Path) -> None:
    store.close()
    with pytest.raises(SourceError) as refusal:
        ReportStore(tmp_path / "r.sqlite", "another")
    assert refusal.value.code == "round_differs"


def test_a_damaged_store_fails_and_quotes_nothing(tmp_path: Path) -> None:
    (tmp_path / "r.sqlite").write_bytes(b"secret" * 1000)
    with pytest.raises(InternalError) as failure:
        ReportStore(tmp_path / "r.sqlite", "round")
    assert failure.value.code == "store_unavailable"
    assert "secret" not in failure.value.message


def test_a_delivery_that_fails_leaves_nothing(store: ReportStore, tmp_path: Path) -> None:
    add(store, [item(1)])
    # Counting what was rejected comes last, after tickets and reports.
    with pytest.raises(InternalError):
        add(store, [item(2)], {"malformed": None})  # type: ignore[dict-item]
    assert people(store) == 1
    assert store.read().rejected == {}
    assert add(store, [item(2)]) == []  # its ticket was not used up
    assert (tmp_path / "r.sqlite").exists()


def test_many_at_once_count_each_ticket_once(tmp_path: Path) -> None:
    stores = [ReportStore(tmp_path / "r.sqlite", "round") for _ in range(4)]

    def deliver(which: int) -> int:
        return sum(len(add(stores[which], [item(n)])) for n in range(25))

    with ThreadPoolExecutor(4) as pool:
        again = sum(pool.map(deliver, range(4)))
    assert people(stores[0]) == 25
    assert again == 75
    assert stores[0].read().rejected == {"replayed": 75}
    for one in stores:
        one.close()


KILLED = """
import sys
from sfumato.methods.local.report_store import Item, ReportStore

from pathlib import Path
store = ReportStore(Path(sys.argv[1]), "round")
for delivery in range(10**6):
    items = [Item("device", b"\\0", (delivery * 7 + n).to_bytes(16, "big")) for n in range(7)]
    store.add(enumerate(items), {"malformed": 1})
    print(delivery, flush=True)
"""


def test_who_is_killed_leaves_whole_deliveries_and_what_was_told(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    for _ in range(3):
        path.unlink(missing_ok=True)
        with subprocess.Popen(
            [sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            told = [process.stdout.readline() for _ in range(5)]
            os.kill(process.pid, signal.SIGKILL)
            told += process.stdout.readlines()
        acknowledged = sum(line.endswith("\n") for line in told)
        with_log = ReportStore(path, "round")
        kept = with_log.read()
        deliveries, rest = divmod(sum(kept.reports.values()), 7)
        assert rest == 0
        assert kept.rejected["malformed"] == deliveries
        assert acknowledged <= deliveries <= acknowledged + 1
        with_log.close()


def test_a_file_put_in_its_place_takes_nothing_until_it_is_opened_again(
    store: ReportStore, tmp_path: Path
) -> None:
    add(store, [item(1)])
    with closing(sqlite3.connect(tmp_path / "copy")) as copy:
        store._base.backup(copy)
    (tmp_path / "copy").replace(tmp_path / "r.sqlite")
    for suffix in ("-wal", "-shm"):
        (tmp_path / f"r.sqlite{suffix}").unlink(missing_ok=True)
    for action in (lambda: add(store, [item(2)]), store.read, lambda: store.close_round("now")):
        with pytest.raises(InternalError) as refused:
            action()
        assert refused.value.code == "store_unavailable"
    with closing(ReportStore(tmp_path / "r.sqlite", "round")) as again:
        assert add(again, [item(1), item(2)]) == [0]
