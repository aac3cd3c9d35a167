"""Where Spark's executors write: tables of its catalogue, and folders of Parquet files.

A table is written as a draft that is renamed when it is complete. Executors write files on their
own machines, so a folder on this machine is accepted only if all rows can be read in it from here.
A folder at an address is renamed by the Hadoop file system. Decision `writing-releases`.
"""

from __future__ import annotations

import re
import shutil
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from sfumato.data.engines.base import render, translating_errors
from sfumato.data.engines.spark.jobs import SparkJobs, in_own_thread
from sfumato.data.engines.spark.session import forgets_tables, translate
from sfumato.data.files.formats import PARQUET, ends_in
from sfumato.data.files.writers import (
    RELEASE,
    check_local,
    part_name,
    parts_in,
    table_exists,
    table_in_use,
    table_not_a_release,
    whole_folder,
)
from sfumato.errors import OutputError, option
from sfumato.filesystem import MARK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from sqlglot import exp

    from sfumato.data.engines.base import FolderTarget, TableTarget


# Ends of the names of drafts and of replaced tables.
_DRAFT, _OLD = "sfumato_draft", "sfumato_old"

# The name of Spark's own catalogue; others keep their tables elsewhere.
_OWN_CATALOGUE = "spark_catalog"

# The table property that marks a release.
_MARK = "sfumato.release"


@contextmanager
def drafted(
    session: SparkSession, query: str, target: TableTarget, *, overwrite: bool
) -> Iterator[exp.Table]:
    """Write a query's result to a draft table that is renamed at the end."""
    draft = target.beside(f"{target.name}_{token_hex(8)}_{_DRAFT}")
    try:
        _write_draft(session, query, draft)
        yield draft.copy()
        _run_to_end(lambda: _settle(session, draft, target, overwrite=overwrite))
    except BaseException:
        _run_to_end(lambda: _discard(session, draft, target))
        raise


@translating_errors(translate)
def _write_draft(session: SparkSession, query: str, draft: exp.Table) -> None:
    def write() -> None:
        session.sql(query).write.saveAsTable(_sql(draft))
        session.sql(f"ALTER TABLE {_sql(draft)} SET TBLPROPERTIES ('{_MARK}' = '{RELEASE}')")

    SparkJobs(session).run(write)


@translating_errors(translate)
def _run_to_end(work: Callable[[], None]) -> None:
    """Run renames and drops to their end; a Ctrl-C meanwhile takes no effect."""
    finished: list[bool] = []

    def all_of_it() -> None:
        work()
        finished.append(True)

    try:
        in_own_thread(all_of_it, lambda: None)
    except KeyboardInterrupt:
        if not finished:
            raise


def _settle(
    session: SparkSession, draft: exp.Table, target: TableTarget, *, overwrite: bool
) -> None:
    """Rename the draft to the target; the replaced table is kept until that has succeeded."""
    old = target.beside(f"{target.name}_{token_hex(8)}_{_OLD}")
    replaced = overwrite and session.catalog.tableExists(_sql(target.table))
    if replaced:
        _check_release(session, target)  # again: a table made since would be lost
        _rename(session, target.table, old)
    try:
        _rename(session, draft, target.table)
    except Exception as error:
        if replaced:
            _rename(session, old, target.table)
        if "ALREADY_EXISTS" in str(error):  # made since the check
            raise table_exists(target) from None
        raise
    if replaced:
        _drop(session, old)


def _discard(session: SparkSession, draft: exp.Table, target: TableTarget) -> None:
    _drop(session, draft)
    _remove_folders(session, target)


