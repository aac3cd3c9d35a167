"""How DuckDB is called: so that Ctrl-C is heard, and batches are made ahead of their use."""

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
    """Makes the next batch while the last one is being used."""

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
        """Nobody wants what is being made any more; the cursor is closed only after it."""
        if not self._next.done() and not self._next.cancel():
            self._cursor.interrupt()
            wait([self._next])
        self._worker.shutdown(wait=False)  # a thread that is about to start may wait for us


def interruptible(cursor: duckdb.DuckDBPyConnection, work: Callable[[], R]) -> R:
    """Work in another thread, so that the main one hears Ctrl-C; DuckDB itself often misses it."""
    if current_thread() is not main_thread():  # no other is told of it
        return work()
    with ThreadPoolExecutor(1) as worker:
        try:
            return worker.submit(work).result()
        except KeyboardInterrupt:
            cursor.interrupt()
            raise
