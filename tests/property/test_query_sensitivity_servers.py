"""The brute force of `test_query_sensitivity` on servers, which count as DuckDB does."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.property.test_query_sensitivity import (
    _MARK,
    MOVES,
    PARTS,
    InMemory,
    brute_force,
    in_world,
)

from sfumato.data.engines.base import named, render

if TYPE_CHECKING:
    from sqlglot import exp
    from tests.property.test_query_sensitivity import Tables


def in_one_query(words: str, worlds: int) -> str:
    """The words of a query in all worlds at once, told apart by a first column."""
    of_world = [words.replace(str(_MARK), str(2**world)) for world in range(worlds)]
    return " UNION ALL ".join(
        f"SELECT {world} AS sf_world, sf_q.* FROM ({one}) AS sf_q"
        for world, one in enumerate(of_world)
    )


def apart(found: pa.Table, worlds: int) -> list[pa.Table]:
    column = found["sf_world"].cast(pa.int64())
    rest = found.drop_columns(["sf_world"])
    return [rest.filter(pc.equal(column, world)) for world in range(worlds)]


def compare_postgres(url: str, wanted: int) -> float:
    from sfumato.data.engines.postgres import Postgres, rendered

    engine = Postgres(url, named("none"))

    def run(tables: Tables, queries: list[exp.Query], worlds: int) -> list[list[pa.Table]]:
        for name, held in tables.items():
            engine._execute(f"DROP TABLE IF EXISTS {name}")
            engine._ingest(name, held)
        words = [in_one_query(in_world(query, rendered), worlds) for query in queries]
        return [apart(engine._fetch(one), worlds) for one in words]

    try:
        duckdb_too = InMemory(optimizes=False)
        return brute_force(run, Postgres.traits.hashed, wanted, PARTS, worlds=5, other=duckdb_too)
    finally:
        engine.close()


def test_some_on_postgres(postgres_url: str) -> None:
    assert compare_postgres(postgres_url, 40) > MOVES


@pytest.mark.slow
def test_on_postgres(postgres_url: str, runs: int) -> None:
    assert compare_postgres(postgres_url, runs // 10) > MOVES


def compare_spark(session: Any, wanted: int, seed: int, worlds: int) -> float:
    from sfumato.data.engines.spark.engine import Spark

    write = partial(render, dialect="spark")

    def run(tables: Tables, queries: list[exp.Query], worlds: int) -> list[list[pa.Table]]:
        for name, held in tables.items():
            session.createDataFrame(held).createOrReplaceTempView(name)
        words = [in_one_query(in_world(query, write), worlds) for query in queries]
        return [apart(session.sql(one).toArrow(), worlds) for one in words]

    # Over few rows Spark takes most of its time to compile programs.
    settings = {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
    }
    for name, value in settings.items():
        session.conf.set(name, value)
    try:
        duckdb_too = InMemory(optimizes=False)
        native = Spark.traits.hashed
        return brute_force(run, native, wanted, seed, worlds=worlds, other=duckdb_too)
    finally:
        for name in settings:
            session.conf.unset(name)


def test_some_on_spark(spark_session: Any) -> None:
    # Two joins, one of them capped, in which people move much and whose queries are short.
    assert compare_spark(spark_session, 4, seed=13, worlds=3) > MOVES


@pytest.mark.slow
def test_on_spark(spark_session: Any, runs: int) -> None:
    assert compare_spark(spark_session, runs // 80, seed=PARTS + 1, worlds=6) > MOVES
