"""What comes back from Spark: a few partitions in one job, the next ones fetched meanwhile.

A result is computed where its last exchange left it, one partition once: nothing is kept for it on
the executors, and the driver holds two windows of partitions. Decision `spark`.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from pyspark import SparkContext
    from pyspark.sql import DataFrame

    from sfumato.data.engines.spark.jobs import SparkJobs

_SMALL, _LARGE = 4 << 20, 32 << 20
"""Bytes of a window of partitions after which the next one is twice, or half, as wide."""


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """What the columns of a frame are in Arrow; nothing is run."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(frame.schema, timezone="UTC")


def batches_of(
    frame: DataFrame, schema: pa.Schema, jobs: SparkJobs
) -> Generator[pa.RecordBatch, None, None]:
    """The rows of a frame in order, batch by batch, while those that follow are being fetched."""
    if not hasattr(frame, "_jdf"):  # a server streams by itself
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
        # No thread is waited for where memory is tidied up: one may be just about to start there.
        ahead.shutdown(wait=False)


def _from_server(frame: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a frame of Spark Connect, as they arrive."""
    client = frame.sparkSession.client
    plan = frame._plan  # noqa: SLF001
    for chunk in client.to_table_as_iterator(plan.to_proto(client), plan.observations):
        if isinstance(chunk, pa.Table):
            yield from chunk.cast(schema).to_batches()


def _windows(frame: DataFrame) -> Iterator[list[bytes]]:
    """Arrow messages of the partitions of a frame, in windows as wide as their bytes allow."""
    # What comes before the last exchange is run here, and decides how many partitions follow.
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
    """Compute a window of partitions in one job; its messages come over a socket."""
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
