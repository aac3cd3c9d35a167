"""A time of day in a column of days is one malformed cell, wherever the table lies.

Its owner is told of it; to whoever asks it is missing; and nothing but its type decides that.
"""

from __future__ import annotations

import datetime as dt
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import SfumatoError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCHEMA = """\
table = "t"
[columns.p]
kind = "text"
[columns.d]
kind = "date"
values = [2020-01-02, 2020-01-03]
role = "quasi"
hierarchy = { dates = ["month", "year"] }
"""
DAY = dt.datetime.fromisoformat("2020-01-02")
CELLS = [DAY] * 8 + [DAY + dt.timedelta(hours=12, microseconds=1), None]
WHOLE = [DAY] * 9 + [None]


def rows(cells: list[Any]) -> pa.Table:
    people = [f"p{place}" for place in range(len(cells))]
    return pa.table({"p": people, "d": pa.array(cells, pa.timestamp("us"))})


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.toml").write_text(SCHEMA)


@pytest.fixture
def csv() -> Callable[[list[Any]], Any]:
    def put(cells: list[Any]) -> str:
        written = ["" if one is None else str(one).removesuffix(" 00:00:00") for one in cells]
        lines = (f"p{place},{one}\n" for place, one in enumerate(written))
        Path("t.csv").write_text("p,d\n" + "".join(lines))
        return "t.csv"

    return put


@pytest.fixture
def parquet() -> Callable[[list[Any]], Any]:
    def put(cells: list[Any]) -> str:
        pq.write_table(rows(cells), "t.parquet")
        return "t.parquet"

    return put


@pytest.fixture
def memory() -> Callable[[list[Any]], Any]:
    return rows


@pytest.fixture
def duckdb_table() -> Callable[[list[Any]], Any]:
    def put(cells: list[Any]) -> str:
        Path("t.duckdb").unlink(missing_ok=True)
        with closing(duckdb.connect("t.duckdb")) as connection:
            connection.register("given", rows(cells))
            connection.execute("CREATE TABLE t AS SELECT * FROM given")
        return "duckdb:///t.duckdb#t"

    return put


@pytest.fixture
def postgres(postgres_url: str) -> Iterator[Callable[[list[Any]], Any]]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE times_of_day (p TEXT, d TIMESTAMP)")

        def put(cells: list[Any]) -> str:
            connection.execute("TRUNCATE times_of_day")
            for place, one in enumerate(cells):
                connection.execute("INSERT INTO times_of_day VALUES (%s, %s)", (f"p{place}", one))
            return f"{postgres_url}#times_of_day"

        yield put
        connection.execute("DROP TABLE times_of_day")


@pytest.fixture
def spark_frame(spark_session: Any) -> Callable[[list[Any]], Any]:
    def put(cells: list[Any]) -> Any:
        return spark_session.createDataFrame(rows(cells), "p string, d timestamp_ntz")

    return put


@pytest.fixture
def spark_table(
    spark_session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[list[Any]], Any]]:
    monkeypatch.setattr(type(spark_session), "stop", lambda _: None)  # it is not ours
    home = tmp_path / "rows"
    home.mkdir()
    pq.write_table(rows(WHOLE), home / "rows.parquet")
    spark_session.sql(f"CREATE TABLE times_of_day USING parquet LOCATION '{home}'")

    def put(cells: list[Any]) -> str:
        pq.write_table(rows(cells), home / "rows.parquet")
        spark_session.catalog.refreshTable("times_of_day")
        return "spark://local#times_of_day"

    yield put
    spark_session.sql("DROP TABLE times_of_day")


@pytest.fixture(
    params=[
        "csv",
        "parquet",
        "memory",
        "duckdb_table",
        "postgres",
        "spark_frame",
        "spark_table",
    ]
)
def put(request: pytest.FixtureRequest) -> Callable[[list[Any]], Any]:
    found: Callable[[list[Any]], Any] = request.getfixturevalue(request.param)
    return found


def counted(source: Any) -> tuple[list[int], list[int], list[int]]:
    """What a question, one by groups, and a publication count, as good as without noise."""
    with closing(sf.read(source, "t.toml", strict=False)) as opened:
        private = sf.protect(opened, epsilon=10**5, max_epsilon=10**5)
        asked = "SELECT COUNT(*) AS n, COUNT(d) AS a, COUNT_IF(d < DATE '2020-01-03') AS b FROM t"
        (row,) = private.query(asked, epsilon=5000).table.to_pylist()
        keyed = private.query("SELECT d, COUNT(*) AS n FROM t GROUP BY d", epsilon=5000)
        made = private.publish("histogram", columns="d", epsilon=5000)
    return list(row.values()), keyed.table["n"].to_pylist(), made.table["count"].to_pylist()


def test_a_time_of_day_is_one_malformed_cell(put: Callable[[list[Any]], Any]) -> None:
    assert counted(put(WHOLE)) == ([10, 9, 9], [1, 9, 0], [9, 0, 1])
    assert counted(put(CELLS)) == ([10, 8, 8], [2, 8, 0], [8, 0, 2])
    with pytest.raises(SfumatoError) as refusal:
        sf.read(put(CELLS), "t.toml")
    assert refusal.value.code == "cell_malformed"
    with closing(sf.read(put(WHOLE), "t.toml")) as opened:
        assert opened.anonymize(k=9, suppress="0.1").table.num_rows == 9
