"""What `test_cluster.py` runs in a process of its own, whose Spark is the cluster that it started.

The tests lie in the order in which the cluster loses its workers.
"""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.fixtures.ledgers import code_of, opened_ledger

import sfumato as sf
from sfumato.data.engines.base import named
from sfumato.data.engines.spark.engine import Spark
from sfumato.data.engines.spark.session import leave_session, start_session
from sfumato.privacy.ledger.receipt import Receipt, Stage
from sfumato.testing.engines import EngineContract
from sfumato.testing.entropy import SeededEntropy
from sfumato.vault.creation import create
from sfumato.vault.registration import Registration

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sfumato.data.engines.base import Engine

CLUSTER = json.loads(os.environ["SFUMATO_CLUSTER"])
"""The address of the master, and the process groups of the workers with their executors."""
ROWS, FILES = 200_000, 8
SCHEMA = """\
table = "people"
[columns.age]
kind = "integer"
role = "quasi"
bounds = [0, 99]
nullable = false
hierarchy = { widths = [10, 50] }
[columns.sex]
kind = "text"
role = "quasi"
values = ["f", "m"]
nullable = false
hierarchy = { tree = "*" }
[columns.ill]
kind = "boolean"
nullable = false
"""
QUESTION = "SELECT sex, COUNT(*) AS n, AVG(age) AS mean FROM people WHERE age > {} GROUP BY sex"


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """People in many files that every process of the cluster can read, and their schema."""
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "people").mkdir()
    for file in range(FILES):
        numbers = range(file, ROWS, FILES)
        part = pa.table(
            {
                "age": pa.array([number * 7919 % 100 for number in numbers], pa.int64()),
                "sex": ["fm"[number % 3 == 0] for number in numbers],
                "ill": [number % 11 == 0 for number in numbers],
            }
        )
        parquet.write_table(part, folder / f"people/{file}.parquet")
    (folder / "people.toml").write_text(SCHEMA)
    return folder


@pytest.fixture(scope="session")
def session(folder: Path) -> Iterator[Any]:
    """A session whose jobs the workers run; it is held until the end."""
    session = start_session(CLUSTER["master"])
    session.sql(f"CREATE TABLE people USING parquet LOCATION '{folder / 'people'}'")
    held = sf.read(f"{CLUSTER['master']}#people", folder / "people.toml")
    yield session
    held.close()
    leave_session(CLUSTER["master"])


@pytest.fixture
def on_both(session: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The people as the cluster and as DuckDB see them, with the same noise."""

    def entropy(receipt: Receipt) -> SeededEntropy:
        receipt.advance(Stage.DRAWN, {Stage.RESERVED})
        return SeededEntropy(3)

    assert session.sparkContext.master == CLUSTER["master"]
    monkeypatch.setattr(Receipt, "entropy", entropy)
    schema = folder / "people.toml"
    opened = [sf.read(f"{CLUSTER['master']}#people", schema), sf.read(folder / "people", schema)]
    yield opened
    for one in opened:
        one.close()


class TestCluster(EngineContract):
    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls, session: Any) -> Engine:
        return Spark(session, named("none"))


def test_a_question_and_a_publication(on_both: list[Any]) -> None:
    cluster, duckdb = (sf.protect(one, epsilon=2) for one in on_both)
    one, other = (private.query(QUESTION.format(30), epsilon=1) for private in (cluster, duckdb))
    assert one.table == other.table
    columns = ["age", "sex", "ill"]
    first, second = (
        private.publish("marginals", columns=columns, epsilon=1) for private in (cluster, duckdb)
    )
    assert first.tables == second.tables


def test_a_synthesis(on_both: list[Any]) -> None:
    one, other = (
        sf.protect(people, epsilon=1).synthesize(epsilon=1, method="mst", rows=500)
        for people in on_both
    )
    assert one.table == other.table


def test_an_anonymization(on_both: list[Any]) -> None:
    tables = [one.anonymize(k=4_000).table for one in on_both]
    order = [(name, "ascending") for name in tables[0].column_names]
    cluster, duckdb = (table.sort_by(order) for table in tables)
    assert cluster.to_pylist() == duckdb.to_pylist()


@contextmanager
def losing(session: Any, workers: list[int]) -> Iterator[None]:
    """Kill workers and their executors as soon as a stage runs."""

    def kill() -> None:
        tracker = session.sparkContext.statusTracker()
        while not tracker.getActiveStageIds():
            time.sleep(0.005)
        for worker in workers:
            with suppress(ProcessLookupError):  # lost before
                os.killpg(worker, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    yield
    thread.join()


def check_loss(session: Any, folder: Path, workers: list[int], ages: list[int]) -> set[str]:
    """Lose workers during a question: it is answered or gets the one reply, and is paid once."""
    vault = folder / f"vault-{ages[0]}"
    create(vault)
    settings = vault / "vault.toml"
    text, found = re.subn(
        r"# deadline_seconds = \d+", "deadline_seconds = 20", settings.read_text()
    )
    assert found == 1
    settings.write_text(text)
    source = f"{CLUSTER['master']}#people"
    Registration(name="people", source=source, schema=folder / "people.toml", epsilon=9).add_to(
        vault
    )
    before = set(vault.rglob("*"))
    with sf.open(vault) as opened:
        with losing(session, workers):
            codes = {code_of(opened.query, QUESTION.format(ages[0]), epsilon=1)}
        codes |= {code_of(opened.query, QUESTION.format(age), epsilon=1) for age in ages[1:]}
    with closing(opened_ledger(vault)) as ledger:
        ledger.verify()
        assert ledger.spent("people")[0] == (len(ages) * 10**9,)
    new = set(vault.rglob("*")) - before
    assert all(path.suffix == ".json" or path.name == "failures.log" for path in new)
    return codes


def test_a_worker_is_lost(session: Any, folder: Path) -> None:
    first, _ = CLUSTER["workers"]
    assert check_loss(session, folder, [first], [40, 41]) <= {"no error", "answer_failed"}


def test_no_worker_is_left(session: Any, folder: Path) -> None:
    assert check_loss(session, folder, CLUSTER["workers"], [50]) == {"answer_failed"}
    tracker = session.sparkContext.statusTracker()
    for _ in range(100):
        if not tracker.getActiveJobsIds():
            break
        time.sleep(0.1)
    assert not tracker.getActiveJobsIds()
