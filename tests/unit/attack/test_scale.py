"""A million people against a million released rows, and a population of a million."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.attack.options import attack_options
from sfumato.attack.runner import attack
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Values
from sfumato.data.schema.schema import Schema

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
@pytest.mark.parametrize("labels", [False, True])
def test_a_million_rows_are_joined_with_a_million_in_a_minute(labels: bool) -> None:
    """By name and by three columns; labels of one table are ranges that those of the other cut."""
    draws = np.random.default_rng(0)
    age, place = draws.integers(0, 20_000, ROWS), draws.integers(0, 200, ROWS)
    schema = Schema(
        "big",
        (
            Column("name", Kind.INTEGER, Role.IDENTIFIER),
            Column("age", Kind.INTEGER, Role.QUASI),
            Column("place", Kind.INTEGER, Role.QUASI),
        ),
    )
    people = pa.table({"name": np.arange(ROWS), "age": age, "place": place})

    def ranges(values: Any, width: int, shift: int) -> pa.Array:
        low = (values + shift) // width * width - shift
        labels = [f"[{one}, {one + width - 1}]" for one in range(-shift, 21_000)]
        return pa.array(labels).take(pa.array(low + shift))

    tables = [people.drop_columns(["name"])] * 2
    if labels:
        tables = [
            pa.table({"age": ranges(age, 200, shift), "place": ranges(place, 10, shift)})
            for shift in (0, 7)
        ]
    started = time.process_time()
    told: Any = attack(
        "join", tables[0], schema, other=tables[1], original=people, other_original=people
    )
    assert time.process_time() - started < 60
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 4 << 20  # in KiB
    assert told.figures["recall"] > 0.99
    assert told.success.value < 0.01 if labels else told.success.value > 0.7


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
