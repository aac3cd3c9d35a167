"""Jobs of Spark: who asked for them, so that they and no others are stopped.

A call into the Java machine that Ctrl-C breaks off leaves its job running, says so on the terminal
and spoils the connection. So what the main thread asks of Spark is done by a thread of its own.
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
_PATIENCE_SECONDS = 0.1
"""After how long a job that began while it was being stopped is stopped again."""


def in_own_thread(
    work: Callable[[], R], stop: Callable[[], None] | None = None, *, awaited: bool = True
) -> R:
    """Do what Ctrl-C must not break off, and pass Ctrl-C on when it has been stopped or has ended.

    What is not awaited goes on by itself. A second Ctrl-C waits for nothing.
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
    """Stop the jobs that a thread of this process has asked for."""
    _cancel(session, _tag(thread))


class SparkJobs:
    """The jobs of one query, known by the thread that asked for it and by a name of their own."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._name = f"sfumato-{token_hex(8)}"
        self._tags = (_tag(get_ident()), self._name)

    def run(self, work: Callable[[], R]) -> R:
        """Do what starts jobs."""
        return in_own_thread(lambda: self.tagged(work), self.stop)

    def tagged(self, work: Callable[[], R]) -> R:
        """Do what starts jobs in this thread."""
        # Tags of a session reach only what Spark counts as its queries, those of a context all
        # jobs; but a server shows us no context.
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
        """Stop the jobs of this query that are running now."""
        with suppress(Exception):  # a Spark that is gone runs nothing
            _cancel(self._session, self._name)

    def stop_until(self, ended: Future[Any]) -> None:
        """Stop the jobs of this query, and whatever they begin next, until some work has ended."""
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
    """What a session of this process runs its jobs with; a session on a server has none."""
    return session.sparkContext if hasattr(session, "_jsparkSession") else None


def _tag(thread: int) -> str:
    """What the jobs of a thread of this process go by; a cluster may serve other processes too."""
    return f"sfumato-{getpid()}-{thread}"
