"""All engines keep the contract, each really running."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from sfumato.data.engines.base import named
from sfumato.data.engines.postgres import Postgres
from sfumato.data.engines.sources import open_duckdb
from sfumato.data.engines.spark.engine import Spark
from sfumato.data.engines.spark.sources import open_spark
from sfumato.testing.engines import EngineContract
from sfumato.testing.writes import WritingContract

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.data.engines.base import Engine


class TestDuckDB(EngineContract, WritingContract):
    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls) -> Iterator[Engine]:
        engine = open_duckdb(pa.table({"a": [1]}))
        yield engine
        engine.close()


class TestPostgres(EngineContract, WritingContract):
    schema = "a place"

    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls, postgres_url: str) -> Iterator[Engine]:
        engine = Postgres(postgres_url, named("none"))
        engine._execute(f'CREATE SCHEMA "{cls.schema}"')
        yield engine
        engine._execute(f'DROP SCHEMA "{cls.schema}" CASCADE')
        engine.close()


class TestSpark(EngineContract, WritingContract):
    schema = "writing_contract"

    @pytest.fixture(scope="class")
    @classmethod
    def engine(
        cls, spark_session: Any, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[Engine]:
        home = tmp_path_factory.mktemp("warehouse")
        spark_session.sql(f"CREATE DATABASE {cls.schema} LOCATION '{home / 'tables'}'")
        yield Spark(spark_session, named("none"))
        spark_session.sql(f"DROP DATABASE {cls.schema} CASCADE")


class TestSparkConnect(EngineContract):
    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls, connect_address: str) -> Iterator[Engine]:
        engine = open_spark(f"{connect_address}#none")
        yield engine
        engine.close()
