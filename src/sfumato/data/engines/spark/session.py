"""Spark sessions: one of ours per process, a new one on a server, or that of a data frame.

A session of the caller is never changed or stopped. On a Spark that the caller started in this
process we use a session of our own; where the session of a data frame has unsuitable settings, an
error asks the caller to change them.

Output and logs of Spark are kept from the terminal, because logs of failed queries quote values.
The output of the Java machine goes to an unnamed temporary file, and into the detail of an error if
the machine does not start. Logs and warnings of the Python side are dropped by logger.

Decisions `spark` and `engine-errors`.
"""

from __future__ import annotations

import logging
import socket
import warnings
from contextlib import ExitStack
from dataclasses import dataclass
from tempfile import TemporaryFile
from threading import Lock
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sfumato.data.engines.base import LOCAL, engine_failed, table_missing, translating_errors
from sfumato.data.engines.spark.jobs import in_own_thread
from sfumato.errors import EngineError, SourceError
from sfumato.text import without_passwords

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession


# Loggers of the bridge to Java and of query errors.
_AUTHORS = ("py4j", "SQLQueryContextLogger")


def hush() -> None:
    """Silence warnings and logs of PySpark and of its bridge to Java in this process."""
    warnings.filterwarnings("ignore", "PySpark does not yet fully support", FutureWarning)
    warnings.filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]", UserWarning)  # the error says so
    for author in _AUTHORS:
        logging.getLogger(author).setLevel(logging.CRITICAL + 1)
    # The bridge reports a lost connection through the root logger, with a traceback.
    logging.getLogger().addFilter(_not_of_the_bridge)


def start_java(settings: Mapping[str, str]) -> None:
    """Start the Java machine of this process, unless it has one, with its output hidden."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:  # noqa: SLF001  there is no other way to look
        return
    with TemporaryFile() as java_output:
        output = {"stdout": java_output, "stderr": java_output}
        failed = ""
        try:
            conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
            gateway = launch_gateway(conf, output)
        except Exception as error:  # noqa: BLE001  whatever it is, what Java said explains it
            java_output.seek(0)
            failed = (
                f"{type(error).__name__}: {error} {java_output.read().decode(errors='replace')}"
            )
    if failed:
        raise engine_failed("Spark", failed)
    SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001  or it would start another


def _not_of_the_bridge(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway"


NEEDED = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parser.escapedStringLiterals": "false",
}
"""Settings that queries rely on: the time zone, errors at overflow, escapes in texts."""

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.sql.files.openCostInBytes": str(256 << 10),
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": str(4 << 20),
}
"""Settings of a Spark that we start: no output, and small partitions.

Files are split among all cores down to openCostInBytes; by default one core reads a compressed file
of 4 MiB, which may have millions of rows. Exchanged rows are merged to partitions of
advisoryPartitionSizeInBytes: the driver fetches a partition at once, and equal rows that are
compressed in an exchange take far more memory in the driver."""

# Spark's messages for a lack of memory; which one it was reveals nothing about rows.
_TOO_MUCH = ("TaskResultLost", "OutOfMemoryError", "spark.driver.maxResultSize")

# Other names of the time zone that is needed.
_UTC_NAMES = {"etc/utc": "utc", "gmt": "utc", "z": "utc", "+00:00": "utc"}

# The default port of Spark Connect, and the seconds to wait for a connection.
_PORT, _PATIENCE = 15002, 10

# Retries of a server that does not answer, and the longest pause between them in milliseconds.
_RETRIES, _LONGEST_PAUSE = 6, 4_000


@dataclass
class _Held:
    """A session of ours, how to end it, and the number of engines that use it."""

    session: SparkSession
    end: Callable[[], None]
    holders: int = 1
    started: bool = False
    """Whether we started its Spark, which then ends with the session."""


# Our sessions by address; engines share them and so see each other's temporary views.
_HELD: dict[str, _Held] = {}

_HOLDING = Lock()


def translate(error: Exception) -> BaseException:
    """Translate an error of Spark into one of ours."""
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
    """Start or share our session at an address; `leave_session` releases it."""
    with _HOLDING:
        held = _HELD.get(address)
        if held is not None and not _is_stopped(held.session):
            held.holders += 1
            return held.session
        opened = (
            _connect_session(address) if address.startswith("sc://") else _start_session(address)
        )
        _HELD[address] = opened
        return opened.session


def leave_session(address: str) -> None:
    """Release a session of ours; the last user ends it."""
    with _HOLDING:
        held = _HELD[address]
        held.holders -= 1
        if held.holders:
            return
        del _HELD[address]
    if not _is_stopped(held.session):
        held.end()


def _start_session(address: str) -> _Held:
    """A session of a Spark that we start, or a second session of the one in this process."""
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
    return _Held(_prepare_session(beside), ExitStack().close)


def _connect_session(address: str) -> _Held:
    """A session of our own on a Spark Connect server; stopping it does not stop the server."""
    hush()
    try:
        from pyspark.sql.connect.client.retries import DefaultPolicy
        from pyspark.sql.connect.session import SparkSession
    except ImportError:
        raise _not_installed("Spark Connect", "spark-connect") from None
    _check_reachable(address)
    # The builder would make it the active session of the caller; the constructor does not.
    session = _prepare_session(
        in_own_thread(lambda: SparkSession(connection=address), awaited=False)
    )
    # By default the client waits more than ten minutes for a lost server and ignores Ctrl-C.
    session.client.set_retry_policies([DefaultPolicy(_RETRIES, max_backoff=_LONGEST_PAUSE)])
    return _Held(session, session.stop)


def _is_stopped(session: SparkSession) -> bool:
    """Return whether a session was stopped, so that another must be started."""
    if is_remote(session):
        return bool(session.is_stopped)
    return session.sparkContext._jsc is None  # noqa: SLF001  no other way to look


def check_running(session: SparkSession) -> None:
    """Refuse a stopped session; Spark itself notices only at the next job."""
    if _is_stopped(session):
        raise SourceError(
            "source_missing",
            "Cannot read from Spark: its session was stopped. Start one, and open the data again.",
        )


def is_remote(session: SparkSession) -> bool:
    """Return whether a session is of Spark Connect, which exposes neither context nor plans."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


def forgets_tables(session: SparkSession) -> bool:
    """Return whether the session's catalogue ends with this process: our own Spark, in memory."""
    with _HOLDING:
        started = any(held.session is session and held.started for held in _HELD.values())
    return (
        started
        and session.conf.get("spark.sql.catalogImplementation") == "in-memory"
        and session.conf.get("spark.sql.catalog.spark_catalog", None) is None
    )


def check_settings(session: SparkSession) -> None:
    """Refuse a caller's session whose settings change the meaning of queries."""
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
    return _prepare_session(SparkSession.builder.config(map=settings).getOrCreate())


def _prepare_session(session: SparkSession) -> SparkSession:
    for name in _unsuitable_settings(session):
        session.conf.set(name, NEEDED[name])
    return session


def _unsuitable_settings(session: SparkSession) -> dict[str, str]:
    """Return the settings that differ from `NEEDED`, with their present values."""
    current = {name: session.conf.get(name) or "" for name in NEEDED}
    meant = {name: _UTC_NAMES.get(value.lower(), value.lower()) for name, value in current.items()}
    return {name: current[name] for name, value in NEEDED.items() if meant[name] != value.lower()}


def _check_reachable(address: str) -> None:
    """Fail fast where no server listens: the client would retry for minutes."""
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
