"""Jobs in a database, the same in SQLite and in PostgreSQL: kept, held by one, never lost."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from threading import Barrier
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from tests.fixtures.ledgers import code_of

from sfumato.errors import EngineError, LedgerError, PolicyError
from sfumato.privacy.ledger.sql.sqlite import sqlite_engine
from sfumato.vault.config import Config
from sfumato.vault.jobs import store as jobs
from sfumato.vault.jobs.job import ANSWERING, MOST_ATTEMPTS, Job, JobState
from sfumato.vault.jobs.store import MOST_WAITING, JobStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_POSTGRES = [pytest.mark.postgres, pytest.mark.xdist_group("postgres")]
LONG, OVER = 60.0, -1.0
LOST = LedgerError("answer_lost", "Charged, and no answer.")


def beside(path: Path) -> Config:
    """A vault whose jobs are in this file."""
    return Config(path.parent, "ledger.sqlite", path.with_name("head"))


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=_POSTGRES)])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], JobStore]:
    """Opens the same jobs, each time as another server would."""
    if request.param == "sqlite":
        path = tmp_path / "jobs.sqlite"
        return lambda: JobStore(beside(path))
    import psycopg

    url, schema = request.getfixturevalue("postgres_url"), f"jobs_{uuid4().hex}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    there = f"{url}&options=-csearch_path%3D{schema}"
    return lambda: JobStore(Config(tmp_path, there, tmp_path / "head"))


@pytest.fixture
def store(opening: Callable[[], JobStore]) -> Iterator[JobStore]:
    opened = opening()
    yield opened
    opened.close()


def job(name: str, principal: str = "ann", **said: object) -> Job:
    return replace(
        Job(name, "publish", "people", principal, {"kind": "histogram"}, f"request {name}"),
        **said,  # type: ignore[arg-type]
    )


def state(store: JobStore, name: str) -> JobState:
    found = store.get(name, None)
    assert found is not None
    return found.state


def test_a_job_is_kept_as_it_was_asked(store: JobStore) -> None:
    asked = job("a", purpose="care", plan="f" * 64, asked={"columns": ["é", "b\n"], "epsilon": 0.1})
    kept = store.add(asked)
    assert kept == replace(asked, submitted=kept.submitted)
    assert (kept.plan, kept.state, kept.stage) == (asked.plan, JobState.WAITING, 0)
    assert kept.submitted is not None
    assert store.get("a", "ann") == store.get("a", None) == kept
    assert store.get("a", "bob") is store.get("b", None) is None


def test_a_request_stands_for_one_job(store: JobStore) -> None:
    first = store.add(job("a", request_id="r"))
    assert store.add(job("b", request_id="r")).id == first.id
    for other in (
        {"asked": {"kind": "tree"}},
        {"family": "above"},
        {"dataset": "visits"},
        {"purpose": "care"},
    ):
        assert code_of(store.add, job("c", request_id="r", **other)) == "request_reused"
    assert store.add(job("d", principal="bob", request_id="r")).id == "d"


def test_the_last_come_first_and_only_ones_own(store: JobStore) -> None:
    for number in range(5):
        store.add(job(f"{number}", principal="ann" if number % 2 else "bob"))
    assert {one.id for one in store.list(None, limit=9)} == set("01234")
    assert {one.id for one in store.list("ann", limit=9)} == set("13")
    assert len(store.list(None, limit=2)) == 2
    assert store.list(None, limit=9, states=[JobState.DONE]) == []


def test_one_holder_at_a_time_brings_a_job_to_its_end(store: JobStore) -> None:
    store.add(job("a"))
    held = store.claim("one", LONG)
    assert held is not None
    assert (held.id, held.state, held.attempts, held.holder) == ("a", JobState.RUNNING, 1, "one")
    assert store.claim("two", LONG) is None
    assert store.renew("one", LONG)
    assert store.note("one", ANSWERING)
    assert not store.renew("two", LONG)
    assert not store.note("two", ANSWERING)
    store.mark_done("a", {"receipt": "7:f", "charged": True})
    found = store.get("a", None)
    assert found is not None
    assert (found.state, found.result) == (JobState.DONE, {"receipt": "7:f", "charged": True})
    assert found.ended is not None
    assert store.claim("two", LONG) is None


def test_what_a_dead_holder_left_is_taken_up_and_the_dead_one_has_no_say(store: JobStore) -> None:
    store.add(job("a"))
    assert store.claim("dead", OVER) is not None
    again = store.claim("alive", LONG)
    assert again is not None
    assert again.attempts == 2
    assert not store.renew("dead", LONG)
    store.mark_failed("dead", EngineError("answer_failed", "No."))
    store.put_back("dead", 0, counted=True)
    assert state(store, "a") is JobState.RUNNING
    assert store.renew("alive", LONG)


def test_an_answer_that_is_kept_is_a_fact_whoever_notes_it(store: JobStore) -> None:
    store.add(job("a"))
    store.claim("slow", OVER)
    store.claim("quick", LONG)
    store.mark_failed("quick", LOST)
    assert state(store, "a") is JobState.FAILED
    store.mark_done("a", {"receipt": "7:f"})  # the slow one was at it all the time
    found = store.get("a", None)
    assert found is not None
    assert (found.state, found.error) == (JobState.DONE, None)


def test_another_failure_and_a_cancelled_job_stay_what_they_are(store: JobStore) -> None:
    for name in ("a", "b"):
        store.add(job(name))
        store.claim(name, LONG)
    store.mark_failed("a", EngineError("answer_failed", "'answer_lost' is not why."))
    assert store.cancel("b", "ann")
    for name, expected in (("a", JobState.FAILED), ("b", JobState.CANCELLED)):
        store.mark_done(name, {"receipt": "7:f"})
        assert state(store, name) is expected
    found = store.get("a", None)
    assert found is not None
    assert found.error is not None
    assert (found.error["code"], found.error["kind"]) == ("answer_failed", "EngineError")


def test_a_job_is_cancelled_by_whom_it_belongs_to_and_once(store: JobStore) -> None:
    store.add(job("a"))
    assert not store.cancel("a", "bob")
    assert store.cancel("a", "ann")
    assert not store.cancel("a", "ann")
    assert store.claim("one", LONG) is None
    store.add(job("b"))
    store.claim("one", LONG)
    assert store.cancel("b", None)
    assert not store.renew("one", LONG)


def test_a_job_that_takes_its_servers_down_is_given_up(store: JobStore) -> None:
    store.add(job("a"))
    for number in range(MOST_ATTEMPTS):
        assert store.claim(f"dead {number}", OVER) is not None
    store.add(job("b"))
    after = store.claim("next", LONG)
    assert after is not None
    assert after.id == "b"
    found = store.get("a", None)
    assert found is not None
    assert found.error is not None
    assert (found.state, found.error["code"]) == (JobState.FAILED, "job_failed")


def test_what_is_put_back_waits_and_counts_as_it_is_said(store: JobStore) -> None:
    store.add(job("a"))
    store.claim("one", LONG)
    store.put_back("one", LONG, counted=True)
    assert store.claim("one", LONG) is None  # not before its time
    store.add(job("b"))
    for _ in range(2 * MOST_ATTEMPTS):
        held = store.claim("one", LONG)
        assert held is not None
        assert (held.id, held.attempts) == ("b", 1)
        store.put_back("one", 0, counted=False)


def test_nobody_fills_all_workers(store: JobStore) -> None:
    for number in range(3):
        store.add(job(f"ann {number}"))
    store.add(job("bob", principal="bob"))
    assert [one.id for one in (store.claim(f"{at}", LONG) for at in range(3)) if one] == [
        "ann 0",
        "bob",
        "ann 1",
    ]


def test_nobody_has_more_than_so_many_unfinished(store: JobStore) -> None:
    for number in range(MOST_WAITING):
        store.add(job(f"{number}"))
    with pytest.raises(PolicyError, match="not done yet"):
        store.add(job("more"))
    assert store.add(job("0 again", request_id="request 0")).id == "0"
    store.add(job("of another", principal="bob"))
    store.cancel("0", None)
    store.add(job("more"))


def test_the_limit_holds_for_jobs_that_come_at_the_same_moment(
    opening: Callable[[], JobStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "MOST_WAITING", 3)
    stores, together = [opening() for _ in range(8)], Barrier(8)

    def add(number: int) -> bool:
        together.wait()
        try:
            stores[number].add(job(f"{number}"))
        except PolicyError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        added = sum(pool.map(add, range(8)))
    for opened in stores:
        opened.close()
    assert added == 3


def test_servers_that_look_at_once_never_take_the_same_job(
    opening: Callable[[], JobStore],
) -> None:
    first, second = opening(), opening()
    for number in range(40):
        first.add(job(f"{number}", principal=f"p{number % 7}"))
    taken: list[str] = []

    def take(store: JobStore, name: str) -> None:
        turn = 0
        while (held := store.claim(f"{name} {turn}", LONG)) is not None:
            taken.append(held.id)
            turn += 1

    threads = [
        threading.Thread(target=take, args=(store, f"{store_name}{at}"))
        for store_name, store in (("x", first), ("y", second))
        for at in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(taken) == Counter(str(number) for number in range(40))
    first.close()
    second.close()


def test_servers_that_submit_the_same_at_once_get_one_job(opening: Callable[[], JobStore]) -> None:
    stores = [opening() for _ in range(3)]
    found: list[str] = []

    def submit(store: JobStore, name: str) -> None:
        found.append(store.add(job(name, request_id="same")).id)

    threads = [
        threading.Thread(target=submit, args=(store, f"{at}")) for at, store in enumerate(stores)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert len(set(found)) == 1
    for store in stores:
        store.close()


def test_a_replaced_file_closes_the_store(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    with closing(JobStore(beside(path))) as store:
        store.add(job("a"))
        copy = tmp_path / "copy"
        copy.write_bytes(path.read_bytes())
        copy.replace(path)
        assert code_of(store.claim, "me", LONG) == "ledger_replaced"
        assert code_of(store.get, "a", None) == "ledger_replaced"


def test_opening_a_file_again_keeps_the_locks_that_this_process_holds_on_it(tmp_path: Path) -> None:
    """A closed descriptor ends all locks of a process on its file, also those of SQLite."""
    path = tmp_path / "jobs.sqlite"
    with closing(JobStore(beside(path))) as store:
        store.add(job("a"))
        sqlite_engine(path, create=True)
        # Whoever is the last to close such a file removes its log: not while it is in use here.
        other = f"import sqlite3; b = sqlite3.connect({str(path)!r}); b.execute('PRAGMA optimize')"
        reads = "b.execute('SELECT * FROM sfumato_jobs').fetchall(); b.close()"
        subprocess.run([sys.executable, "-c", f"{other}; {reads}"], check=True)
        assert path.with_name("jobs.sqlite-wal").exists()
        assert state(store, "a") == JobState.WAITING
