"""Open the Spark engine on a table, a folder or a data frame.

A folder and a data frame are read through a temporary view, which is dropped with the engine.
Decision `spark`.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING
from urllib.parse import unquote

from sfumato.data.engines.base import named, source_table, spark_address, translating_errors
from sfumato.data.engines.source_identity import files_within, unresolved
from sfumato.data.engines.spark.engine import Spark, create_view
from sfumato.data.engines.spark.plans import (
    file_indexes,
    identity_of_location,
    local_path,
    why_not_fixed,
)
from sfumato.data.engines.spark.session import (
    check_settings,
    is_remote,
    leave_session,
    start_session,
    translate,
)
from sfumato.data.files.file_identity import regular_file
from sfumato.data.files.parquet import check_alike
from sfumato.errors import SourceError
from sfumato.text import without_passwords

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from sfumato.data.engines.base import SparkAddress
    from sfumato.data.engines.source_identity import Identity

# For Spark's error conditions of a folder, our error code and message.
_FOLDER_ERRORS = {
    "PATH_NOT_FOUND": (
        "source_missing",
        "there is nothing of that name. Check the path, and that Spark's machines see it.",
    ),
    "UNABLE_TO_INFER_SCHEMA": (
        "source_missing",
        "there are no files in it. Name the folder that holds them.",
    ),
    "CANNOT_MERGE": (
        "schema_differs",
        "its files hold other types under one name. All files of a table must agree.",
    ),
    "FAILED_READ_FILE": (
        "file_malformed",
        "a file in it is damaged or of another form. Write or fetch it again.",
    ),
    "DATA_SOURCE_NOT_FOUND": (
        "package_missing",
        "this Spark does not know that form. Start it with the package that reads it.",
    ),
}


@translating_errors(translate)
def open_spark(url: str) -> Spark:
    """Open spark://host:port#table, sc://host:port#table or spark+parquet:///folder/."""
    asked = spark_address(url)
    table = None if asked.form else source_table(url, Spark.dialect)[1]
    if table is None:
        _check_alike(asked)
    with ExitStack() as stack:
        session = start_session(asked.master)
        stack.callback(leave_session, asked.master)
        if table is not None:
            return Spark(session, table, close=stack.pop_all().close)
        reader = session.read.format(asked.form)
        if asked.form == "parquet":
            reader = reader.option(
                "mergeSchema", "true"
            )  # so that files with conflicting types raise
        named_wrongs = translating_errors(partial(_translate_folder, asked))
        before = identity_of_location(asked.path).version
        frame = named_wrongs(reader.load)(asked.path)
        return named_wrongs(_engine_on_frame)(
            session,
            frame,
            stack.pop_all(),
            partial(identity_of_location, asked.path),
            partial(_check_folder, frame, asked.path, before),
        )


@translating_errors(translate)
def open_frame(frame: DataFrame) -> Spark:
    """Open a data frame in its own session, which is not changed or stopped."""
    session = frame.sparkSession
    if frame.isStreaming:
        raise _not_fixed("it is a stream")
    check_settings(session)
    if not is_remote(session):  # Spark Connect does not expose the plan
        plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001  nothing else tells
        reason = why_not_fixed(plan)
        if reason is not None:
            raise _not_fixed(reason)
    read = frame.inputFiles()
    ready = partial(_check_frame, session, read, _version(read))
    return _engine_on_frame(session, frame, ExitStack(), _no_identity, ready)


def _engine_on_frame(
    session: SparkSession,
    frame: DataFrame,
    held: ExitStack,
    identity: Callable[[], Identity],
    ready: Callable[[], None],
) -> Spark:
    """An engine on a temporary view of a frame."""
    name = f"source_{token_hex(8)}"
    with held:
        create_view(frame, name)
        held.callback(_drop, session, name)
        close = held.pop_all().close
    return Spark(session, named(name), close=close, identity=identity, ready=ready)


def _drop(session: SparkSession, name: str) -> None:
    """Drop a view; with a stopped session it is already gone."""
    with suppress(Exception):
        session.catalog.dropTempView(name)


def _check_folder(frame: DataFrame, path: str, before: str | None) -> None:
    """Refuse a folder whose files changed; at an address Spark lists the files again."""
    if identity_of_location(path).version != before:
        raise _source_changed("the files of the folder")
    if before is None and not is_remote(frame.sparkSession):
        for index in file_indexes(frame._jdf.queryExecution().analyzed()):  # noqa: SLF001
            index.refresh()


def _check_frame(session: SparkSession, read: Sequence[str], before: str) -> None:
    """Refuse a frame whose session settings or local files changed."""
    check_settings(session)
    if _version(read) != before:
        raise _source_changed("files of the data frame")


def _version(read: Sequence[str]) -> str:
    """Return the state of those files that are on this machine."""
    local = (local_path(unquote(address)) for address in read)
    return repr([_stamp(path) for path in local if path is not None])


def _stamp(path: Path) -> object:
    try:
        return regular_file(path)
    except SourceError:
        return None


def _source_changed(changed: str) -> SourceError:
    return SourceError(
        "source_changed",
        f"Cannot go on: {changed} changed after it was opened.",
        hint="Open it again.",
    )


def _check_alike(asked: SparkAddress) -> None:
    """Refuse local Parquet files with different columns, which Spark would fill with NULL."""
    folder = local_path(asked.path)
    if asked.form == "parquet" and folder is not None and folder.exists():
        files = files_within(folder) if folder.is_dir() else [regular_file(folder)]
        check_alike(files, ordered=False)


def _translate_folder(asked: SparkAddress, error: Exception) -> BaseException:
    """Translate an error of reading a folder."""
    detail = without_passwords(f"{type(error).__name__}: {error}")
    for condition, (code, reason) in _FOLDER_ERRORS.items():
        if f"[{condition}" in detail:
            message = f"Spark cannot read {asked.path} as {asked.form}: {reason}"
            return SourceError(code, message, detail=detail)
    return translate(error)


def _no_identity() -> Identity:
    raise unresolved("a data frame has no name that lasts")


def _not_fixed(reason: str) -> SourceError:
    return SourceError(
        "source_unsupported",
        f"Cannot read this data frame: {reason}, so two looks at it see other rows.",
        hint="Write its rows to a table or to Parquet files, and read those.",
    )
