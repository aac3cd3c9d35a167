"""Uniqueness of every set of columns equals counting it directly."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.data.counting.frequencies import Frequencies, count
from sfumato.data.engines.duckdb import DuckDB
from sfumato.data.engines.sources import open_duckdb
from sfumato.data.inspection import risk as module
from sfumato.data.inspection.risk import reidentification, uniqueness
from sfumato.data.inspection.table import MOST_SETS, Inspection, largest_within

if TYPE_CHECKING:
    from sqlglot import exp

DRAW = np.random.default_rng(11)
TABLE = pa.table(
    {
        "a": [None, *DRAW.integers(0, 4, 399).tolist()],
        "b": DRAW.integers(0, 30, 400).tolist(),
        "c": ["x", *map(str, DRAW.integers(0, 3, 399))],
        "d": DRAW.integers(0, 200, 400).tolist(),
        "e": DRAW.integers(0, 2, 400).tolist(),
    }
)


def frequencies(table: pa.Table) -> Frequencies:
    engine = open_duckdb(table)
    found = count(engine, engine.table, table.column_names)
    engine.close()
    return found


def by_hand(columns: tuple[str, ...]) -> tuple[int, int, int]:
    """Groups, unique rows, rows in groups below 5."""
    groups = TABLE.group_by(list(columns)).aggregate([([], "count_all")])["count_all"].to_numpy()
    return len(groups), int((groups == 1).sum()), int(groups[groups < 5].sum())


@pytest.mark.parametrize("kept_groups", [1 << 23, 40, 0], ids=["all kept", "some", "none"])
def test_every_set_up_to_four_and_the_full_one_is_measured(
    kept_groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_KEPT_GROUPS", kept_groups)
    steps: list[tuple[float, float]] = []
    found = uniqueness(frequencies(TABLE), progress=lambda *step: steps.append(step))
    expected = [
        columns for size in range(1, 6) for columns in combinations(TABLE.column_names, size)
    ]
    assert {one.columns for one in found} == set(expected)
    for one in found:
        assert (one.groups, one.unique_rows, one.small_rows) == by_hand(one.columns)
        assert one.rows == 400
    shares = [one.unique_share for one in found]
    assert shares == sorted(shares, reverse=True)
    assert steps[-1] == (30, 30)


def test_an_empty_table_has_no_one_to_find() -> None:
    empty = frequencies(TABLE.slice(0, 0))
    assert all(one.unique_share == 0.0 for one in uniqueness(empty))
    assert reidentification(empty).prosecutor.average == 0.0


def test_prosecutor_risk_is_one_over_the_class_size() -> None:
    table = pa.table({"zip": ["a", "a", "a", "b", None]})
    risk = reidentification(frequencies(table))
    assert risk.prosecutor.highest == 1.0
    assert risk.prosecutor.average == pytest.approx(3 / 5)
    assert risk.prosecutor.at_risk == 1.0
    assert risk.journalist == risk.marketer == risk.prosecutor


def test_journalist_risk_counts_the_population_missing_values_included() -> None:
    table = pa.table({"zip": ["a", "a", "b", None, "q"], "sex": ["F", "F", "M", "M", "M"]})
    population = pa.table(
        {
            "sex": ["F"] * 10 + ["M"] * 4 + ["M"] * 5,
            "zip": ["a"] * 10 + ["b"] * 4 + [None] * 5,
        }
    )
    risk = reidentification(frequencies(table), frequencies(population))
    assert risk.journalist.highest == 1.0  # ("q", "M") is not in the population: as in the table
    assert risk.journalist.average == pytest.approx((2 / 10 + 1 / 4 + 1 / 5 + 1) / 5)
    assert risk.journalist.at_risk == pytest.approx(2 / 5)
    assert risk.prosecutor.average == pytest.approx(4 / 5)


def test_people_are_as_safe_as_their_rarest_row_in_the_population() -> None:
    visits = pa.table({"zip": ["a", "b", "a", "b"], "who": ["ann", "ann", "bob", "cy"]})
    population = pa.table({"zip": ["a"] * 8 + ["b"] * 4})
    risk = reidentification(frequencies(visits), frequencies(population), person="who")
    assert risk.prosecutor.highest == 1 / 2
    assert risk.journalist.highest == 1 / 4
    assert risk.marketer.average == pytest.approx((1 / 4 + 1 / 8 + 1 / 4) / 3)


def test_with_many_columns_smaller_sets_are_examined() -> None:
    assert largest_within(8) == 4
    assert largest_within(25) == 4
    assert largest_within(40) == 3
    assert largest_within(1000) == 1
    assert MOST_SETS == 20_000


def inspected(width: int) -> Inspection:
    wide = sf.read(pa.table({f"c{place}": [1, 2, 2] for place in range(width)}))
    columns = tuple(replace(one, role=sf.Role.QUASI) for one in wide.schema.columns)
    return replace(wide, schema=replace(wide.schema, columns=columns)).inspect()


def test_what_was_not_examined_is_said() -> None:
    found = inspected(250)
    assert len(found.sets) == 251
    assert found.left_out is not None
    assert "2 to 4 columns were left out" in found.left_out
    assert inspected(5).left_out is None


def test_many_columns_are_measured_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine plans thousands of aggregates of one query in minutes."""
    asked: list[int] = []
    run = DuckDB.run

    def counting(engine: DuckDB, query: exp.Query) -> pa.Table:
        asked.append(len(query.selects))
        return run(engine, query)

    monkeypatch.setattr(DuckDB, "run", counting)
    names = [f"c{place}" for place in range(300)]
    assert len(sf.read(pa.table({name: ["a", "b"] for name in names})).schema.columns) == 300
    assert max(asked) <= 120
