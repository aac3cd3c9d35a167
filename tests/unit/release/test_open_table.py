"""Reading a table: with a schema as declared, without one as measured and guessed."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import SchemaError, SourceError

if TYPE_CHECKING:
    from pathlib import Path

ROWS = {
    "name": ["Ann", "Bob", "Cid", "Dot"],
    "zip": ["02138", "53715", "53703", "02138"],
    "born": [date(1976, 1, 21), date(1986, 4, 13), date(1976, 2, 28), None],
    "salary": [50_000, 65_000, None, 70_000],
}
CSV = """name;zip;born;salary
Ann;02138;1976-01-21;50000
Bob;53715;1986-04-13;65000
Cid;53703;1976-02-28;
Dot;02138;;70000
"""


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text(CSV)
    return path


def test_a_csv_is_measured_and_its_kinds_are_found(csv: Path) -> None:
    people = sf.read(csv)
    kinds = {column.name: column.kind.value for column in people.schema.columns}
    assert kinds == {"name": "text", "zip": "text", "born": "date", "salary": "integer"}
    roles = {column.name: column.role.value for column in people.schema.columns}
    assert roles == {"name": "identifier", "zip": "quasi", "born": "quasi", "salary": "sensitive"}
    assert people.schema.table == "people"
    assert all(people.reasons)
    people.close()


@pytest.mark.parametrize(
    "convert", [pa.table, pd.DataFrame, pl.DataFrame], ids=["arrow", "pandas", "polars"]
)
def test_tables_in_memory_are_read_too(convert: Any) -> None:
    people = sf.read(convert(ROWS))
    assert people.inspect().rows == 4
    assert people.schema.column("zip").role is sf.Role.QUASI
    people.close()


def test_a_schema_decides_what_columns_are(csv: Path, tmp_path: Path) -> None:
    (tmp_path / "people.toml").write_text(
        'table = "people"\n[columns.salary]\nkind = "integer"\nrole = "quasi"\n'
    )
    people = sf.read(csv, schema=tmp_path / "people.toml")
    found = people.inspect()
    assert [guess.reason for guess in found.guesses] == ["declared in the schema"]
    assert found.full.columns == ("salary",)
    people.close()


@pytest.mark.parametrize(
    ("column", "kind", "code"),
    [("salry", "integer", "column_unknown"), ("name", "integer", "cell_malformed")],
)
def test_a_schema_that_does_not_fit_is_refused(
    csv: Path, column: str, kind: str, code: str
) -> None:
    schema = sf.Schema("people", (sf.Column(column, sf.Kind(kind)),))
    with pytest.raises((SchemaError, SourceError)) as refusal:
        sf.read(csv, schema=schema)
    assert refusal.value.code == code
    assert "Ann" not in refusal.value.message


def test_a_guessed_schema_can_be_written_and_read_again(csv: Path, tmp_path: Path) -> None:
    from sfumato.release.open_table import save_schema

    people = sf.read(csv)
    save_schema(people, tmp_path / "guessed.toml")
    people.close()
    again = sf.read(csv, schema=tmp_path / "guessed.toml")
    assert [column.role for column in again.schema.columns] == [
        column.role for column in people.schema.columns
    ]
    again.close()
