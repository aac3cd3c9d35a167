"""Tumult Analytics on Spark, with sessions and sources opened before the clock starts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.peers.report import CITIES, NAME, SPEND, report
from pyspark.sql import SparkSession
from tmlt.analytics import (  # type: ignore[import-not-found]  # in its own environment
    AddOneRow,
    AddRowsWithID,
    KeySet,
    MaxGroupsPerID,
    MaxRowsPerGroupPerID,
    MaxRowsPerID,
    PureDPBudget,
    QueryBuilder,
    Session,
)

if TYPE_CHECKING:
    from collections.abc import Callable

ONE = PureDPBudget(1)


def opened(change: Any) -> Any:
    """A session about rows or about people."""
    settings = {
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.warehouse.dir": str(Path(NAME).parent / "warehouse"),
    }
    session = SparkSession.builder.master("local[*]").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    frame = session.read.parquet(NAME)
    return Session.from_dataframe(PureDPBudget(1_000), "visits", frame, protected_change=change)


def answered(session: Any, query: Any) -> None:
    """Ask and fetch."""
    session.evaluate(query, ONE).collect()


def questions() -> dict[str, Callable[[], None] | str]:
    """The questions, each ready to be asked."""
    rows, people = opened(AddOneRow()), opened(AddRowsWithID("person"))
    keys = KeySet.from_dict({"city": CITIES})

    def visits() -> Any:
        return QueryBuilder("visits")  # every limit changes the builder itself

    def money(bounded: Any) -> None:
        grouped = bounded.groupby(keys)
        answered(people, grouped.sum("spend", *SPEND))
        answered(people, grouped.average("spend", *SPEND))

    def three() -> Any:
        return visits().enforce(MaxGroupsPerID("city", 3)).enforce(MaxRowsPerGroupPerID("city", 10))

    return {
        "W1": lambda: answered(rows, visits().groupby(keys).count()),
        "W2a": lambda: money(visits().enforce(MaxRowsPerID(10))),
        "W2b": lambda: money(three()),
        "W3": lambda: answered(rows, visits().groupby(keys).median("age", 18, 90)),
        "W4": lambda: answered(rows, visits().count()),
    }


if __name__ == "__main__":
    report(questions())
