"""The gate before release on tables in PostgreSQL and on Spark: it refuses, and lets pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.attack.registry import CLASS_ATTACKS
from sfumato.cli.main import run

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = """
table = "people"
[columns]
age = { role = "quasi", kind = "integer", bounds = [0, 99], hierarchy = { widths = [10, 50] } }
town = { role = "quasi", kind = "text", values = ["north", "south"], hierarchy = { tree = "*" } }
ill = { role = "sensitive", kind = "text", values = ["flu", "gout", "none"] }
"""
# Everybody in the north has the flu.
PEOPLE = [
    (n % 50, ("north", "south")[n % 2], ("flu", "gout", "flu", "none")[n % 4]) for n in range(200)
]
NAME = "gated_people"


@pytest.fixture
def postgres(postgres_url: str) -> Iterator[str]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {NAME} (age BIGINT, town TEXT, ill TEXT)")
        with connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO {NAME} VALUES (%s, %s, %s)", PEOPLE)
        yield f"{postgres_url}#{NAME}"
        left = connection.execute("SELECT tablename FROM pg_tables WHERE tablename ~ 'gated'")
        assert left.fetchall() == [(NAME,)]
        connection.execute(f"DROP TABLE {NAME}")


@pytest.fixture
def spark(
    spark_session: Any, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    monkeypatch.setattr(type(spark_session), "stop", lambda _: None)  # it is not ours
    home = tmp_path_factory.mktemp("rows")
    columns = [pa.array(one) for one in zip(*PEOPLE, strict=True)]
    pq.write_table(pa.table(columns, names=["age", "town", "ill"]), home / "rows.parquet")
    spark_session.sql(f"CREATE TABLE {NAME} USING parquet LOCATION '{home}'")
    yield f"spark://local#{NAME}"
    assert not spark_session.catalog.tableExists("gated_safe")
    spark_session.sql(f"DROP TABLE {NAME}")


@pytest.fixture(params=["postgres", "spark"])
def source(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    address: str = request.getfixturevalue(request.param)  # Spark writes where it is started
    monkeypatch.chdir(tmp_path)
    Path("people.toml").write_text(SCHEMA)
    return address


def test_what_is_required_holds_on_every_engine(
    source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["anonymize", source, "--schema", "people.toml", "--json", "--require", "link<=0.2"]
    certain = ["--require", "homogeneity<=0"]
    for target in ("safe.csv", "table:gated_safe"):
        assert run([*words, *certain, "--k", "5", "-o", target]) == 3
        assert json.loads(capsys.readouterr().out)["error"]["code"] == "requirement_failed"
        assert [one.name for one in Path().iterdir()] == ["people.toml"]
    assert run([*words, *certain, "--k", "5", "--l", "2", "-o", "safe.csv"]) == 0
    capsys.readouterr()
    kept = json.loads(Path("safe.csv.holder.json").read_text())["attacks"]
    found = {one["attack"]: one["success"] for one in kept["findings"]}
    assert found.keys() == {*CLASS_ATTACKS}
    assert found["link"] <= 0.2
    assert found["homogeneity"] == 0
    assert kept["required"] == ["link<=0.2", "homogeneity<=0"]
    assert "findings" not in Path("safe.csv.json").read_text()
