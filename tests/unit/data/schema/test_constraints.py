"""Constraints in schema files: read, written back, and refused with their line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sfumato.data.schema.constraints import (
    DeclaredRows,
    FunctionalDependency,
    ImpossibleCombination,
    OrderedColumns,
    UniqueKey,
    describe,
)
from sfumato.data.schema.schema_file import dump, load
from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = """\
table = "stays"
[columns.sex]
kind = "text"
values = ["F", "M"]
[columns.zip]
kind = "text"
[columns.city]
kind = "text"
[columns.admitted]
kind = "date"
[columns.discharged]
kind = "date"
[columns.weight]
kind = "real"
[columns.beds]
kind = "integer"
"""
CONSTRAINTS = """
[[constraints]]
never = { sex = "M", beds = [1, 2] }
[[constraints]]
determines = { from = "zip", to = ["city", "sex"] }
[[constraints]]
ordered = ["admitted", "discharged"]
[[constraints]]
unique = "zip"
[[constraints]]
rows = 1000
"""


def test_read_and_written(tmp_path: Path) -> None:
    path = tmp_path / "stays.toml"
    path.write_text(COLUMNS + CONSTRAINTS)
    schema = load(path)
    assert schema.constraints == (
        ImpossibleCombination((("sex", ("M",)), ("beds", (1, 2)))),
        FunctionalDependency(("zip",), ("city", "sex")),
        OrderedColumns(("admitted", "discharged")),
        UniqueKey(("zip",)),
        DeclaredRows(1000),
    )
    assert [describe(one) for one in schema.constraints] == [
        "never sex = M with beds = 1 or 2",
        "zip determines city and sex",
        "admitted <= discharged",
        "zip unique",
        "1,000 rows",
    ]
    path.write_text(dump(schema, folder=tmp_path))
    assert load(path) == schema


@pytest.mark.parametrize(
    ("wrong", "code", "says"),
    [
        ('ordered = ["admitted", "discharge"]', "schema_malformed", "did you mean 'discharged'?"),
        ('ordered = ["admitted", "weight"]', "schema_malformed", "all dates or all numbers"),
        ('ordered = ["zip", "city"]', "schema_malformed", "all dates or all numbers"),
        ('ordered = ["beds"]', "schema_malformed", "two or more"),
        ("never = { sex = 1 }", "kind_mismatch", "no value of a column of kind text"),
        ("never = {}", "schema_malformed", "never = { x = 1 }"),
        ("never = { sex = [] }", "schema_malformed", "a column and a value"),
        ('never = { sez = "M" }', "schema_malformed", "did you mean 'sex'?"),
        ('determines = { from = "zip" }', "schema_malformed", "'to'"),
        ('determines = { from = "zip", to = "zip" }', "schema_malformed", "different columns"),
        ('determines = { of = "zip" }', "schema_malformed", "'of'"),
        ("unique = []", "schema_malformed", "different columns"),
        ("unique = 3", "schema_malformed", "a text in quotes"),
        ("rows = -1", "schema_malformed", "a whole number of rows"),
        ('rows = "many"', "schema_malformed", "a whole number"),
        ('unique = "zip"\nrows = 3', "schema_malformed", "exactly one of never"),
        ("row = 3", "schema_malformed", "did you mean 'rows'?"),
    ],
)
def test_refused_with_its_line(tmp_path: Path, wrong: str, code: str, says: str) -> None:
    path = tmp_path / "stays.toml"
    path.write_text(f"{COLUMNS}[[constraints]]\nrows = 5\n[[constraints]]\n{wrong}\n")
    with pytest.raises(SchemaError) as refused:
        load(path)
    lines = COLUMNS.count("\n") + 4
    assert refused.value.code == code
    at = lines - ("exactly" in says)
    assert refused.value.message.startswith(f"{path}, line {at}: ")
    assert says in refused.value.message
