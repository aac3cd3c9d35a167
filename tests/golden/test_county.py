"""The county that DuckDB makes for measurements is the county that the demo makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench._county import county, schema_file
from pyarrow import parquet

import sfumato as sf
from sfumato.data.schema.domain import Values
from sfumato.demo import town

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 10_000


def test_duckdb_makes_the_same_people(tmp_path: Path) -> None:
    made = parquet.read_table(county(ROWS, tmp_path))
    ours = town.table(ROWS).drop_columns(["name"])
    assert made.drop_columns(["household"]).equals(ours)
    households = made["household"].to_numpy()
    assert (households[1:] >= households[:-1]).all()
    assert set(
        made.group_by("household").aggregate([("person", "count")])["person_count"].to_pylist()[:-1]
    ) == {2, 3}


def test_its_schema_fits(tmp_path: Path) -> None:
    unit = '{ column = "household", max_rows = 2 }'
    schema = schema_file(tmp_path, unit=unit)
    with sf.read(county(ROWS, tmp_path), schema=schema) as table:
        assert table.schema.unit.column == "household"
        codes = table.schema.column("zip").domain
        assert isinstance(codes, Values)
        assert set(codes.values) == set(town.ZIPS)
