"""Sessions of Spark: one of ours in a process, a new one on a server, or that of a data frame.

Nothing of a session that is not ours is changed, and it is never stopped: on a Spark that somebody
else started in this process we have a session of our own, and what a data frame's own session would
have to be told is asked of its owner. Decision `spark`.
"""

from __future__ import annotations

import socket
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sfumato.data.engines.base import LOCAL, engine_failed, table_missing, translating_errors
from sfumato.data.engines.spark.jobs import in_own_thread
from sfumato.data.engines.spark.log_silence import hush, start_java
from sfumato.errors import EngineError, SourceError
from sfumato.text import without_passwords

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

NEEDED = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parser.escapedStringLiterals": "false",
}
"""What the meaning of queries depends on: the time zone, errors at overflow, how text is quoted."""

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.sql.files.openCostInBytes": str(256 << 10),
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": str(4 << 20),
}
"""What keeps a Spark of ours quiet, and busy: what it reads is parted among all cores, down to
pieces of the first size. By default a compressed file of 4 MiB, which may have millions of rows, is
read by one core alone. What was exchanged is put together again to parts of the second size: one
part comes to the driver at once, and rows that are alike take little room until they are there."""

_TOO_MUCH = ("TaskResultLost", "OutOfMemoryError", "spark.driver.maxResultSize")
"""What Spark says when something does not fit; which of its parts it was does not tell of rows."""

_UTC_NAMES = {"etc/utc": "utc", "gmt": "utc", "z": "utc", "+00:00": "utc"}
"""Other names of the time zone that is needed."""

_PORT, _PATIENCE = 15002, 10
"""Where Spark Connect listens unless told otherwise, and for how many seconds we knock there."""
_RETRIES, _LONGEST_PAUSE = 6, 4_000
"""How often a server that does not answer is asked again, and milliseconds at most in between."""


@dataclass
class _Held:
    """A session of ours, how it ends, and how many engines hold it."""

    session: SparkSession
    end: Callable[[], None]
    holders: int = 1
    started: bool = False
    """Whether its Spark ends with it, and what that keeps in memory."""


_HELD: dict[str, _Held] = {}
"""Our sessions by their address: engines share them, and so see each other's temporary views."""

_HOLDING = Lock()


def translate(error: Exception) -> BaseException:
    """Turn what Spark raises into what we raise."""
    detail = without_passwords(f"{type(error).__name__}: {error}")
    if detail.startswith("AnalysisException: [TABLE_OR_VIEW_NOT_FOUND]"):
        return table_missing("Spark", detail)
    if any(mark in detail for mark in _TOO_MUCH):
        return EngineError(
            "engine_failed",
            "Spark had no room for a part of the result. Have it write by itself, into a folder "
            "(-o out/) or a table (-o table:NAME), or start it with more spark.driver.memory.",
            detail=detail,
        )
    return engine_failed("Spark", detail)


@translating_errors(translate)
def start_session(address: str) -> SparkSession:
    """Start a session of ours at an address, or share the one that runs; leave it in the end."""
    with _HOLDING:
        held = _HELD.get(address)
        if held is not None and not _ended(held.session):
            held.holders += 1
            return held.session
        opened = _connected(address) if address.startswith("sc://") else _started(address)
        _HELD[address] = opened
        return opened.session


def leave_session(address: str) -> None:
    """Let go of a session of ours; the last that held it ends it."""
    with _HOLDING:
        held = _HELD[address]
        held.holders -= 1
        if held.holders:
            return
        del _HELD[address]
    if not _ended(held.session):
        held.end()


def _started(address: str) -> _Held:
    """A session of a Spark that we start, or beside another's: a process has one Spark only."""
    hush()  # before anything of PySpark is loaded
    try:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    except ImportError:
        raise _not_installed("Spark", "spark") from None
    local = address == LOCAL
    running = SparkContext._active_spark_context  # noqa: SLF001  no other way to look
    if running is None:
        session = in_own_thread(lambda: _built("local[*]" if local else address), awaited=False)
        return _Held(session, session.stop, started=True)
    running_master = str(running.master)
    if running_master != address and not (local and running_master.startswith("local")):
        raise SourceError(
            "source_unsupported",
            f"Cannot open Spark at {address}: this process runs Spark at {running_master} already, "
            "and can run one only. Stop that one with spark.stop(), or use another process.",
        )
    beside = SparkSession.builder.getOrCreate().newSession()
    return _Held(_prepared(beside), ExitStack().close)


