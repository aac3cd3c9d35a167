"""Calls of DuckDB in worker threads, so that Ctrl-C works and batches are fetched ahead."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb
    import pyarrow as pa

R = TypeVar("R")


class BatchPrefetch:
    """Fetches the next batch in a worker thread while the caller uses the last one."""

    def __init__(
        self, cursor: duckdb.DuckDBPyConnection, fetch: Callable[[], pa.RecordBatch | None]
    ) -> None:
        self._cursor, self._fetch = cursor, fetch
        self._worker = ThreadPoolExecutor(1)
        self._next = self._worker.submit(fetch)

    def next_batch(self) -> pa.RecordBatch | None:
        """The next batch, or None after the last one."""
        try:
            batch = self._next.result()
        except KeyboardInterrupt:
            self._cursor.interrupt()
            raise
        if batch is not None:
            self._next = self._worker.submit(self._fetch)
        return batch

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the fetch that is running, so that the cursor can be closed after it."""
        if not self._next.done() and not self._next.cancel():
            self._cursor.interrupt()
            wait([self._next])
        # Not waited for: during garbage collection a thread that is starting would wait for us.
        self._worker.shutdown(wait=False)


def interruptible(cursor: duckdb.DuckDBPyConnection, work: Callable[[], R]) -> R:
    """Run `work` in another thread: the main thread then receives Ctrl-C, which DuckDB misses."""
    if current_thread() is not main_thread():  # only the main thread receives signals
        return work()
    with ThreadPoolExecutor(1) as worker:
        try:
            return worker.submit(work).result()
        except KeyboardInterrupt:
            cursor.interrupt()
            raise
