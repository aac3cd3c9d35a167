"""Write folders of Parquet files with Spark's executors, atomically.

Executors write on their own machines. A folder on this machine is accepted only if all rows can be
read in it from here. A folder at an address is renamed by the Hadoop file system.
Decision `writing-releases`.
"""

from __future__ import annotations

import re
import shutil
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from sfumato.data.engines.spark.jobs import SparkJobs, in_own_thread
from sfumato.data.engines.spark.tables import reads
from sfumato.data.files.formats import PARQUET, ends_in
from sfumato.data.files.writers import check_local, part_name, parts_in, whole_folder
from sfumato.errors import OutputError, option
from sfumato.filesystem import MARK

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from sqlglot import exp

    from sfumato.data.engines.base import FolderTarget

# Without the empty file _SUCCESS, which is no part of a release.
_NO_MARKER = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}


def write_folder(
    session: SparkSession, query: str, target: FolderTarget, *, overwrite: bool
) -> None:
    """Write a query's result to a folder with the executors."""
    if target.local is None:
        write_remote(session, query, target.path, overwrite=overwrite)
        return
    known_as = str(target)
    with whole_folder(target.local, overwrite=overwrite, known_as=known_as) as temporary:
        rows = _write_counted(session, query, temporary.as_uri(), known_as)
        if not temporary.is_dir() or _rows_in(temporary) != rows:
            raise _unseen(known_as)
        for number, file in enumerate(parts_in(temporary)):
            file.rename(temporary / part_name(number))
        for entry in temporary.iterdir():  # remove Hadoop's checksum files and remains of tasks
            if entry.is_dir():
                shutil.rmtree(entry)
            elif not ends_in(entry.name, PARQUET) or entry.name.startswith("."):
                entry.unlink()


def write_remote(session: SparkSession, query: str, address: str, *, overwrite: bool) -> None:
    """Write to a scratch folder at an address, and rename it when all rows are there."""
    in_own_thread(lambda: check_remote(session, address, overwrite=overwrite))
    files, final = _hadoop(session, address)
    scratch = _child(session, final.getParent(), f".{final.getName()}.{token_hex(8)}{MARK}")
    finished, old = (_child(session, scratch, name) for name in ("whole", "old"))
    in_own_thread(lambda: _sweep(session, files, final))

    def settle() -> None:
        if files.exists(final):
            files.rename(final, old)
        if not files.rename(finished, final):
            raise OutputError(
                "output_unwritable",
                f"Cannot write '{address}': the finished folder could not be renamed to its place.",
                hint="Choose another name.",
            )

    def clear() -> None:
        if files.exists(old) and not files.exists(final):
            files.rename(old, final)
        files.delete(scratch, True)

    try:
        rows = _write_counted(session, query, finished.toString(), address)
        written = session.read.parquet(finished.toString())
        if SparkJobs(session).run(written.count) != rows:
            raise _unseen(address)
        in_own_thread(settle)
    finally:
        in_own_thread(clear)


def check_folder(
    session: SparkSession, target: FolderTarget, source: exp.Table, *, overwrite: bool
) -> None:
    """Refuse a folder that exists, that the source reads, or that cannot be reached."""
    address = target.path if target.local is None else target.local.resolve().as_uri()
    within = re.compile(rf"{re.escape(address.rstrip('/').replace('file:///', 'file:/'))}/")
    if any(within.match(file.replace("file:///", "file:/")) for file in reads(session, source)):
        raise OutputError(
            "output_busy",
            f"Cannot write '{target.path}': it is read, and would be lost or changed, which "
            f"{option('overwrite', True)} does not allow.",
            hint="Choose another name.",
        )
    if target.local is not None:
        check_local("Spark", target, overwrite=overwrite)
    else:
        check_remote(session, target.path, overwrite=overwrite)


def check_remote(session: SparkSession, address: str, *, overwrite: bool) -> None:
    """Refuse an address that exists, unless it is a folder of Parquet files to overwrite."""
    files, final = _hadoop(session, address)
    if not files.exists(final):
        return
    inside = [status.getPath().getName() for status in files.listStatus(final)]
    if not overwrite or not all(ends_in(name, PARQUET) for name in inside):
        raise OutputError(
            "output_exists",
            f"Cannot write '{address}': it exists.",
            hint=(
                f"Choose another name; {option('overwrite', True)} replaces a folder of Parquet "
                "files alone."
            ),
        )


def _write_counted(session: SparkSession, query: str, address: str, known_as: str) -> int:
    """Write to a new folder; return the number of rows, counted by Spark while writing."""
    from pyspark.sql import Observation, functions

    def write() -> int:
        seen = Observation()
        rows = functions.count(functions.lit(1)).alias("rows")
        session.sql(query).observe(seen, rows).write.options(**_NO_MARKER).parquet(address)
        row_count: int = seen.get["rows"]
        return row_count

    try:
        return SparkJobs(session).run(write)
    except Exception as error:
        if "Mkdirs failed to create" in str(error):  # an executor on a machine without that folder
            raise _unseen(known_as) from None
        raise


def _rows_in(folder: Path) -> int:
    from pyarrow import parquet

    return sum(parquet.read_metadata(file).num_rows for file in parts_in(folder))


def _unseen(known_as: str) -> OutputError:
    return OutputError(
        "output_unwritable",
        f"Cannot write '{known_as}': Spark's executors do not write to where this machine "
        "reads it.",
        hint=(
            "Name an address that both reach, such as hdfs://host/folder/, or a table, table:NAME."
        ),
    )


def _hadoop(session: SparkSession, address: str) -> tuple[Any, Any]:
    """The Hadoop file system of an address, and the path in it."""
    jvm = getattr(session, "_jvm", None)
    if jvm is None:
        raise OutputError(
            "output_unwritable",
            f"Cannot write '{address}': Spark Connect does not let a finished folder be renamed.",
            hint="Name a table, table:NAME.",
        )
    path = jvm.org.apache.hadoop.fs.Path(address.rstrip("/"))
    return path.getFileSystem(session._jsc.hadoopConfiguration()), path  # noqa: SLF001


def _child(session: Any, parent: Any, name: str) -> Any:
    return session._jvm.org.apache.hadoop.fs.Path(parent, name)  # noqa: SLF001


def _sweep(session: Any, files: Any, final: Any) -> None:
    """Remove scratch folders of interrupted writes; restore the old folder if one holds it."""
    pattern = _child(session, final.getParent(), f".{final.getName()}.*{MARK}")
    for scratch in files.globStatus(pattern):
        old = _child(session, scratch.getPath(), "old")
        if files.exists(old) and not files.exists(final):
            files.rename(old, final)
        files.delete(scratch.getPath(), True)