def check_table(
    session: SparkSession, target: TableTarget, source: exp.Table, *, overwrite: bool
) -> None:
    """Refuse a table that exists, that the source reads, or that cannot be created to last."""
    catalogue = target.catalog or session.catalog.currentCatalog()
    if catalogue == _OWN_CATALOGUE and forgets_tables(session):
        raise OutputError(
            "output_unwritable",
            f"Cannot create the table {str(target)!r}: this Spark ends with this process, and so "
            "does its catalogue in memory.",
            hint=(
                "Write a folder (-o out/), or use a Spark whose catalogue lasts: "
                "spark.sql.catalogImplementation hive, or Spark Connect (sc://...)."
            ),
        )
    if re.fullmatch(r"\w+", target.name, re.ASCII) is None:
        raise OutputError(
            "output_unwritable",
            f"Cannot create the table {str(target)!r}: Spark takes only letters, digits and _ in "
            "the name of a table.",
            hint="Choose another name.",
        )
    if target.schema and not session.catalog.databaseExists(_schema(target)):
        raise OutputError(
            "output_unwritable",
            f"Cannot create the table {str(target)!r}: there is no such schema. Create it first.",
        )
    sweep_tables(session, target)
    name = _sql(target.table)
    if not session.catalog.tableExists(name):
        return
    if not overwrite:
        raise table_exists(target)
    files = set(session.table(name).inputFiles())
    if session.catalog.getTable(name).tableType != "MANAGED" or files & reads(session, source):
        raise table_in_use(target)
    _check_release(session, target)


def _check_release(session: SparkSession, target: TableTarget) -> None:
    """Refuse to replace a table that is not a release."""
    properties = session.sql(f"SHOW TBLPROPERTIES {_sql(target.table)}").toArrow().to_pylist()
    if {"key": _MARK, "value": RELEASE} not in properties:
        raise table_not_a_release(target)


def reads(session: SparkSession, source: exp.Table) -> set[str]:
    """Return the files that a table or a view reads; empty where it does not exist."""
    with suppress(Exception):
        return set(session.table(_sql(source)).inputFiles())
    return set()


def sweep_tables(session: SparkSession, target: TableTarget) -> None:
    """Drop drafts of interrupted writes of this table, and restore a replaced table."""
    schema_clause = f" IN {_schema(target)}" if target.schema else ""
    tables = session.sql(f"SHOW TABLES{schema_clause} LIKE '{target.name}_*_sfumato_*'").toArrow()
    for name in tables["tableName"].to_pylist():
        match = re.fullmatch(rf"(.+)_[0-9a-f]{{16}}_({_DRAFT}|{_OLD})", name)
        if match is None or match[1].lower() != target.name.lower():
            continue
        missing = not session.catalog.tableExists(_sql(target.table))
        if match[2] == _OLD and missing:
            _rename(session, target.beside(name), target.table)
        else:
            _drop(session, target.beside(name))
    _remove_folders(session, target)


def _remove_folders(session: Any, target: TableTarget) -> None:
    """Remove folders of drafts that never became tables, where this process reaches them."""
    jvm = getattr(session, "_jvm", None)
    if jvm is None or target.catalog:
        return
    schema = _schema(target) if target.schema else session.catalog.currentDatabase()
    home = jvm.org.apache.hadoop.fs.Path(session.catalog.getDatabase(schema).locationUri)
    files = home.getFileSystem(session._jsc.hadoopConfiguration())  # noqa: SLF001
    pattern = f"{target.name.lower()}_{'[0-9a-f]' * 16}_{_DRAFT}"
    for status in files.globStatus(jvm.org.apache.hadoop.fs.Path(home, pattern)) or ():
        files.delete(status.getPath(), True)


def _rename(session: SparkSession, table: exp.Table, to: exp.Table) -> None:
    session.sql(f"ALTER TABLE {_sql(table)} RENAME TO {_sql(to)}")


def _drop(session: SparkSession, table: exp.Table) -> None:
    session.sql(f"DROP TABLE IF EXISTS {_sql(table)}")


def _schema(target: TableTarget) -> str:
    return _sql(target.beside("")).rstrip(".")


def _sql(table: exp.Table) -> str:
    return render(table, "spark")


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
            "file_in_use",
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
    """Return the Hadoop file system of an address, and the path in it."""
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
