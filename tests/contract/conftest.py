"""Every engine, opened on a table of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sfumato.engines.sources import open_duckdb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from sfumato.engines.base import Engine


@pytest.fixture
def open_engine() -> Iterator[Callable[[pa.Table], Engine]]:
    engines: list[Engine] = []

    def open_on(table: pa.Table) -> Engine:
        engines.append(open_duckdb(table))
        return engines[-1]

    yield open_on
    for engine in engines:
        engine.close()
