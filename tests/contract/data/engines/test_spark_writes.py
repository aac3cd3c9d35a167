"""Where Spark's executors write: by address, out of sight, and when somebody stops them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import parquet

from sfumato.data.engines.base import FolderTarget, TableTarget, named
from sfumato.data.engines.spark import session as sessions
from sfumato.data.engines.spark import targets as folders
from sfumato.data.engines.spark.engine import Spark
from sfumato.errors import OutputError
from sfumato.testing.engines import query

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.data.engines.base import Target


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir() if not one.name.endswith(".crc"))


def test_an_address_is_written_whole(spark_session: Any, tmp_path: Path) -> None:
    """By Hadoop's own file system, which here leads to a folder of this machine."""
    address = f"file://{tmp_path}/out/"
    folders.write_remote(spark_session, "SELECT 1 AS a", address, overwrite=False)
    with pytest.raises(OutputError) as refusal:
        folders.write_remote(spark_session, "SELECT 2 AS a", address, overwrite=False)
    assert refusal.value.code == "output_exists"
    # One that was killed between two renamings left the old one in its scratch.
    left = tmp_path / ".out.0123.sfumato-scratch"
    left.mkdir()
    (tmp_path / "out").rename(left / "old")
    folders.write_remote(spark_session, "SELECT 2 AS a", address, overwrite=True)
    assert names(tmp_path) == ["out"]
    [part] = names(tmp_path / "out")
    assert parquet.read_table(tmp_path / "out" / part).to_pylist() == [{"a": 2}]


def test_rows_that_are_not_seen_from_here_are_refused(
    spark_session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a cluster whose machines have folders of their own."""
    monkeypatch.setattr(folders, "_rows_in", lambda _folder: 0)
    engine = Spark(spark_session, named("none"))
    with pytest.raises(OutputError, match="hdfs://") as refusal:
        engine.write(query("SELECT 1 AS a"), FolderTarget(str(tmp_path / "out")))
    assert refusal.value.code == "output_unwritable"
    assert names(tmp_path) == []


def test_a_table_that_would_end_with_our_spark_is_refused(
    spark_session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A catalogue in memory: what is written there nobody finds, and its files block the name."""
    monkeypatch.setattr(sessions._HELD["spark://local"], "started", True)
    engine = Spark(spark_session, named("none"))
    for own in (TableTarget("lost"), TableTarget("lost", "default", "spark_catalog")):
        with pytest.raises(OutputError, match="catalogue lasts") as refusal:
            engine.check(own)
        assert refusal.value.code == "output_unwritable"
    engine.check(FolderTarget(str(tmp_path / "out")))
    theirs = spark_session.newSession()
    Spark(theirs, named("none")).check(TableTarget("kept"))
    monkeypatch.setattr(sessions._HELD["spark://local"], "session", theirs)
    theirs.conf.set("spark.sql.catalog.spark_catalog", "of.a.lake")  # it keeps its tables elsewhere
    assert not sessions.forgets_tables(theirs)


@pytest.mark.parametrize("kind", ["folder", "table"])
def test_ctrl_c_leaves_nothing(spark_session: Any, tmp_path: Path, kind: str) -> None:
    home = tmp_path / "home"
    spark_session.sql(f"CREATE DATABASE interrupted LOCATION '{home}'")
    target: Target = TableTarget("long_one", "interrupted")
    if kind == "folder":
        target = FolderTarget(str(home / "out"))
    slow = "SELECT SUM(a.id * b.id) AS n FROM RANGE(3000000) AS a CROSS JOIN RANGE(3000000) AS b"
    engine = Spark(spark_session, named("none"))
    spark_session.sql(slow).createOrReplaceTempView("slow")

    def interrupt() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if spark_session.sparkContext.statusTracker().getActiveStageIds():
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                return
            time.sleep(0.05)

    waiting = threading.Thread(target=interrupt)
    waiting.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            engine.write(query("SELECT n FROM slow"), target)
        assert names(home) == []
    finally:
        waiting.join()
        spark_session.catalog.dropTempView("slow")
        spark_session.sql("DROP DATABASE interrupted CASCADE")


KILLED = """
import os, signal, sys
from sfumato.data.engines.base import TableTarget
from sfumato.data.engines.spark import targets as tables
from sfumato.data.engines.spark.sources import open_spark
from sfumato.testing.engines import query

renamed = []

def rename(session, table, to, whole=tables._rename):
    if len(renamed) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    renamed.append(to)
    whole(session, table, to)

tables._rename = rename
engine = open_spark(sys.argv[1])
engine.write(query("SELECT 2 AS a"), TableTarget("safe", "killing"), overwrite=True)
"""


@pytest.mark.parametrize("renamings", [0, 1])
def test_spark_of_a_killed_replacing_the_old_table_stands_again(
    spark_session: Any, connect_address: str, tmp_path: Path, renamings: int
) -> None:
    """Killed before the first or between both renamings: the next writing puts it back first."""
    spark_session.sql(f"CREATE DATABASE killing LOCATION '{tmp_path / 'killing'}'")
    try:
        engine, target = Spark(spark_session, named("none")), TableTarget("safe", "killing")
        engine.write(query("SELECT 1 AS a"), target)
        words = [sys.executable, "-c", KILLED, f"{connect_address}#none", str(renamings)]
        path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        killed = subprocess.run(words, check=False, env=path)
        assert killed.returncode == -signal.SIGKILL
        assert spark_session.catalog.tableExists("killing.safe") == (renamings == 0)
        engine.check(target, overwrite=True)
        assert spark_session.table("killing.safe").toArrow().to_pylist() == [{"a": 1}]
        assert [one.name for one in spark_session.catalog.listTables("killing")] == ["safe"]
        engine.write(query("SELECT 3 AS a"), target, overwrite=True)
        assert spark_session.table("killing.safe").toArrow().to_pylist() == [{"a": 3}]
    finally:
        spark_session.sql("DROP DATABASE killing CASCADE")
