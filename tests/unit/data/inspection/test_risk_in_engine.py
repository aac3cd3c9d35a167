"""What is measured part by part, or in the engine, is what is measured of all that is held."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from sfumato.data.counting.frequencies import count
from sfumato.data.counting.memory_limit import SETTING
from sfumato.data.engines.sources import open_duckdb
from sfumato.data.inspection import risk as module
from sfumato.data.inspection.risk import UnheldTable, reidentification, uniqueness

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.data.engines.duckdb import DuckDB

DRAW, ROWS = np.random.default_rng(12), 2_000
BORN = [dt.date(1950, 1, 1) + dt.timedelta(days=int(day)) for day in DRAW.integers(0, 500, ROWS)]
TABLE = pa.table(
    {
        "sex": pa.array(DRAW.integers(0, 2, ROWS)),
        "house": pa.array([None, *DRAW.integers(0, 900, ROWS - 1).tolist()]),
        "born": pa.array([*BORN[:-1], None]),
        "real": pa.array([0.0, -0.0] * (ROWS // 2)),
        "zip": pa.array([*map(str, DRAW.integers(0, 9, ROWS - 3)), "", None, "?"]),
    }
)


@pytest.fixture
def engine() -> Iterator[DuckDB]:
    opened = open_duckdb(TABLE)
    yield opened
    opened.close()


@pytest.mark.parametrize("largest", [2, 4, 5])
@pytest.mark.parametrize("cells", [100_000, 4_000, 1_000, 20], ids=["one", "few", "many", "none"])
def test_parts_add_up_to_what_the_whole_table_says(
    cells: int, largest: int, engine: DuckDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = count(engine, engine.table, TABLE.column_names)
    monkeypatch.setenv(SETTING, str(cells))
    steps: list[tuple[float, float]] = []
    table = UnheldTable(engine, engine.table, tuple(TABLE.column_names), None, ROWS, largest)
    found = table.uniqueness(lambda *step: steps.append(step))
    assert len(found) == len({one.columns for one in found})
    assert {*found} == {*uniqueness(whole, largest=largest)}
    assert table.reidentification() == reidentification(whole)
    assert steps == sorted(steps)
    assert steps[-1] == (len(found), len(found))


def test_few_passes_measure_every_set(engine: DuckDB, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass for a sample, and one for each part, of ever fewer columns."""
    monkeypatch.setenv(SETTING, "7_000")
    passes = []

    def counted(*given: object, **more: object) -> object:
        passes.append(given)
        return count(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "count", counted)
    monkeypatch.setattr(UnheldTable, "_measure_set", None)
    table = UnheldTable(engine, engine.table, tuple(TABLE.column_names), None, ROWS, 4)
    assert len(table.uniqueness(None)) == 31
    assert len(passes) <= 8


def test_a_value_with_too_many_combinations_by_itself_is_left_to_the_engine(
    engine: DuckDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = ("sex", "real", "house")
    whole = count(engine, engine.table, columns)
    monkeypatch.setenv(SETTING, "1_500")
    monkeypatch.setattr(module, "_MOST_HALVINGS", 0)
    monkeypatch.setattr(module, "_FILLED", 4)  # parts are meant to be larger than can be held
    table = UnheldTable(engine, engine.table, columns, None, ROWS, 2)
    assert {*table.uniqueness(None)} == {*uniqueness(whole, largest=2)}
    assert table.reidentification() == reidentification(whole)
