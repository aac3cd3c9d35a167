"""PipelineDP on its local backend, rows loaded as Python values before the clock starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pipeline_dp  # type: ignore[import-not-found]  # in its own environment
from bench.peers.report import CITIES, NAME, SPEND, report
from pipeline_dp import Metrics
from pyarrow import parquet

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

AGES = (18, 90)


def asked(
    rows: Sequence[Any], key: int | None, value: int | None, of: tuple[float, float], **bounds: Any
) -> None:
    """Aggregate rows of (number, person, city, age, spend) and fetch."""
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1, total_delta=0)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    by_person = key is not None and value == 4
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[1] if by_person else row[0],
        partition_extractor=lambda row: 0 if key is None else row[key],
        value_extractor=lambda row: 0 if value is None else row[value],
    )
    parameters = pipeline_dp.AggregateParams(
        noise_kind=pipeline_dp.NoiseKind.LAPLACE, min_value=of[0], max_value=of[1], **bounds
    )
    keys = [0] if key is None else CITIES
    result = engine.aggregate(rows, parameters, extractors, public_partitions=keys)
    accountant.compute_budgets()
    list(result)


def questions() -> dict[str, Callable[[], None] | str]:
    """The questions, each ready to be asked."""
    table = parquet.read_table(NAME)
    columns = [table[name].to_pylist() for name in table.column_names]
    rows = list(zip(range(len(table)), *columns, strict=True))
    single = {"max_partitions_contributed": 1, "max_contributions_per_partition": 1}
    three = {"max_partitions_contributed": 3, "max_contributions_per_partition": 10}
    money = [Metrics.SUM, Metrics.MEAN]
    return {
        "W1": lambda: asked(rows, 2, None, (0, 0), metrics=[Metrics.COUNT], **single),
        "W2a": lambda: asked(rows, 2, 4, SPEND, metrics=money, max_contributions=10),
        "W2b": lambda: asked(rows, 2, 4, SPEND, metrics=money, **three),
        "W3": lambda: asked(rows, 2, 3, AGES, metrics=[Metrics.PERCENTILE(50)], **single),
        "W4": lambda: asked(rows, None, None, (0, 0), metrics=[Metrics.COUNT], **single),
    }


if __name__ == "__main__":
    report(questions())
