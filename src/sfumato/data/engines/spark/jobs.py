"""Jobs of Spark, tagged by thread and query so that exactly these can be cancelled.

Ctrl-C during a call into the Java machine leaves the job running, prints a traceback and breaks the
connection. So the main thread makes such calls in another thread.
Decision `spark`.
"""

from __future__ import annotations

from concurrent.futures import Future, wait
from contextlib import suppress
from os import getpid
from secrets import token_hex
from threading import Thread, current_thread, get_ident, main_thread
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

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
    """The context of a session of this process; None for a session on a server."""
    return session.sparkContext if hasattr(session, "_jsparkSession") else None


def _tag(thread: int) -> str:
    """The tag of a thread; it has the process id, because a cluster serves many processes."""
    return f"sfumato-{getpid()}-{thread}"
