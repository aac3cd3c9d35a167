"""A schema in the making: what is asked, what is proposed, what an owner may say."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from tests.fixtures.ledgers import code_of

from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.schema_file import load
from sfumato.errors import SchemaError
from sfumato.operations.schema_draft import SchemaDraft, draft, lacks_bounds, repeated_number
from sfumato.release.open_table import read

pytestmark = pytest.mark.usefixtures("visits")
SCHEMA = """\
table = "visits"
[columns.client_id]
role = "identifier"
kind = "integer"
nullable = false
[columns.ward]
kind = "text"
[columns.grade]
kind = "integer"
[columns.weight]
kind = "real"
[columns.came]
kind = "date"
bounds = [2020-01-01, 2029-12-31]
"""


@pytest.fixture
def visits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Visits of 200 clients, five each; wards with commas in their names, three grades."""
    monkeypatch.chdir(tmp_path)
    wards, lines = ['"eyes, ears"', "heart"], ["client_id,ward,grade,weight,came"]
    for row in range(1000):
        weight = f"{row % 70 + 30}.5" if row % 9 else ""
        day = f"2024-0{row % 9 + 1}-11"
        lines.append(f"{row % 200},{wards[row % 2]},{row % 3},{weight},{day}")
    Path("visits.csv").write_text("\n".join(lines) + "\n")
    Path("visits.toml").write_text(SCHEMA)


def begun(schema: str | None = "visits.toml") -> SchemaDraft:
    return draft("visits.csv", None if schema is None else Path(schema))


def test_what_lacks_is_asked_and_nothing_else() -> None:
    assert [column.name for column in begun().open_columns()] == ["ward", "grade", "weight"]
    assert begun().gapless() == ["ward", "grade", "came"]
    assert lacks_bounds(Path("visits.toml"))


def test_without_a_schema_everything_is_asked() -> None:
    asked = begun(None)
    names = [column.name for column in asked.open_columns()]
    assert names == ["ward", "grade", "weight", "came"]
    assert asked.seen.unit.column == "client_id"
    assert not asked.schema.column("client_id").nullable


@pytest.mark.parametrize("name", ["ward", "grade", "weight"])
def test_what_is_proposed_can_be_said(name: str) -> None:
    asked = begun()
    proposed = asked.proposed(name)
    assert proposed is not None
    asked.declare(name, proposed)
    assert asked.schema.column(name).domain == asked.seen.column(name).domain


@pytest.mark.parametrize(
    ("name", "said", "domain"),
    [
        ("ward", '"eyes, ears",heart , feet', Values(("eyes, ears", "heart", "feet"))),
        ("grade", "0, 5", Bounds(0, 5)),
        ("grade", "0, 1, 2, 7", Values((0, 1, 2, 7))),
        ("weight", "0,200.5", Bounds(Decimal(0), Decimal("200.5"))),
        ("came", "2024-01-01, 2024-12-31", Bounds(date(2024, 1, 1), date(2024, 12, 31))),
    ],
)
def test_what_an_owner_says(name: str, said: str, domain: Values | Bounds) -> None:
    asked = begun()
    asked.declare(name, said)
    assert asked.schema.column(name).domain == domain


@pytest.mark.parametrize(
    ("name", "said", "code"),
    [
        ("weight", "5", "bounds_invalid"),
        ("weight", "", "bounds_invalid"),
        ("weight", "low, high", "kind_mismatch"),
        ("grade", "5, 0", "bounds_invalid"),
        ("ward", "a, a", "domain_invalid"),
    ],
)
def test_what_cannot_be_declared(name: str, said: str, code: str) -> None:
    assert code_of(begun().declare, name, said) == code


def test_an_owner_may_name_people_and_leave_columns_out() -> None:
    asked = begun()
    asked.people("ward", 7)
    asked.leave_out("weight")
    asked.save(Path("new.toml"), overwrite=False)
    saved = load(Path("new.toml"))
    assert saved == asked.schema
    assert (saved.unit.column, saved.unit.max_rows) == ("ward", 7)
    assert not saved.column("ward").nullable
    with pytest.raises(SchemaError):
        saved.column("weight")


@pytest.mark.parametrize("path", ["visits.csv", "visits.toml"])
def test_no_file_is_written_over_unless_its_owner_says_so(path: str) -> None:
    assert code_of(begun().save, Path(path), overwrite=False) == "output_exists"
    told = code_of(begun().save, Path(path), overwrite=True)
    assert told == ("file_in_use" if path == "visits.csv" else "no error")


def test_a_number_of_people_that_repeats_is_noticed() -> None:
    table = read("visits.csv", "visits.toml")
    assert repeated_number(table) == "client_id"
    table.close()
