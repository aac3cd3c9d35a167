"""A day that only engines know decides nothing, wherever the table lies: it is at its bound.

Databases hold infinite days, days before Christ and after the year 9999, and times of day.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.vault.creation import create
from sfumato.vault.registration import Registration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BOUNDS, LISTED = "bounds = [2020-01-01, 2020-01-05]", "values = [2020-01-02, 2020-01-05]"
SCHEMA = """\
table = "t"
unit = {{ column = "p", max_rows = 2, max_groups = 2 }}
[columns.p]
kind = "text"
nullable = false
[columns.d]
kind = "date"
{domain}
"""
QUESTION = (
    "SELECT d, COUNT(*) AS n, COUNT_IF(EXTRACT(YEAR FROM d) > 2019 "
    "AND DATE_TRUNC('month', d) < d AND d - DATE '2019-01-01' > 9) AS m FROM t GROUP BY d"
)


def told(private: Any, number: int) -> str:
    """All that a question, a publication and a synthesis tell but for figures, or how they fail."""
    tiny = f"{number + 1}e-9"
    try:
        answer = private.query(QUESTION, epsilon=tiny)
        made = private.publish("histogram", columns=["d"], epsilon=tiny)
        drawn = private.synthesize(method="independent", columns=["d"], epsilon=tiny, rows=3)
    except SfumatoError as error:
        return f"{error.code}: {error.message}"
    groups = [one.table["d"].to_pylist() for one in (answer, made)]
    return str((groups, [one.table.schema for one in (answer, made, drawn)]))


def check(source: str, domain: str, put: Callable[[list[Any]], None], days: list[Any]) -> None:
    """A vault tells the same with all these days in it as with the first, which is a usual one."""
    Path("t.toml").write_text(SCHEMA.format(domain=domain))
    put(days[:1])
    create(Path("vault"))
    added = Registration(name="t", source=source, schema=Path("t.toml"), epsilon=1, delta="1e-6")
    added.add_to(Path("vault"))
    with sf.open("vault") as vault:
        expected = told(vault.private("t"), 0)
        assert expected.startswith("(")
        put(days)
        assert told(vault.private("t"), 1) == expected


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def postgres(postgres_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection
        connection.execute("DROP TABLE far_dates")


@pytest.mark.parametrize("domain", [BOUNDS, LISTED], ids=["bounds", "listed"])
@pytest.mark.parametrize("kind", ["date", "timestamp"])
def test_in_postgres(postgres_url: str, postgres: Any, kind: str, domain: str) -> None:
    postgres.execute(f"CREATE TABLE far_dates (p TEXT, d {kind})")
    postgres.execute(
        "INSERT INTO far_dates SELECT 'p' || i, '2020-01-02' FROM generate_series(1, 9) AS i"
    )

    def put(days: list[Any]) -> None:
        for day in days:
            postgres.execute(f"INSERT INTO far_dates VALUES ('v{day}', '{day}')")

    days = ["2020-01-05", "infinity", "-infinity", "0044-03-15 BC", "12000-01-01"]
    check(f"{postgres_url}#far_dates", domain, put, [*days, "2020-01-02 12:34:56.789"])


@pytest.mark.slow
def test_in_spark(spark_session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(spark_session), "stop", lambda _: None)  # it is not the vault's
    usual, home = 18_263, tmp_path / "rows"
    home.mkdir()

    def put(days: list[Any]) -> None:
        cells = pa.array([usual] * 9 + days, pa.date32())
        people = [f"p{place}" for place in range(len(cells))]
        pq.write_table(pa.table({"p": people, "d": cells}), home / "rows.parquet")

    put([usual])
    spark_session.sql(f"CREATE TABLE far_dates USING parquet LOCATION '{home}'")
    try:
        beyond = [2**31 - 1, -(2**31), 3_663_477, -735_603]
        check("spark://local#far_dates", BOUNDS, put, [usual, *beyond])
    finally:
        spark_session.sql("DROP TABLE far_dates")
