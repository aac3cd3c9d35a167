"""F22 on Spark: the analyzer says which tables and files a name leads to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import csv as arrow_csv
from pyarrow import parquet
from tests.fixtures.ledgers import (
    add,
    add_publicly,
    balances,
    check_alias,
    code_of,
    make,
    refusal,
    rows,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

HOME = "sources_of_spark"


@pytest.fixture
def spark(spark_session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of the running session, which engines must not stop, with tables and views."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(type(spark_session), "stop", lambda _: None)
    make()
    parquet.write_table(rows(), "visits.parquet")
    Path("others").mkdir()
    parquet.write_table(rows(3000), "others/others.parquet")
    run = spark_session.sql
    run(f"CREATE DATABASE {HOME} LOCATION '{tmp_path / 'warehouse'}'")
    run(
        f"CREATE TABLE {HOME}.visits USING parquet "
        f"AS SELECT * FROM parquet.`{tmp_path}/visits.parquet`"
    )
    run(f"CREATE TABLE {HOME}.others USING parquet LOCATION '{tmp_path / 'others'}'")
    run(f"CREATE VIEW {HOME}.seen AS SELECT * FROM {HOME}.visits")
    run(
        f"CREATE VIEW {HOME}.within AS SELECT * FROM {HOME}.others "
        f"WHERE who IN (SELECT 3000 + who FROM {HOME}.seen)"
    )
    run(f"CREATE TABLE {HOME}.copied USING parquet AS SELECT * FROM {HOME}.visits")
    yield f"spark://local#{HOME}."
    run(f"DROP DATABASE {HOME} CASCADE")
    spark_session.catalog.dropTempView("passing")


def test_a_table_of_spark_by_any_name(spark: str) -> None:
    add("visits", f"{spark}visits")
    aliases = [f"{spark}{table}" for table in ("VISITS", "`visits`", "seen", "copied")]
    for alias in (*aliases, spark.replace("#", "#spark_catalog.") + "visits", "visits.parquet"):
        assert code_of(add, "again", alias) == "dataset_attached", alias
    check_alias(f"{spark}within")


def test_another_table_of_spark_has_its_own_people(spark: str) -> None:
    add("visits", f"{spark}visits")
    add("others", f"{spark}others")
    assert len(balances(Path("clinic"))) == 2


def test_a_table_of_spark_by_its_files(spark: str) -> None:
    Path("link.parquet").hardlink_to("others/others.parquet")
    arrow_csv.write_csv(rows(3000), "copy.csv")
    add("visits", f"{spark}others")
    for path in ("others", "others/others.parquet", "copy.csv"):
        assert code_of(add, "again", path) == "dataset_attached", path
    assert refusal(add_publicly, "again", "others") == "dataset_attached"
    check_alias("link.parquet")


def test_a_folder_and_a_server_of_spark(spark: str, connect_address: str, tmp_path: Path) -> None:
    add("visits", f"{connect_address}#{HOME}.others")
    for alias in (f"{spark}others", f"spark+parquet://{tmp_path}/others/", "others"):
        assert code_of(add, "again", alias) == "dataset_attached", alias


def test_files_first_and_then_a_table_of_spark(spark: str) -> None:
    add("visits", "others/others.parquet")
    assert refusal(add, "again", f"{spark}others") == "dataset_attached"
    assert refusal(add_publicly, "again", f"{spark}others") == "dataset_attached"


def test_a_temporary_view_of_spark_is_refused(spark: str, spark_session: Any) -> None:
    spark_session.createDataFrame(rows()).createTempView("passing")
    assert refusal(add, "visits", "spark://local#passing") == "source_unsupported"
    assert refusal(add, "visits", f"{spark}nothing") == "table_missing"
