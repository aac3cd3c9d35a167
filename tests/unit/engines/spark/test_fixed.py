"""Data frames on Spark that give other rows at each look are refused, others are not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import SourceError
from sfumato.schema.column import Column, Kind
from sfumato.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = pa.table({"who": [1, 2, 3, 4], "age": [30, 40, 50, 50]})
SCHEMA = Schema("t", (Column("age", Kind.INTEGER),))

LOOSE: dict[str, Callable[[Any], Any]] = {
    "sample": lambda frame: frame.sample(0.9, seed=1),
    "split": lambda frame: frame.randomSplit([0.5, 0.5], seed=1)[0],
    "limit": lambda frame: frame.repartition(3).limit(2),
    "limit by one": lambda frame: frame.orderBy("age").limit(2),
    "offset": lambda frame: frame.offset(1),
    "below": lambda frame: frame.limit(3).groupBy("age").count(),
    "dropDuplicates": lambda frame: frame.dropDuplicates(["age"]),
    "first": lambda frame: frame.selectExpr("first(age) AS age"),
    "any_value": lambda frame: frame.selectExpr("any_value(age) AS age"),
    "row_number": lambda frame: frame.selectExpr(
        "age", "row_number() OVER (PARTITION BY age ORDER BY 1) AS place"
    ),
    "subquery": lambda frame: frame.where("age = (SELECT first(c) FROM VALUES (30) AS v(c))"),
}
FIXED: dict[str, Callable[[Any], Any]] = {
    "plain": lambda frame: frame.repartition(3),
    "sorted": lambda frame: frame.orderBy("age", "who").limit(2),
    "page": lambda frame: frame.orderBy("age", "who").offset(1).limit(2),
    "distinct": lambda frame: frame.distinct().dropDuplicates(),
    "grouped": lambda frame: frame.groupBy("age").count(),
    "window": lambda frame: frame.selectExpr("age", "sum(age) OVER (PARTITION BY who) AS s"),
}


@pytest.mark.parametrize("name", LOOSE)
def test_a_frame_on_spark_whose_rows_differ_at_each_look(name: str, spark_session: Any) -> None:
    with pytest.raises(SourceError) as refused:
        sf.read(LOOSE[name](spark_session.createDataFrame(ROWS)), SCHEMA)
    assert refused.value.code == "frame_not_fixed"
    assert "Parquet" in refused.value.message


@pytest.mark.parametrize("name", FIXED)
def test_a_frame_on_spark_whose_rows_stay(name: str, spark_session: Any) -> None:
    sf.read(FIXED[name](spark_session.createDataFrame(ROWS)), SCHEMA).close()
