"""Data frames on Spark that give other rows at each look are refused, others are not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.data.engines.base import everything
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.schema import Schema
from sfumato.errors import SourceError

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
    "rand": lambda frame: frame.selectExpr("age", "rand(1) AS r"),
    "numbered": lambda frame: frame.selectExpr("age", "monotonically_increasing_id() AS r"),
    "now": lambda frame: frame.selectExpr("age", "CAST(now() AS DATE) AS seen"),
    "today": lambda frame: frame.where("current_date() > DATE '2020-01-01'"),
    "clock": lambda frame: frame.selectExpr("age", "unix_timestamp() AS seen"),
    "local": lambda frame: frame.selectExpr("age", "hour(localtimestamp()) AS seen"),
    "rows": lambda frame: frame.selectExpr(
        "age", "sum(who) OVER (ORDER BY age ROWS UNBOUNDED PRECEDING) AS s"
    ),
    "subquery": lambda frame: frame.where("age = (SELECT first(c) FROM VALUES (30) AS v(c))"),
}
FIXED: dict[str, Callable[[Any], Any]] = {
    "plain": lambda frame: frame.repartition(3),
    "sorted": lambda frame: frame.orderBy("age", "who").limit(2),
    "page": lambda frame: frame.orderBy("age", "who").offset(1).limit(2),
    "distinct": lambda frame: frame.distinct().dropDuplicates(),
    "grouped": lambda frame: frame.groupBy("age").count(),
    "ranked": lambda frame: frame.selectExpr("age", "rank() OVER (ORDER BY age) AS r"),
    "running": lambda frame: frame.selectExpr("age", "sum(who) OVER (ORDER BY age) AS s"),
    "all rows": lambda frame: frame.selectExpr(
        "age",
        "sum(who) OVER (ORDER BY age ROWS BETWEEN "
        "UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS s",
    ),
    "window": lambda frame: frame.selectExpr("age", "sum(age) OVER (PARTITION BY who) AS s"),
}


@pytest.mark.parametrize("name", LOOSE)
def test_a_frame_on_spark_whose_rows_differ_at_each_look(name: str, spark_session: Any) -> None:
    with pytest.raises(SourceError) as refused:
        sf.read(LOOSE[name](spark_session.createDataFrame(ROWS)), SCHEMA)
    assert refused.value.code == "source_unsupported"
    assert "Parquet" in refused.value.message


@pytest.mark.parametrize("name", FIXED)
def test_a_frame_on_spark_whose_rows_stay(name: str, spark_session: Any) -> None:
    frame = FIXED[name](spark_session.createDataFrame(ROWS))
    with sf.read(frame, SCHEMA) as table:
        assert table.engine.run(everything(table.engine.table)).num_rows == frame.count()
