"""Every engine, opened on a table of ours."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from sfumato.data.engines.base import named
from sfumato.data.engines.sources import open_duckdb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from sfumato.data.engines.base import Engine


@pytest.fixture
def duckdb_engine() -> Iterator[Callable[[pa.Table], Engine]]:
    with ExitStack() as stack:

        def open_on(table: pa.Table) -> Engine:
            engine = open_duckdb(table)
            stack.callback(engine.close)
            return engine

        yield open_on


@pytest.fixture
def postgres_engine(postgres_url: str) -> Iterator[Callable[[pa.Table], Engine]]:
    from sfumato.data.engines.postgres import Postgres

    with ExitStack() as stack:

        def open_on(table: pa.Table) -> Engine:
            engine = Postgres(postgres_url, named("none"))
            stack.callback(engine.close)
            engine._table = stack.enter_context(engine.lend(table))
            return engine

        yield open_on


@pytest.fixture
def spark_engine(spark_session: Any) -> Iterator[Callable[[pa.Table], Engine]]:
    from sfumato.data.engines.spark.engine import Spark

    with ExitStack() as stack:

        def open_on(table: pa.Table) -> Engine:
            engine = Spark(spark_session, named("none"))
            engine._table = stack.enter_context(engine.lend(table))
            return engine

        yield open_on


@pytest.fixture(params=["duckdb", "postgres", "spark"])
def open_engine(request: pytest.FixtureRequest) -> Callable[[pa.Table], Engine]:
    """Open each engine in turn on a table of ours."""
    opener: Callable[[pa.Table], Engine] = request.getfixturevalue(f"{request.param}_engine")
    return opener


@pytest.fixture(params=["duckdb", "postgres"])
def open_quick_engine(request: pytest.FixtureRequest) -> Callable[[pa.Table], Engine]:
    """Open each engine that starts a query in milliseconds."""
    opener: Callable[[pa.Table], Engine] = request.getfixturevalue(f"{request.param}_engine")
    return opener
