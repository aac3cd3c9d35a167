from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from sfumato.data.engines.base import named
from sfumato.data.engines.spark import jobs as results
from sfumato.data.engines.spark.engine import Spark
from sfumato.data.engines.spark.session import translate
from sfumato.errors import EngineError
from sfumato.testing.engines import query

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS, PARTITIONS = 2_000, 200


@pytest.fixture
def engine(spark_session: Any) -> Iterator[Spark]:
    """An engine on a table in many partitions."""
    spark_session.range(0, ROWS, 1, PARTITIONS).createOrReplaceTempView("scattered")
    yield Spark(spark_session, named("scattered"))
    spark_session.catalog.dropTempView("scattered")


@pytest.fixture
def widths(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many partitions each job has fetched."""
    seen: list[int] = []
    fetch = results._fetch

    def watched(context: Any, batches: Any, window: list[int]) -> list[bytes]:
        seen.append(len(window))
        return fetch(context, batches, window)

    monkeypatch.setattr(results, "_fetch", watched)
    return seen


EVERYTHING = query("SELECT id FROM scattered")


def test_small_partitions_come_in_few_jobs_and_in_order(engine: Spark, widths: list[int]) -> None:
    found = engine.stream(EVERYTHING).read_all()
    assert found["id"].to_pylist() == list(range(ROWS))
    assert found.schema == engine.run(EVERYTHING).schema
    assert widths == [1, 2, 4, 8, 16, 32, 64, 73]


def test_large_partitions_come_one_by_one(
    engine: Spark, widths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "_SMALL", 0)
    monkeypatch.setattr(results, "_LARGE", 0)
    first = query("SELECT id FROM scattered WHERE id < 100")
    assert engine.stream(first).read_all().num_rows == 100
    assert set(widths) == {1}


def test_counts_come_in_one_job(engine: Spark, widths: list[int], spark_session: Any) -> None:
    """Adaptive execution leaves one partition of however many a small result is shuffled into."""
    before = spark_session.conf.get("spark.sql.shuffle.partitions")
    spark_session.conf.set("spark.sql.shuffle.partitions", str(PARTITIONS))
    try:
        counted = query("SELECT id % 7 AS g, COUNT(*) AS n FROM scattered GROUP BY id % 7")
        assert engine.stream(counted).read_all().num_rows == 7
    finally:
        spark_session.conf.set("spark.sql.shuffle.partitions", before)
    assert widths == [1]


def test_a_stream_that_nobody_reads_on_leaves_no_job(engine: Spark, spark_session: Any) -> None:
    slow_at_last = query(
        "SELECT CASE WHEN id < 10 THEN id ELSE LENGTH(REPEAT('x', CAST(id AS INT) * 900000)) END "
        "AS id FROM scattered"
    )
    reader = engine.stream(slow_at_last)
    assert isinstance(reader.read_next_batch(), pa.RecordBatch)
    reader.close()
    del reader
    tracker = spark_session.sparkContext.statusTracker()
    until = time.monotonic() + 30
    while tracker.getActiveJobsIds() and time.monotonic() < until:
        time.sleep(0.05)
    assert not tracker.getActiveJobsIds()


@pytest.mark.parametrize(
    "said", ["TaskResultLost (result lost)", "java.lang.OutOfMemoryError: Java heap space"]
)
def test_a_result_without_room_says_where_else_it_goes(said: str) -> None:
    found = translate(RuntimeError(said))
    assert isinstance(found, EngineError)
    assert "-o out/" in found.message
    assert said not in found.message


def test_parts_of_a_result_are_small_enough_to_come_at_once(spark_session: Any) -> None:
    # Ten million released rows took 64 MiB while they were exchanged, and no driver held them.
    size = spark_session.conf.get("spark.sql.adaptive.advisoryPartitionSizeInBytes")
    assert int(size.removesuffix("b")) <= 4 << 20
