"""A million people against a million released rows, and a population of a million."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.schema.column import Column, Kind, Role
from sfumato.schema.domain import Values
from sfumato.schema.schema import Schema
from sfumato.steward.attack import attack
from sfumato.steward.attack_options import attack_options

ROWS = 1_000_000
ZIPS = tuple(str(53_000 + place) for place in range(500))
SCHEMA = Schema(
    "big",
    (
        Column("name", Kind.INTEGER, Role.IDENTIFIER),
        Column("birth", Kind.DATE, Role.QUASI),
        Column("sex", Kind.TEXT, Role.QUASI, Values(("F", "M"))),
        Column("zip", Kind.TEXT, Role.QUASI, Values(ZIPS)),
    ),
)
ADULT = Path(__file__).parents[3] / "../shared/data/adult_large/adult_1200k.parquet"


@pytest.mark.slow
def test_a_million_people_are_linked_with_a_million_rows_in_a_minute() -> None:
    draws = np.random.default_rng(0)
    people = pa.table(
        {
            "name": np.arange(ROWS),
            "birth": pa.array(draws.integers(0, 36_000, ROWS).astype(np.int32)).cast(pa.date32()),
            "sex": pa.array(["F", "M"]).take(pa.array(draws.integers(0, 2, ROWS))),
            "zip": pa.array(ZIPS).take(pa.array(draws.integers(0, 500, ROWS))),
        }
    )
    started = time.process_time()
    told = attack("link", people.drop_columns(["name"]), SCHEMA, known=people, original=people)
    assert time.process_time() - started < 60
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 4 << 20  # in KiB
    assert told.json()["success"] > 0.98


@pytest.mark.slow
@pytest.mark.skipif(not ADULT.exists(), reason="the shared Adult data is not beside the repository")
@pytest.mark.parametrize(("one_in", "within"), [(20, 0.1), (5, 0.1), (2, 0.1)])
def test_who_is_alone_in_a_known_population_is_estimated(one_in: int, within: float) -> None:
    """10.75 % of the 1.2 million are alone by eight columns."""
    duckdb = pytest.importorskip("duckdb")
    names = ("sex", "age", "race", "marital-status", "education", "native-country", "workclass")
    listed = ", ".join(f'"{name}"' for name in (*names, "occupation"))
    columns = tuple(
        Column(name, Kind.INTEGER if name == "age" else Kind.TEXT, Role.QUASI)
        for name in (*names, "occupation")
    )
    with duckdb.connect() as base:
        rows = base.sql(
            f"SELECT {listed} FROM (SELECT *, row_number() OVER () AS place FROM '{ADULT}') "
            f"WHERE hash(place) % {one_in} = 0"
        ).to_arrow_table()
    told: Any = attack(
        "uniqueness",
        rows,
        Schema("adult", columns),
        options=attack_options(population_size=1_200_000),
    )
    assert told.success.value == pytest.approx(0.1075, rel=within)
