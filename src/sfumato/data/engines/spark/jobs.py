"""Jobs of Spark and their results. Tags by thread and query say which jobs to cancel.

Ctrl-C during a call into the Java machine leaves the job running, prints a traceback and breaks the
connection. So the main thread makes such calls in another thread.

Results arrive in windows of partitions, one job each; the next window is fetched meanwhile. Each
partition is computed once. Nothing is cached on the executors, and the driver holds at most two
windows. Decision `spark`.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from os import getpid
from secrets import token_hex
from threading import Thread, current_thread, get_ident, main_thread
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession


R = TypeVar("R")

# Seconds between attempts to cancel: a job may start after the last attempt.
_PATIENCE_SECONDS = 0.1


def in_own_thread(
    work: Callable[[], R], stop: Callable[[], None] | None = None, *, awaited: bool = True
) -> R:
    """Run work in another thread, so that Ctrl-C does not interrupt it.

    On Ctrl-C, `stop` is called until the work has ended; then KeyboardInterrupt is raised. A second
    Ctrl-C raises at once.

    Parameters
    ----------
    work : callable
        What to run.
    stop : callable, optional
        Asks the work to end.
    awaited : bool
        Whether Ctrl-C waits for the end of the work.
    """
    if current_thread() is not main_thread():
        return work()
    future = Future[R]()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001  it is raised again by the one who waits
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    try:
        return future.result()
    except KeyboardInterrupt:
        while awaited and not future.done():
            if stop is not None:
                stop()
            wait([future], _PATIENCE_SECONDS)
        raise


def cancel_jobs(session: SparkSession, thread: int) -> None:
    """Cancel the jobs that a thread of this process has started."""
    _cancel(session, _tag(thread))


class SparkJobs:
    """The jobs of one query, tagged with its thread and with a name of their own."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._name = f"sfumato-{token_hex(8)}"
        self._tags = (_tag(get_ident()), self._name)

    def run(self, work: Callable[[], R]) -> R:
        """Run work that starts jobs, in another thread."""
        return in_own_thread(lambda: self.tagged(work), self.stop)

    def tagged(self, work: Callable[[], R]) -> R:
        """Run work that starts jobs, in this thread."""
        # Tags of a session apply only to its SQL queries, tags of a context to all jobs. A session
        # on a server has no context here.
        local = _local(self._session)
        add, remove = (
            (local.addJobTag, local.removeJobTag)
            if local
            else (self._session.addTag, self._session.removeTag)
        )
        for tag in self._tags:
            add(tag)
        try:
            return work()
        finally:
            for tag in self._tags:
                remove(tag)

    def stop(self) -> None:
        """Cancel the running jobs of this query."""
        with suppress(Exception):  # a stopped Spark has no jobs
            _cancel(self._session, self._name)

    def stop_until(self, ended: Future[Any]) -> None:
        """Cancel the jobs of this query, again and again, until some work has ended."""
        while not ended.done():
            self.stop()
            wait([ended], _PATIENCE_SECONDS)


def _cancel(session: SparkSession, tag: str) -> None:
    local = _local(session)
    if local:
        local.cancelJobsWithTag(tag)
    else:
        session.interruptTag(tag)


def _local(session: SparkSession) -> Any:
    """Return the context of a session of this process; None for a session on a server."""
    return session.sparkContext if hasattr(session, "_jsparkSession") else None


def _tag(thread: int) -> str:
    """The tag of a thread; it has the process id, because a cluster serves many processes."""
    return f"sfumato-{getpid()}-{thread}"


# Bytes of a window below which the next one is twice as wide, and above which half as wide.
_SMALL, _LARGE = 4 << 20, 32 << 20


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """Return the Arrow schema of a frame; nothing is run."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(frame.schema, timezone="UTC")


def batches_of(
    frame: DataFrame, schema: pa.Schema, jobs: SparkJobs
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the batches of a frame in order, fetching the next window meanwhile."""
    if not hasattr(frame, "_jdf"):  # Spark Connect streams by itself
        yield from _from_server(frame, schema)
        return
    windows, ahead = _windows(frame), ThreadPoolExecutor(1)

    def fetch() -> Future[list[bytes] | None]:
        return ahead.submit(jobs.tagged, lambda: next(windows, None))

    coming = fetch()
    try:
        while (messages := coming.result()) is not None:
            coming = fetch()
            for message in messages:
                yield pa.ipc.read_record_batch(pa.py_buffer(message), schema)
    finally:
        if not coming.cancel():
            jobs.stop_until(coming)
        # Not waited for: during garbage collection a thread that is starting would wait for us.
        ahead.shutdown(wait=False)


def _from_server(frame: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a frame of Spark Connect as they arrive."""
    client = frame.sparkSession.client
    plan = frame._plan  # noqa: SLF001
    for chunk in client.to_table_as_iterator(plan.to_proto(client), plan.observations):
        if isinstance(chunk, pa.Table):
            yield from chunk.cast(schema).to_batches()


def _windows(frame: DataFrame) -> Iterator[list[bytes]]:
    """Yield Arrow messages of windows of partitions; the width adapts to their size."""
    # This runs everything up to the last exchange, which decides the number of partitions.
    batches = frame._jdf.toArrowBatchRdd().toJavaRDD()  # noqa: SLF001
    partitions_left, width = range(batches.getNumPartitions()), 1
    while partitions_left:
        window, partitions_left = partitions_left[:width], partitions_left[width:]
        messages = _fetch(frame.sparkSession.sparkContext, batches, list(window))
        size = sum(map(len, messages))
        if size < _SMALL:
            width *= 2
        elif size > _LARGE:
            width = max(1, width // 2)
        yield messages


def _fetch(context: SparkContext, batches: Any, window: list[int]) -> list[bytes]:
    """Compute a window of partitions in one job; messages arrive through a socket."""
    from pyspark.serializers import read_int
    from pyspark.util import local_connect_and_auth

    run = context._jvm.PythonRDD.runJob  # noqa: SLF001
    address, secret, serving = run(context._jsc.sc(), batches, window)  # noqa: SLF001
    messages = []
    stream, socket = local_connect_and_auth(address, secret)
    socket.settimeout(None)
    with socket, stream, suppress(EOFError):
        while True:
            messages.append(stream.read(read_int(stream)))
    serving.getResult()  # raises if not all was sent
    return messages
