"""SmartNoise SQL over pandas, loaded before the clock starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import snsql  # type: ignore[import-not-found]  # in its own environment
from bench.peers.report import NAME, SPEND, report

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 10_000_000
MONEY = "SELECT city, SUM(spend) AS total, AVG(spend) AS mean FROM visits GROUP BY city"


def opened(frame: pd.DataFrame, **bounds: object) -> Any:
    """A reader about rows, or about people with so many rows each."""
    by_person = "max_ids" in bounds
    person = {"type": "int", "private_id": by_person}
    columns = {
        "person": person,
        "city": {"type": "string"},
        "age": {"type": "int", "lower": 18, "upper": 90},
        "spend": {"type": "float", "lower": SPEND[0], "upper": SPEND[1]},
    }
    table = {"rows": ROWS, "row_privacy": not by_person, **bounds, **columns}
    metadata = {"": {"": {"visits": table}}}
    return snsql.from_df(frame, privacy=snsql.Privacy(epsilon=1.0, delta=1e-9), metadata=metadata)


def questions() -> dict[str, Callable[[], None] | str]:
    """The questions, each ready to be asked."""
    frame = pd.read_parquet(NAME)
    rows, people = opened(frame), opened(frame, max_ids=10, sample_max_ids=True)
    return {
        "W1": lambda: rows.execute("SELECT city, COUNT(*) AS n FROM visits GROUP BY city"),
        "W2a": lambda: people.execute(MONEY),
        "W2b": "has no limit of groups a person",
        "W3": "has no median",
        "W4": lambda: rows.execute("SELECT COUNT(*) AS n FROM visits"),
    }


if __name__ == "__main__":
    report(questions())
