"""A table in memory is read whoever made it, and all of them alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.data.engines.base import everything
from sfumato.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = [{"age": 30 + place % 40, "city": "ab"[place % 2]} for place in range(60)]
COLUMNS = {name: [row[name] for row in ROWS] for name in ("age", "city")}
MADE: dict[str, Callable[[], Any]] = {
    "records": lambda: ROWS,
    "columns": lambda: COLUMNS,
    "pandas": lambda: pd.DataFrame(ROWS),
    "categories": lambda: pd.DataFrame(ROWS).astype("category"),
    "polars": lambda: pl.DataFrame(ROWS),
    "lazy": lambda: pl.LazyFrame(ROWS),
    "arrow": lambda: pa.table(COLUMNS),
    "coded": lambda: pa.table(
        {name: pa.array(COLUMNS[name]).dictionary_encode() for name in COLUMNS}
    ),
    "batch": lambda: pa.RecordBatch.from_pydict(COLUMNS),
    "duckdb": lambda: duckdb.from_arrow(pa.table(COLUMNS)),
}


@pytest.mark.parametrize("made", MADE)
def test_every_form_is_the_same_table(made: str) -> None:
    with sf.read(MADE[made]()) as table:
        assert [column.name for column in table.schema.columns] == ["age", "city"]
        rows = table.engine.run(everything(table.engine.table)).to_pylist()
    assert sorted(rows, key=str) == sorted(ROWS, key=str)


def test_what_a_record_lacks_is_missing_and_what_a_later_one_adds_is_kept() -> None:
    records: list[dict[str, Any]] = [{"a": 1}, {"b": "x"}]
    with sf.read(records) as table:
        rows = table.engine.run(everything(table.engine.table)).to_pylist()
    assert rows == [{"a": 1, "b": None}, {"a": None, "b": "x"}]


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ([{"a": 1}, {"a": "x"}], "source_unsupported"),
        ([{"a": 1}, 5], "source_unsupported"),
        ({"a": [1], "b": [1, 2]}, "source_unsupported"),
        ([1, 2], "source_unsupported"),
        (5, "source_unsupported"),
        (None, "source_unsupported"),
        ([], "source_missing"),
    ],
)
def test_what_is_no_table_is_refused_in_words(source: Any, code: str) -> None:
    with pytest.raises(SourceError) as refusal:
        sf.read(source)
    assert refusal.value.code == code
