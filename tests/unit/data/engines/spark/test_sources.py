"""Sources on Spark: data frames of somebody's own session, Spark Connect, folders."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from gc import collect
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from sqlglot import exp

import sfumato as sf
from sfumato.data.engines.base import LOCAL, SparkAddress, everything, spark_address
from sfumato.data.engines.sources import open_source
from sfumato.data.engines.spark import session as sessions
from sfumato.data.engines.spark.session import hush
from sfumato.data.engines.spark.sources import open_spark
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.schema import Schema
from sfumato.errors import SfumatoError, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ROWS = pa.table({"who": [1, 2, 3], "age": [30, 40, 50]})
SCHEMA = Schema("t", (Column("age", Kind.INTEGER, domain=Bounds(0, 110)),))


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(SfumatoError) as refused:
        call()
    assert "\n" not in refused.value.message
    return refused.value.code


@pytest.fixture(params=["classic", "connect"])
def theirs(request: pytest.FixtureRequest, spark_session: Any) -> Iterator[Any]:
    """A session that somebody else opened."""
    if request.param == "classic":
        yield spark_session.newSession()
        return
    address = request.getfixturevalue("connect_address")
    hush()
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession(connection=address)
    yield session
    session.stop()


def test_a_data_frame_on_spark_stays_where_it_is(theirs: Any) -> None:
    before = theirs.conf.getAll
    frame = theirs.createDataFrame(ROWS)
    with sf.read(frame, SCHEMA) as table:
        assert table.engine.run(everything(table.engine.table)).num_rows == 3
    private = sf.protect(frame, SCHEMA, epsilon=9)
    found = private.query("SELECT COUNT(*) AS n FROM t", epsilon=8)
    assert abs(found.table["n"][0].as_py() - 3) < 4
    assert len(theirs.catalog.listTables()) == 1
    del private
    collect()
    assert theirs.catalog.listTables() == []
    assert theirs.conf.getAll == before
    assert frame.count() == 3


def test_a_session_on_spark_is_told_what_to_set(theirs: Any) -> None:
    theirs.conf.set("spark.sql.ansi.enabled", "false")
    theirs.conf.set("spark.sql.session.timeZone", "Europe/Rome")
    with pytest.raises(SourceError) as refused:
        sf.read(theirs.createDataFrame(ROWS), SCHEMA)
    assert refused.value.code == "source_unsupported"
    for line in (
        'spark.conf.set("spark.sql.ansi.enabled", "true")',
        'spark.conf.set("spark.sql.session.timeZone", "UTC")',
    ):
        assert line in refused.value.message
        eval(line, {"spark": theirs})  # noqa: S307  the very line to write
    sf.read(theirs.createDataFrame(ROWS), SCHEMA).close()


def test_a_data_frame_on_spark_that_differs_at_each_look(spark_session: Any) -> None:
    from pyspark.sql import functions

    frame = spark_session.createDataFrame(ROWS)
    drawn = frame.where(functions.rand() < 0.5)
    assert code_of(lambda: sf.read(drawn, SCHEMA)) == "source_unsupported"
    sf.read(drawn.localCheckpoint(), SCHEMA).close()
    stream = spark_session.readStream.format("rate").load()
    assert code_of(lambda: sf.read(stream, SCHEMA)) == "source_unsupported"


@pytest.mark.parametrize("words", ["1 AS x, 2 AS X", "1 AS x, 2 AS x"])
def test_a_data_frame_on_spark_with_twins_is_refused_at_once(
    spark_session: Any, words: str
) -> None:
    frame = spark_session.sql(f"SELECT {words}")
    with pytest.raises(sf.SfumatoError) as refused:
        sf.read(frame, schema=sf.Schema("t", (sf.Column("x", sf.Kind.INTEGER),)))
    assert refused.value.code == "name_taken"


def test_what_somebody_keeps_in_memory_on_spark_stays_there(
    spark_session: Any, tmp_path: Path
) -> None:
    parquet.write_table(ROWS, tmp_path / "a.parquet")
    frame = spark_session.read.parquet(str(tmp_path)).cache()
    try:
        assert frame.count() == 3
        with sf.read(frame, SCHEMA) as table:
            assert table.engine.run(everything(table.engine.table)).num_rows == 3
            with table.engine.view(everything(table.engine.table)):
                pass
        assert frame.storageLevel.useMemory
        sf.read(frame.select("*"), SCHEMA).close()
        assert frame.storageLevel.useMemory
    finally:
        frame.unpersist()


def ask(private: Any, question: str = "SELECT COUNT(*) AS n FROM t") -> int:
    found: int = private.query(question, epsilon=2).table["n"][0].as_py()
    return found


def test_a_session_whose_settings_change_is_not_asked_or_charged(theirs: Any) -> None:
    private = sf.protect(theirs.createDataFrame(ROWS), SCHEMA, epsilon=9)
    theirs.conf.set("spark.sql.ansi.enabled", "false")
    assert code_of(lambda: ask(private)) == "source_unready"
    theirs.conf.set("spark.sql.ansi.enabled", "true")
    assert private.remaining["epsilon"] == 9
    assert abs(ask(private) - 3) < 20


def test_a_stopped_session_is_not_asked_or_charged(
    spark_session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = sf.protect(spark_session.createDataFrame(ROWS), SCHEMA, epsilon=9)
    with monkeypatch.context() as stopped:  # all tests share the session: it is not really ended
        stopped.setattr(spark_session.sparkContext, "_jsc", None)
        assert code_of(lambda: ask(private)) == "source_unready"
    assert private.remaining["epsilon"] == 9


def test_a_frame_on_spark_whose_files_change_is_not_asked_or_charged(
    theirs: Any, tmp_path: Path
) -> None:
    parquet.write_table(ROWS, tmp_path / "a b.parquet")
    private = sf.protect(theirs.read.parquet(str(tmp_path)), SCHEMA, epsilon=9)
    parquet.write_table(pa.concat_tables([ROWS] * 9), tmp_path / "a b.parquet")
    assert code_of(lambda: ask(private)) == "source_unready"
    assert private.remaining["epsilon"] == 9


def test_a_folder_on_spark_is_seen_as_it_is_at_each_question(
    folder: Callable[[Path], str], tmp_path: Path
) -> None:
    data, declared = tmp_path / "data", tmp_path / "t.toml"
    write(data, a=ROWS)
    SCHEMA.save(declared)
    with sf.init(tmp_path / "vault") as vault:
        vault.add("t", folder(data), declared, epsilon=9)
        assert abs(ask(vault) - 3) < 20
        parquet.write_table(pa.concat_tables([ROWS] * 100), data / "a.parquet")
        assert abs(ask(vault, "SELECT COUNT(*) AS n, COUNT(*) AS a FROM t") - 300) < 40
        parquet.write_table(ROWS, data / "b.parquet")
        assert (
            abs(ask(vault, "SELECT COUNT(*) AS n, COUNT(*) AS a, COUNT(*) AS b FROM t") - 303) < 40
        )
        before = vault.accounts()
        parquet.write_table(pa.table({"z": [1]}), data / "c.parquet")
        assert (
            code_of(lambda: ask(vault, "SELECT COUNT(*) AS n, COUNT(*) AS c FROM t"))
            == "source_unready"
        )
        assert vault.accounts() == before


def test_a_table_on_spark_is_seen_as_it_is_at_each_question(
    spark_session: Any, tmp_path: Path
) -> None:
    data, declared = tmp_path / "data", tmp_path / "t.toml"
    write(data, a=ROWS)
    SCHEMA.save(declared)
    spark_session.sql(f"CREATE TABLE growing USING parquet LOCATION '{data}'")
    try:
        with sf.init(tmp_path / "vault") as vault:
            vault.add("t", "spark://local#growing", declared, epsilon=9)
            assert abs(ask(vault) - 3) < 20
            parquet.write_table(pa.concat_tables([ROWS] * 100), data / "b.parquet")
            assert abs(ask(vault, "SELECT COUNT(*) AS n, SUM(age) AS a FROM t") - 303) < 40
    finally:
        spark_session.sql("DROP TABLE growing")


def test_a_session_beside_anothers_on_spark(
    spark_session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_HELD", {})  # as if somebody else had started it
    spark_session.conf.set("spark.sql.session.timeZone", "Europe/Rome")
    try:
        beside = sessions.start_session(LOCAL)
        assert beside is not spark_session
        assert beside.conf.get("spark.sql.session.timeZone") in {"UTC", "Etc/UTC"}
        assert spark_session.conf.get("spark.sql.session.timeZone") == "Europe/Rome"
        sessions.leave_session(LOCAL)
        assert spark_session.range(1).count() == 1
    finally:
        spark_session.conf.set("spark.sql.session.timeZone", "UTC")
    elsewhere = "spark://127.0.0.1:1"
    assert code_of(lambda: open_source(f"{elsewhere}#t")) == "source_unsupported"


def test_nobody_at_the_address_of_spark_connect(spark_session: Any) -> None:
    del spark_session  # whose Java machine all tests on Spark wait for
    assert code_of(lambda: open_source("sc://127.0.0.1:1#t")) == "engine_unreachable"


def test_a_server_of_spark_that_is_gone_is_not_waited_for_long(connect_address: str) -> None:
    with closing(open_spark(f"{connect_address}#none")) as engine:
        policies = engine._session.client.get_retry_policies()
    milliseconds = [one.max_retries * one.max_backoff for one in policies]
    assert 0 < sum(milliseconds) < 30_000


def test_tables_by_spark_connect(spark_session: Any, connect_address: str, tmp_path: Path) -> None:
    run = spark_session.sql
    run(f"CREATE TABLE connected USING parquet LOCATION '{tmp_path}' AS SELECT 1 AS age")
    try:
        run("CREATE VIEW seen_by_connect AS SELECT * FROM connected")
        with closing(open_source(f"{connect_address}#connected")) as engine:
            found = engine.identity()  # type: ignore[attr-defined]
        with closing(open_source("spark://local#connected")) as engine:
            assert engine.identity() == found  # type: ignore[attr-defined]
        assert str(tmp_path) in found.names
        with closing(open_source(f"{connect_address}#seen_by_connect")) as engine:
            assert engine.run(everything(engine.table)).num_rows == 1
            assert code_of(engine.identity) == "source_unsupported"  # type: ignore[attr-defined]
        assert code_of(lambda: open_source(f"{connect_address}#nothing")) == "table_missing"
    finally:
        run("DROP VIEW IF EXISTS seen_by_connect")
        run("DROP TABLE connected")


def write(folder: Path, **tables: pa.Table) -> None:
    folder.mkdir(parents=True)
    for name, table in tables.items():
        parquet.write_table(table, folder / f"{name}.parquet")


@pytest.fixture(params=["", "connect"])
def folder(request: pytest.FixtureRequest, spark_session: Any) -> Callable[[Path], str]:
    """The address of a folder, for either way to Spark."""
    del spark_session
    master = f"?master={request.getfixturevalue('connect_address')}" if request.param else ""
    return lambda path: f"spark+parquet://{path}/{master}"


def test_a_folder_on_spark(folder: Callable[[Path], str], tmp_path: Path) -> None:
    write(tmp_path / "visits" / "year=2024", one=ROWS)
    write(tmp_path / "visits" / "year=2025", two=ROWS)
    with closing(open_source(folder(tmp_path / "visits"))) as engine:
        assert list(engine.columns(engine.table)) == ["who", "age", "year"]
        counted = exp.select(exp.Count(this=exp.Star())).from_(engine.table)
        assert engine.run(counted).column(0).to_pylist() == [6]
        assert str(tmp_path / "visits") in engine.identity().names  # type: ignore[attr-defined]


def test_folders_that_spark_cannot_read(folder: Callable[[Path], str], tmp_path: Path) -> None:
    write(tmp_path / "empty")
    write(tmp_path / "mixed", one=ROWS, two=pa.table({"who": ["a"], "age": [1]}))
    write(tmp_path / "lacking", one=ROWS, two=ROWS.select(["who"]))
    write(tmp_path / "turned", one=ROWS, two=ROWS.select(["age", "who"]))
    codes = {
        "empty": "source_missing",
        "nowhere": "source_missing",
        "mixed": "schema_differs",
        "lacking": "schema_differs",
    }
    for name, code in codes.items():
        assert code_of(partial(open_source, folder(tmp_path / name))) == code, name
    with closing(open_source(folder(tmp_path / "turned"))) as engine:
        assert engine.run(everything(engine.table))["age"].to_pylist().count(30) == 2
    unknown = folder(tmp_path / "mixed").replace("parquet", "delta", 1)
    assert code_of(lambda: open_source(unknown)) == "package_missing"


def test_addresses_of_spark() -> None:
    assert spark_address("spark+parquet:///a/./b/./") == spark_address("spark+parquet:///a/b/")
    assert spark_address("spark+parquet:///a/b/") == SparkAddress(
        LOCAL, form="parquet", path="file:///a/b"
    )
    there = spark_address("spark+delta://s3a://bucket/b?master=sc://host:15002/;use_ssl=true")
    assert there == SparkAddress(
        "sc://host:15002/;use_ssl=true", form="delta", path="s3a://bucket/b"
    )
    assert spark_address("sc://host#a.b") == SparkAddress("sc://host", table="a.b")
    for wrong in (
        "spark+parquet://",
        "spark+parquet:///",
        "spark+parquet:///a/*",
        "spark+orc:///a",
    ):
        assert code_of(partial(spark_address, wrong)) == "address_malformed"


def test_a_small_file_is_read_by_all_cores(spark_session: Any, tmp_path: Path) -> None:
    cells = pa.table({"a": [f"{place * 7919 % 99_991:064d}" for place in range(20_000)]})
    path = tmp_path / "a.parquet"
    parquet.write_table(cells, path, 1_000, use_dictionary=False, compression="none")
    cores = spark_session.sparkContext.defaultParallelism
    parts = spark_session.read.parquet(str(path)).rdd.getNumPartitions()
    assert parts >= min(cores, 4), "a file below 4 MiB would be one part"
