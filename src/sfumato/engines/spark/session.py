"""Sessions of Spark: one in a process, which every engine of ours takes over."""

from __future__ import annotations

from collections import Counter
from threading import Lock
from typing import TYPE_CHECKING

from sfumato.engines.base import engine_failed, table_missing, translating_errors
from sfumato.engines.spark.jobs import apart
from sfumato.engines.spark.quiet import hush, start_java
from sfumato.errors import SourceError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
}
"""What a session of ours needs: no chatter, one time zone, errors instead of wrong numbers."""

_OWNERS: Counter[int] = Counter()
"""How many open engines of ours use a session: a process has one, and they all take it over."""

_OWNING = Lock()


def translate(error: Exception) -> BaseException:
    """Turn what Spark raises into what we raise."""
    detail = f"{type(error).__name__}: {error}"
    if detail.startswith("AnalysisException: [TABLE_OR_VIEW_NOT_FOUND]"):
        return table_missing("Spark", detail)
    return engine_failed("Spark", detail)


@translating_errors(translate)
def start_session(master: str) -> SparkSession:
    """Start a Spark session, or take over the running one."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise SourceError(
            "engine_not_installed",
            "Spark needs packages that are not installed. "
            "Install them with: pip install 'sfumato[spark]'.",
        ) from None
    settings = {"spark.master": master, "spark.app.name": "sfumato", **SETTINGS}
    if master.startswith("local"):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

    def start() -> SparkSession:
        start_java(settings)
        session: SparkSession = SparkSession.builder.config(map=settings).getOrCreate()
        return session

    hush()
    return apart(start)


def own(session: SparkSession) -> None:
    """Count one more engine that uses a session of ours."""
    with _OWNING:
        _OWNERS[id(session)] += 1


def disown(session: SparkSession) -> None:
    """Count one less; the last engine that was opened on a session stops it."""
    with _OWNING:
        _OWNERS[id(session)] -= 1
        last = not _OWNERS[id(session)]
    if last:
        session.stop()
