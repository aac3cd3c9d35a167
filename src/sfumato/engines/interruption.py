"""Work of DuckDB's in threads of its own, so that whoever waits for it hears Ctrl-C."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb
    import pyarrow as pa

R = TypeVar("R")


class Ahead:
    """Makes the next batch while the last one is being used."""

    def __init__(
        self, cursor: duckdb.DuckDBPyConnection, make: Callable[[], pa.RecordBatch | None]
    ) -> None:
        self._cursor, self._make = cursor, make
        self._worker = ThreadPoolExecutor(1)
        self._next = self._worker.submit(make)

    def take(self) -> pa.RecordBatch | None:
        """The next batch, or None after the last one."""
        try:
            batch = self._next.result()
        except KeyboardInterrupt:
            self._cursor.interrupt()
            raise
        if batch is not None:
            self._next = self._worker.submit(self._make)
        return batch

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nobody wants what is being made any more; the cursor is closed only after it."""
        if not self._next.done():
            self._cursor.interrupt()
        self._worker.shutdown()


def interruptible(cursor: duckdb.DuckDBPyConnection, work: Callable[[], R]) -> R:
    """Work in another thread, so that this one hears Ctrl-C; DuckDB itself often misses it."""
    with ThreadPoolExecutor(1) as worker:
        future = worker.submit(work)
        try:
            return future.result()
        except KeyboardInterrupt:
            cursor.interrupt()
            raise
