"""A release that is opened again is known for what it is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.anonymize.measure import bound
from sfumato.anonymize.pipeline import anonymize
from sfumato.data.schema.schema_file import load
from sfumato.errors import QueryError, SchemaError
from sfumato.release.open_table import Table, read
from sfumato.release.sidecar import sidecar_file

if TYPE_CHECKING:
    from pathlib import Path

ABOVE = "SELECT COUNT(*) FROM people WHERE age < 25 AND disease = 'flu'"


def _made(people: Table, folder: Path, algorithm: str) -> Path:
    criteria = [] if algorithm == "perturb" else [sf.KAnonymity(12)]
    out = folder / f"{algorithm}.csv"
    anonymize(people, criteria, algorithm=algorithm).write(out)
    return out


@pytest.mark.parametrize("labels", ["public", "tight"])
@pytest.mark.parametrize(
    ("algorithm", "sql"),
    [
        ("permute", ABOVE),
        ("permute", "SELECT SUM(salary) FROM people WHERE age < 25"),
        ("perturb", "SELECT SUM(salary) FROM people WHERE age < 25"),
        ("perturb", "SELECT COUNT(*) FROM people WHERE salary > 3000"),
    ],
)
def test_what_was_moved_is_not_bounded(
    people: Table, schema: sf.Schema, tmp_path: Path, algorithm: str, sql: str, labels: str
) -> None:
    out = _made(people, tmp_path, algorithm)
    with pytest.raises(QueryError) as refusal:
        bound(out, sql, schema, labels="tight" if labels == "tight" else "public")
    assert refusal.value.code == "question_not_supported"


@pytest.mark.parametrize("way", ["link", "inside"])
def test_a_release_is_known_through_links_and_inside_its_folder(
    people: Table, schema: sf.Schema, tmp_path: Path, way: str
) -> None:
    release = people.anonymize(sf.KAnonymity(12), algorithm="permute")
    if way == "inside":
        release.save(tmp_path / "permuted")
        asked = next((tmp_path / "permuted").glob("*.parquet"))
    else:
        release.save(tmp_path / "permuted.csv")
        asked = tmp_path / "linked.csv"
        asked.symlink_to(tmp_path / "permuted.csv")
    with pytest.raises(QueryError) as refusal:
        bound(asked, ABOVE, schema)
    assert refusal.value.code == "question_not_supported"


@pytest.mark.parametrize(
    ("algorithm", "sql", "truth"),
    [
        ("permute", "SELECT SUM(salary) FROM people", 66000),
        ("permute", "SELECT COUNT(*) FROM people WHERE age < 25", 10),
        ("perturb", ABOVE, 4),
    ],
)
def test_what_was_not_moved_is_answered(
    people: Table, schema: sf.Schema, tmp_path: Path, algorithm: str, sql: str, truth: int
) -> None:
    found = bound(_made(people, tmp_path, algorithm), sql, schema)
    assert found.json() == {"lower": truth, "upper": truth, "estimate": truth}


def test_a_release_with_noise_is_not_bounded(
    people: Table, schema: sf.Schema, tmp_path: Path
) -> None:
    out = _made(people, tmp_path, "optimal")
    told = json.loads(sidecar_file(out).read_text())
    told["guarantee"]["kind"] = "differential privacy"
    sidecar_file(out).write_text(json.dumps(told))
    with pytest.raises(QueryError) as refusal:
        bound(out, "SELECT COUNT(*) FROM people", schema)
    assert refusal.value.code == "question_not_supported"


PERSON = """\
table = "people"
unit = { column = "id", max_rows = 9 }
[columns.id]
role = "ROLE"
kind = "text"
nullable = false
[columns.age]
role = "quasi"
kind = "integer"
hierarchy = { widths = [10] }
"""


@pytest.mark.parametrize(("role", "counted"), [("other", "people"), ("identifier", "rows")])
def test_people_are_counted_in_a_release_that_names_them(
    tmp_path: Path, role: str, counted: str
) -> None:
    declared = tmp_path / "people.toml"
    declared.write_text(PERSON.replace("ROLE", role))
    schema = load(declared)
    rows = pa.table({"id": ["a"] * 8 + ["b"], "age": [31] * 8 + [32]})
    out = tmp_path / "out.csv"
    read(rows, schema).anonymize(sf.KAnonymity(2)).save(out)
    assert read(out, schema).inspect().counted == counted


def test_a_release_is_not_anonymized_again(
    people: Table, schema: sf.Schema, tmp_path: Path
) -> None:
    out = _made(people, tmp_path, "optimal")
    with pytest.raises(SchemaError) as refusal:
        read(out, schema).anonymize(sf.KAnonymity(2))
    assert refusal.value.code == "table_is_release"
