"""DuckDB: nothing but its source can be reached, and what it fails at is told apart."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet
from sqlglot import exp, parse_one

from sfumato.data.engines.base import everything, translating_errors
from sfumato.data.engines.duckdb import translate
from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.column import Kind
from sfumato.errors import EngineError, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.data.engines.duckdb import DuckDB

SLOW = (
    "SELECT COUNT(*) AS n FROM RANGE(1000000) AS a(x), RANGE(1000000) AS b(y) WHERE x * y % 7 = 3"
)


def parsed(sql: str) -> Any:
    return parse_one(sql, dialect="duckdb")


@pytest.mark.parametrize("kind", ["csv", "parquet", "table"])
def test_nothing_else_can_be_reached(
    opened: Callable[..., DuckDB], tmp_path: Path, kind: str
) -> None:
    (tmp_path / "secret.csv").write_text("a\nsecret\n")
    (tmp_path / "t.csv").write_text("a\n1\n")
    parquet.write_table(pa.table({"a": [1]}), tmp_path / "t.parquet")
    source = pa.table({"a": [1]}) if kind == "table" else tmp_path / f"t.{kind}"
    engine = opened(source)
    outside = tmp_path / "secret.csv"
    for sql in (
        f"SELECT * FROM read_csv('{outside}')",
        f"SELECT * FROM read_text('{outside}')",
        f"SELECT * FROM glob('{tmp_path}/*')",
        f"SELECT * FROM '{outside}'",
        f"ATTACH '{tmp_path}/new.duckdb'",
        f"COPY (SELECT 1) TO '{tmp_path}/out.csv'",
        "SET enable_external_access = TRUE",
        "SET memory_limit = '100GB'",
        "INSTALL httpfs",
        "SELECT * FROM outside",  # the Python variable above
    ):
        with pytest.raises((EngineError, SourceError)):
            engine.run(parsed(sql))
    assert engine.run(everything(engine.table)).num_rows == 1
    assert not (tmp_path / "out.csv").exists()


LEFT_OPEN = """
import pyarrow as pa
from sfumato.data.engines.sources import open_duckdb
rows = pa.table({"a": [1]})
engine = open_duckdb(rows)
lent = engine.lend(rows)
lent.__enter__()
"""


def test_what_is_left_open_when_the_interpreter_ends_is_left_in_silence() -> None:
    command = [sys.executable, "-c", LEFT_OPEN]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stderr == ""


def test_tables_in_memory(opened: Callable[..., DuckDB]) -> None:
    frame = pd.DataFrame(
        {"n": [1.0, None, 3.0], "t": ["a", None, "c"], "d": pd.to_datetime(["2024-01-01"] * 3)}
    )
    kinds = {"n": Kind.INTEGER, "t": Kind.TEXT, "d": Kind.DATE}
    engine = opened(frame[frame.index != 1], kinds=kinds)
    assert engine.columns(engine.table) == kinds
    assert engine.run(everything(engine.table))["n"].to_pylist() == [1, 3]
    engine = opened(pl.DataFrame({"x": [1.5, float("nan"), None]}))
    assert str(engine.run(everything(engine.table))["x"].to_pylist()) == "[1.5, nan, None]"
    with pytest.raises(SourceError) as refusal:
        opened(pd.DataFrame({"x": [1, "canary"]}))
    assert refusal.value.code == "source_unsupported"
    assert "canary" not in str(refusal.value)
    assert refusal.value.__context__ is None


def test_duckdb_file(
    opened: Callable[..., DuckDB], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "it's a.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE SCHEMA s; CREATE TABLE s.people AS SELECT 1::TINYINT AS a")
        connection.execute('CREATE TABLE "Two Words" AS SELECT 2 AS a')
    for url, value in ((f"duckdb://{path}#s.people", 1), (f'duckdb:///{path}#"Two Words"', 2)):
        engine = opened(url)
        assert engine.columns(engine.table) == {"a": Kind.INTEGER}
        assert engine.run(everything(engine.table)).to_pylist() == [{"a": value}]
    monkeypatch.chdir(tmp_path)
    assert opened(f"duckdb:///{path.name}#s.people").columns(exp.to_table("source")) != {}
    with pytest.raises(SourceError) as refusal:
        opened(f"duckdb://{path}#nobody")
    assert refusal.value.code == "table_missing"
    (tmp_path / "b.duckdb").write_text("no database at all")
    with pytest.raises(SourceError) as refusal:
        opened(f"duckdb://{tmp_path}/b.duckdb#t")
    assert refusal.value.code == "file_malformed"


def test_little_memory_spills(opened: Callable[..., DuckDB]) -> None:
    engine = opened(pa.table({"a": [1]}), memory_limit="100MB")
    numbers = "SELECT x, MD5(CAST(x AS VARCHAR)) AS h FROM RANGE(1000000) AS t(x)"
    ordered = f"SELECT COUNT(*) AS n FROM (SELECT * FROM ({numbers}) ORDER BY h OFFSET 1)"
    assert engine.run(parsed(ordered)).to_pylist() == [{"n": 999_999}]


def test_too_little_memory_is_named(opened: Callable[..., DuckDB]) -> None:
    engine = opened(pa.table({"a": [1]}), memory_limit="20MB")
    with pytest.raises(EngineError) as failure:
        engine.run(parsed("SELECT LIST(x) AS l FROM RANGE(50000000) AS t(x)"))
    assert failure.value.code == "engine_out_of_memory"


def test_spilled_files_are_private_and_removed(opened: Callable[..., DuckDB]) -> None:
    engine = opened(pa.table({"a": [1]}))
    settings = "SELECT CAST(CURRENT_SETTING('temp_directory') AS VARCHAR) AS d"
    # DuckDB makes and removes its own directory inside the one that only we can enter.
    directory = Path(engine.run(parsed(settings))["d"][0].as_py()).parent
    assert directory.stat().st_mode & 0o777 == 0o700
    engine.close()
    assert not directory.exists()


def test_interrupt() -> None:
    script = (
        "import pyarrow as pa, sys\n"
        "from sqlglot import parse_one\n"
        "from sfumato.data.engines.sources import open_duckdb\n"
        "engine = open_duckdb(pa.table({'a': [1]}))\n"
        "try:\n    print('ready', flush=True)\n"
        "    engine.run(parse_one(sys.argv[1], dialect='duckdb'))\n"
        "except KeyboardInterrupt as end:\n    print('interrupted', end.__context__)\n"
        "print(engine.run(parse_one('SELECT 1 AS a')).to_pylist())\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, SLOW], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=60)[0] == "interrupted None\n[{'a': 1}]\n"
        finally:
            process.kill()


def test_a_result_left_in_the_middle_does_not_hide_why(opened: Callable[..., DuckDB]) -> None:
    engine = opened(pa.table({"a": [1]}))

    def interrupted() -> None:
        with engine.lend(pa.table({"b": [1]})):
            # So an interruption leaves a cursor whose query had just begun to answer.
            left = engine._connection.cursor().sql("FROM RANGE(1000000)").to_arrow_reader(10)
            assert left
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()


def test_what_fails_while_cleaning_up_after_an_interruption_does_not_hide_it() -> None:
    @translating_errors(translate)
    def work() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise duckdb.InterruptException("INTERRUPT Error: Interrupted!")

    with pytest.raises(KeyboardInterrupt):
        work()


def test_a_stream_that_nobody_closed_ends_while_a_thread_is_started() -> None:
    """Memory is tidied up anywhere, also where `threading` itself holds what ends a thread."""
    lock = getattr(threading, "_shutdown_locks_lock", None)
    if lock is None:
        pytest.skip("this Python ends threads without a lock of its own")
    with closing(open_duckdb(pa.table({"n": range(1_000_000)}))) as engine:
        streams = [engine.stream(everything(engine.table), batch_rows=1_000)]
        streams[0].read_next_batch()

        def drop() -> None:
            with lock:
                streams.clear()
                gc.collect()

        dropping = threading.Thread(target=drop, daemon=True)
        dropping.start()
        dropping.join(20)
        assert not dropping.is_alive()


def test_a_collation_that_ignores_case_makes_no_two_people_one(
    opened: Callable[..., DuckDB], tmp_path: Path
) -> None:
    with duckdb.connect(str(tmp_path / "d.duckdb")) as made:
        made.execute("CREATE TABLE visits (who VARCHAR COLLATE NOCASE, again VARCHAR)")
        made.execute("INSERT INTO visits VALUES ('Anna', 'a'), ('anna', 'b'), ('ANNA', 'c')")
        made.execute("CREATE VIEW seen AS SELECT who COLLATE NOCASE.NOACCENT AS who FROM visits")
    for table in ("visits", "seen"):
        engine = opened(f"duckdb:///{tmp_path}/d.duckdb#{table}")
        counted = parsed("SELECT who, COUNT(*) AS n FROM source GROUP BY who ORDER BY who")
        assert engine.run(counted).to_pydict() == {"who": ["ANNA", "Anna", "anna"], "n": [1, 1, 1]}
        whose = parsed("SELECT COUNT(*) AS n FROM source WHERE who IN (SELECT 'anna')")
        assert engine.run(whose).to_pydict() == {"n": [1]}
