"""Fetch results of Spark: a window of partitions per job, the next window fetched meanwhile.

Each partition is computed once. Nothing is cached on the executors, and the driver holds at most
two windows of partitions. Decision `spark`.
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

# Bytes of a window below which the next one is twice as wide, and above which half as wide.
_SMALL, _LARGE = 4 << 20, 32 << 20


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """The Arrow schema of a frame; nothing is run."""
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
