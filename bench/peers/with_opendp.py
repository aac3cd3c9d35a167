"""OpenDP on Polars. Keeping three cities a person takes the first ones: in opendp 0.16 sampling
them fails for a single key ("multiple fields with name 'city'").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import opendp.prelude as dp
import polars as pl
from bench.peers.report import CITIES, NAME, SPEND, report

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 10_000_000
dp.enable_features("contrib")


def asking(person: bool) -> Any:
    """A fresh budget for one question, about rows or about people."""
    margins = [
        dp.polars.Margin(max_length=ROWS),
        dp.polars.Margin(by=["city"], max_groups=len(CITIES), max_length=ROWS),
    ]
    unit = dp.unit_of(contributions=1, identifier="person" if person else None)
    return dp.Context.compositor(
        data=pl.scan_parquet(NAME),
        privacy_unit=unit,
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
        margins=margins,
    ).query()


def by_city(query: Any, *wanted: Any) -> None:
    """Group by the known cities and release."""
    keys = pl.LazyFrame({"city": CITIES})
    query.group_by("city").agg(*wanted).with_keys(keys).release().collect()


def money() -> list[Any]:
    """Sum and mean of spend."""
    spend: Any = pl.col("spend").fill_nan(0.0).fill_null(0.0)
    return [spend.dp.sum(SPEND), spend.dp.mean(SPEND).alias("mean")]


def median() -> None:
    """Median of age by city."""
    age: Any = pl.col("age").fill_null(18)
    by_city(asking(False), age.dp.median(candidates=list(range(18, 91))))


QUESTIONS: dict[str, Callable[[], None] | str] = {
    "W1": lambda: by_city(asking(False), dp.len(signed=True)),
    "W2a": lambda: by_city(asking(True).truncate_per_group(10), *money()),
    "W2b": lambda: by_city(
        asking(True).truncate_per_group(10).truncate_num_groups(3, by=["city"], keep="first"),
        *money(),
    ),
    "W3": median,
    "W4": lambda: asking(False).select(dp.len(signed=True)).release().collect(),
}

if __name__ == "__main__":
    report(QUESTIONS)
