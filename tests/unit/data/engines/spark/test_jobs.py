from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from sfumato.data.engines.base import named
from sfumato.data.engines.spark.engine import Spark
from sfumato.data.engines.spark.jobs import in_own_thread
from sfumato.errors import EngineError
from sfumato.testing.engines import query, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NUMBERS = pa.table({"x": pa.array(range(3_000), pa.int64())})
HALF = (
    "(SELECT a.x % 7 AS g, SUM((a.x * b.x + c.x) % 5) AS n "
    "FROM t AS a CROSS JOIN t AS b CROSS JOIN t AS c GROUP BY a.x % 7)"
)
SLOW = f"SELECT p.g, q.n FROM {HALF} AS p JOIN {HALF} AS q ON p.g = q.g"
"""Two stages at once, each of hours."""


@pytest.fixture(autouse=True)
def _ctrl_c_as_python_has_it() -> Iterator[None]:
    """Whoever ran before in this process may have left a handler, as Spark's own context does."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupting(when: Callable[[], object]) -> threading.Thread:
    """Press Ctrl-C as soon as something is so."""

    def press() -> None:
        while not when():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    return thread


def test_what_is_interrupted_has_been_stopped() -> None:
    begun, stopped, ended = (threading.Event() for _ in range(3))

    def work() -> None:
        begun.set()
        assert stopped.wait(60)
        ended.set()

    pressing = interrupting(begun.is_set)
    with pytest.raises(KeyboardInterrupt):
        in_own_thread(work, stopped.set)
    pressing.join()
    assert ended.is_set()


def test_what_cannot_be_stopped_has_ended() -> None:
    begun, ended = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        time.sleep(0.3)
        ended.set()

    pressing = interrupting(begun.is_set)
    with pytest.raises(KeyboardInterrupt):
        in_own_thread(work)
    pressing.join()
    assert ended.is_set()


def test_what_is_not_awaited_goes_on() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go_on.wait(60)

    pressing = interrupting(begun.is_set)
    with pytest.raises(KeyboardInterrupt):
        in_own_thread(work, awaited=False)
    go_on.set()
    pressing.join()


def test_results_and_errors_come_through() -> None:
    assert in_own_thread(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        in_own_thread(lambda: 1 // 0)


@pytest.mark.parametrize("way", ["run", "stream"])
def test_ctrl_c_leaves_no_job(
    spark_session: Any, capfd: pytest.CaptureFixture[str], way: str
) -> None:
    engine = Spark(spark_session, named("none"))
    tracker = spark_session.sparkContext.statusTracker()
    with engine.lend(NUMBERS) as lent:
        slow = query(SLOW, t=lent)
        pressing = interrupting(tracker.getActiveStageIds)
        with pytest.raises(KeyboardInterrupt):
            engine.run(slow) if way == "run" else engine.stream(slow).read_all()
        pressing.join()
        assert not tracker.getActiveJobsIds()
        assert rows(engine, "SELECT COUNT(*) AS n FROM t", t=lent) == [(NUMBERS.num_rows,)]
    assert capfd.readouterr() == ("", "")


def test_a_stream_is_cancelled_by_its_thread(spark_session: Any) -> None:
    engine = Spark(spark_session, named("none"))
    tracker = spark_session.sparkContext.statusTracker()
    thread, ended = threading.get_ident(), threading.Event()

    def cancel() -> None:
        while not tracker.getActiveStageIds():
            time.sleep(0.01)
        while not ended.wait(0.1):  # a query that begins at that moment may escape
            engine.cancel(thread)

    cancelling = threading.Thread(target=cancel)
    cancelling.start()
    with engine.lend(NUMBERS) as lent, pytest.raises(EngineError):
        engine.stream(query(SLOW, t=lent)).read_all()
    ended.set()
    cancelling.join()
    assert not tracker.getActiveJobsIds()
