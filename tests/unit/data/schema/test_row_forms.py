"""Forms of tables: read with line numbers, written as they were read, checked against columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato.data.schema.json_form import schema_from_json, schema_to_json
from sfumato.data.schema.schema import Edges, Items, Points
from sfumato.data.schema.schema_file import dump, parse
from sfumato.data.schema.unit import Ties
from sfumato.errors import SchemaError

_COLUMNS = """
[columns.a]
kind = "integer"
role = "identifier"
nullable = false
[columns.b]
kind = "integer"
role = "identifier"
nullable = false
[columns.day]
kind = "date"
[columns.x]
kind = "real"
bounds = [0.0, 1.0]
[columns.y]
kind = "real"
bounds = [0.0, 1.0]
[columns.word]
kind = "text"
"""


def _schema(head: str) -> str:
    return f'table = "t"\n{head}\n{_COLUMNS}'


@pytest.mark.parametrize(
    ("written", "form"),
    [
        ('form = { edges = ["a", "b"] }', Edges("a", "b")),
        (
            'form = { points = { path = "a", time = "day", at = ["x", "y"] } }',
            Points("a", "day", "x", "y"),
        ),
        ('form = { items = { of = "a", item = "word" } }', Items("a", "word")),
        (
            'form = { items = { of = "a", item = "word", rating = "x", time = "day" } }',
            Items("a", "word", "x", "day"),
        ),
    ],
)
def test_a_form_is_read_and_written_by_file_and_json(written: str, form: object) -> None:
    schema = parse(_schema(written), "t.toml", Path())
    assert schema.form == form
    text = dump(schema, folder=Path())
    assert written in text
    assert parse(text, "t.toml", Path()) == schema
    assert schema_from_json(schema_to_json(schema)) == schema


def test_a_unit_of_two_is_read_and_written() -> None:
    written = 'unit = { people = ["a", "b"], max_rows = 40 }'
    schema = parse(_schema(written), "t.toml", Path())
    assert schema.unit == Ties(("a", "b"), 40)
    assert written in dump(schema, folder=Path())
    assert schema_from_json(schema_to_json(schema)) == schema


@pytest.mark.parametrize(
    ("head", "code", "said"),
    [
        ("form = { edges = [\"a\"] }", "schema_malformed", "line 2: 'edges' must name two"),
        ('form = { edge = ["a", "b"] }', "schema_malformed", "did you mean 'edges'?"),
        ('form = { edges = ["a", "a"] }', "form_invalid", "line 2:"),
        ('form = { edges = ["a", "c"] }', "column_unknown", "line 2:"),
        ('form = { edges = ["a", "word"] }', "form_invalid", "one kind"),
        ('form = { edges = ["x", "y"] }', "form_invalid", "integer or text"),
        ('form = { items = { of = "a" } }', "schema_malformed", "'item'"),
        ("form = {}", "schema_malformed", "edges, points, items"),
        ('form = { points = { path = "a", time = "b", at = ["x", "word"] } }', "form_invalid",
         "'word'"),
        ('unit = { people = ["a", "a"], max_rows = 2 }', "parameter_type_wrong", "line 2:"),
        ('unit = { people = ["a", "b"], max_rows = 0 }', "parameter_out_of_range", "line 2:"),
        ('unit = { people = ["a", "day"], max_rows = 2 }', "unit_invalid", "line 2:"),
        ('unit = { people = ["a", "b"], max_rows = 2, max_groups = 1 }', "schema_malformed",
            "max_gr"),
    ],
)  # fmt: skip
def test_a_wrong_form_is_refused_with_its_line(head: str, code: str, said: str) -> None:
    with pytest.raises(SchemaError, match=r"t\.toml, line 2:") as refused:
        parse(_schema(head), "t.toml", Path())
    assert refused.value.code == code
    assert said in refused.value.message
