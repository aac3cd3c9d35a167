"""A small table with every role, and its schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from sfumato.data.schema.schema_file import load
from sfumato.release.open_table import read

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sfumato.data.schema.schema import Schema
    from sfumato.release.open_table import Table

SCHEMA = """\
table = "people"
unit = "row"
[columns.name]
role = "identifier"
kind = "text"
[columns.age]
role = "quasi"
kind = "integer"
bounds = [0, 99]
hierarchy = { widths = [10, 50] }
[columns.zip]
role = "quasi"
kind = "text"
hierarchy = { mask = "right" }
[columns.disease]
role = "sensitive"
kind = "text"
hierarchy = { tree = { lung = ["flu", "cold"], other = ["gout", "none"] } }
[columns.visits]
role = "other"
kind = "integer"
[columns.salary]
role = "sensitive"
kind = "integer"
bounds = [0, 20000]
step = 1000
"""

ROWS = 24
PEOPLE = pa.table(
    {
        "name": [f"person {number}" for number in range(ROWS)],
        "age": [20 + number % 12 for number in range(ROWS - 1)] + [91],
        "zip": [f"5370{number % 3}" for number in range(ROWS - 1)] + ["99999"],
        "disease": [("flu", "cold", "gout", "none")[number % 4] for number in range(ROWS)],
        "visits": [number % 5 for number in range(ROWS)],
        "salary": [1000 * (number % 7) for number in range(ROWS)],
    }
)


@pytest.fixture
def schema_file(tmp_path: Path) -> Path:
    path = tmp_path / "people.toml"
    path.write_text(SCHEMA)
    return path


@pytest.fixture
def schema(schema_file: Path) -> Schema:
    return load(schema_file)


@pytest.fixture
def people(schema: Schema) -> Iterator[Table]:
    table = read(PEOPLE, schema)
    yield table
    table.close()
