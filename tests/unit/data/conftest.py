"""Opening engines that are closed again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sfumato.data.engines.base import everything
from sfumato.data.engines.sources import open_duckdb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sfumato.data.engines.duckdb import DuckDB


@pytest.fixture
def opened() -> Iterator[Callable[..., DuckDB]]:
    engines: list[DuckDB] = []

    def open_one(source: Any, **options: Any) -> DuckDB:
        engines.append(open_duckdb(source, **options))
        return engines[-1]

    yield open_one
    for engine in engines:
        engine.close()


@pytest.fixture
def read_csv(opened: Callable[..., DuckDB], tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Write bytes into a CSV, read it, and give its rows."""

    def read(data: bytes, *, name: str = "t.csv", **options: Any) -> list[dict[str, Any]]:
        path = tmp_path / name
        path.write_bytes(data)
        engine = opened(path, **options)
        rows: list[dict[str, Any]] = engine.run(everything(engine.table)).to_pylist()
        return rows

    return read