def _connected(address: str) -> _Held:
    """A session of our own on a Spark Connect server; to stop it leaves the server alone."""
    hush()
    try:
        from pyspark.sql.connect.client.retries import DefaultPolicy
        from pyspark.sql.connect.session import SparkSession
    except ImportError:
        raise _not_installed("Spark Connect", "spark-connect") from None
    _check_reachable(address)
    # The builder would make it the caller's own active session; the class itself does not.
    session = _prepared(in_own_thread(lambda: SparkSession(connection=address), awaited=False))
    # By default a server that is gone is waited for ten minutes and more, and Ctrl-C with it.
    session.client.set_retry_policies([DefaultPolicy(_RETRIES, max_backoff=_LONGEST_PAUSE)])
    return _Held(session, session.stop)


def _ended(session: SparkSession) -> bool:
    """Whether somebody stopped it: then another is to be started."""
    if is_remote(session):
        return bool(session.is_stopped)
    return session.sparkContext._jsc is None  # noqa: SLF001  no other way to look


def check_running(session: SparkSession) -> None:
    """Refuse a session that somebody stopped; Spark itself notices only at the next job."""
    if _ended(session):
        raise SourceError(
            "source_missing",
            "Cannot read from Spark: its session was stopped. Start one, and open the data again.",
        )


def is_remote(session: SparkSession) -> bool:
    """Whether it is a session of Spark Connect, which has neither a context nor a plan here."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


def forgets_tables(session: SparkSession) -> bool:
    """Whether we started its Spark, and its own catalogue lives in memory, so ends with us."""
    with _HOLDING:
        started = any(held.session is session and held.started for held in _HELD.values())
    return (
        started
        and session.conf.get("spark.sql.catalogImplementation") == "in-memory"
        and session.conf.get("spark.sql.catalog.spark_catalog", None) is None
    )


def check_settings(session: SparkSession) -> None:
    """Refuse somebody's session whose settings would change what our queries mean."""
    wrong = _unsuitable_settings(session)
    if wrong:
        settings = ", ".join(f"{name}={value}" for name, value in wrong.items())
        lines = "; ".join(f'spark.conf.set("{name}", "{NEEDED[name]}")' for name in wrong)
        raise SourceError(
            "source_unsupported",
            f"Cannot read this data frame: its session has {settings}, with which figures would "
            "differ. The session is yours, so we do not change it.",
            hint=f"Write: {lines}.",
        )


def _built(master: str) -> SparkSession:
    from pyspark.sql import SparkSession

    settings = {"spark.master": master, "spark.app.name": "sfumato", **SETTINGS}
    if master.startswith("local"):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    start_java(settings)
    return _prepared(SparkSession.builder.config(map=settings).getOrCreate())


def _prepared(session: SparkSession) -> SparkSession:
    for name in _unsuitable_settings(session):
        session.conf.set(name, NEEDED[name])
    return session


def _unsuitable_settings(session: SparkSession) -> dict[str, str]:
    """The settings that are not as needed, as they are."""
    current = {name: session.conf.get(name) or "" for name in NEEDED}
    meant = {name: _UTC_NAMES.get(value.lower(), value.lower()) for name, value in current.items()}
    return {name: current[name] for name, value in NEEDED.items() if meant[name] != value.lower()}


def _check_reachable(address: str) -> None:
    """Find out quickly that nobody is there: the client would go on trying for minutes."""
    url = urlsplit(address)
    try:
        host, port = url.hostname or "", url.port or _PORT
        socket.create_connection((host, port), _PATIENCE).close()
    except (OSError, ValueError) as error:
        raise EngineError(
            "engine_unreachable",
            "Cannot connect to Spark Connect.",
            hint="Check host and port in sc://host:port#table, and that the server runs.",
            detail=f"{type(error).__name__}: {error}",
        ) from None


def _not_installed(product: str, extra: str) -> SourceError:
    return SourceError(
        "package_missing",
        f"{product} needs packages that are not installed.",
        hint=f"Install them with: pip install 'sfumato[{extra}]'.",
    )
