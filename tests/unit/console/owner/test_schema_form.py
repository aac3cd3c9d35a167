"""A schema as a form: what a person types becomes what a file would say, errors beside fields."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sfumato.console.owner.schema_form import UNSHOWN, EditedSchema, edit_schema, fields_of
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.hierarchy import Calendar, Mask, Removal, Tree, Widths
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.schema_file import dump, parse
from sfumato.data.schema.unit import Entity, Ties

FOLDER = Path()
TEXT = """
table = "visits"
unit = "row"

[columns.age]
kind = "integer"
role = "quasi"
bounds = [0, 120]
hierarchy = { widths = [5, 10] }

[columns.city]
kind = "text"
role = "quasi"
values = ["Bern", "Rome"]
hierarchy = { tree = { North = ["Bern"], South = ["Rome"] } }

[columns.day]
kind = "date"
format = "%d.%m.%Y"
hierarchy = { dates = ["month", "year"] }

[columns.zip]
kind = "text"
hierarchy = { mask = "right" }

[columns.cost]
kind = "real"
bounds = [0.0, 99.5]
step = 0.5
nullable = false

[columns.note]
kind = "text"
role = "sensitive"
length = 80
hierarchy = { tree = "*" }
"""


@pytest.fixture
def schema() -> Schema:
    return parse(TEXT, "visits.toml", FOLDER)


def change(schema: Schema, **fields: str) -> EditedSchema:
    """The form sent with some fields other than they were; _ stands for the dot."""
    named = {name.replace("_", ".", 1) if name[0] == "c" else name: one
             for name, one in fields.items()}  # fmt: skip
    return edit_schema(schema, fields_of(schema) | named, FOLDER)


def column(edited: EditedSchema, name: str) -> Column:
    assert edited.schema is not None, edited.errors
    return edited.schema.column(name)


def test_a_form_that_was_left_as_it_is_changes_nothing(schema: Schema) -> None:
    assert edit_schema(schema, fields_of(schema), FOLDER).schema == schema


def test_every_field_is_read_as_the_file_would_be(schema: Schema) -> None:
    edited = change(
        schema, c0_low="18", c0_high="99", c0_rule="10, 50", c1_values="Bern\r\nRome\r\nOslo",
        c1_rule="Bern,North\nOslo,North\nRome,South", c2_format="%Y/%m/%d", c2_rule="",
        c3_hierarchy="mask left", c3_role="quasi", c4_nullable="yes", c4_step="0.25",
        c5_length="40", c5_hierarchy="",
    )  # fmt: skip
    assert column(edited, "age").domain == Bounds(18, 99)
    assert column(edited, "age").hierarchy == Widths((10, 50))
    assert column(edited, "city").domain == Values(("Bern", "Rome", "Oslo"))
    tree = column(edited, "city").hierarchy
    assert isinstance(tree, Tree)
    assert dict(zip(tree.leaves, tree.ancestors, strict=True))["Oslo"] == ("North", "*")
    assert column(edited, "day").hierarchy == Calendar()
    assert column(edited, "day").spelling is not None
    assert column(edited, "zip").hierarchy != Mask()
    assert column(edited, "zip").role is Role.QUASI
    assert column(edited, "cost").nullable
    assert column(edited, "note").length == 40
    assert column(edited, "note").hierarchy is None
    assert column(change(schema, c3_hierarchy="removal"), "zip").hierarchy == Removal()
    schema_after = edited.schema
    assert schema_after is not None
    assert parse(dump(schema_after, folder=FOLDER), "again", FOLDER) == schema_after


@pytest.mark.parametrize(
    ("field", "text", "words"),
    [
        ("c0_low", "old", "whole number"),
        ("c0_low", "500", "above"),
        ("c0_high", "", "both bounds"),
        ("c0_kind", "number", "not allowed"),
        ("c0_role", "secret", "not allowed"),
        ("c0_rule", "5, 7", "divide"),
        ("c1_rule", "Bern,North\nRome", "levels"),
        ("c1_hierarchy", "bush", "Choose one of"),
        ("c2_format", "%Q", "%Q"),
        ("c4_step", "half", "number"),
        ("c5_length", "long", "whole number"),
        ("c5_length", "99999999", "characters"),
    ],
)
def test_what_is_wrong_stands_beside_its_field(
    schema: Schema, field: str, text: str, words: str
) -> None:
    edited = change(schema, **{field: text})
    assert edited.schema is None
    [(name, message)] = edited.errors.items()
    assert name == field.replace("_", ".", 1)
    assert words in message
    assert "line" not in message
    assert edited.fields[name] == text


def test_all_that_is_wrong_is_told_at_once(schema: Schema) -> None:
    edited = change(schema, c0_low="x", c4_step="y", unit="zip", max_rows="many")
    assert set(edited.errors) == {"c0.low", "c4.step", "max_rows"}


def test_the_unit_is_declared_too_and_refused_beside_it(schema: Schema) -> None:
    solid = replace(schema, columns=(*schema.columns, Column("id", Kind.INTEGER, nullable=False)))
    edited = change(solid, unit="id", max_rows="4", max_groups="2")
    assert edited.schema is not None
    assert edited.schema.unit == Entity("id", 4, 2)
    assert set(change(solid, unit="id").errors) == {"max_rows"}
    assert set(change(schema, unit="zip", max_rows="3").errors) == {"unit"}


def test_a_column_can_be_left_out_and_what_was_seen_be_taken(schema: Schema) -> None:
    bare = replace(schema, columns=(Column("age", Kind.INTEGER), Column("city", Kind.TEXT)))
    told = fields_of(bare)
    assert (edited := edit_schema(bare, told | {"c1.drop": "yes"}, FOLDER).schema) is not None
    assert [one.name for one in edited.columns] == ["age"]
    declared = edit_schema(bare, told | {"c0.take": "yes"}, FOLDER, seen=schema).schema
    assert declared is not None
    assert declared.column("age").domain == Bounds(0, 120)
    assert declared.column("city").domain is None
    own = edit_schema(
        bare, told | {"c0.take": "yes", "c0.low": "1", "c0.high": "9"}, FOLDER, seen=schema
    )
    assert column(own, "age").domain == Bounds(1, 9)


def test_a_long_list_is_kept_without_being_shown(schema: Schema) -> None:
    many = Values(tuple(f"v{place}" for place in range(3000)))
    long = replace(schema, columns=(Column("code", Kind.TEXT, domain=many),))
    assert fields_of(long)["c0.values"] == UNSHOWN
    assert column(change(long, c0_role="quasi"), "code").domain == many


def test_nobody_overwrites_what_they_have_not_seen(schema: Schema) -> None:
    told = fields_of(schema)
    moved = replace(schema, columns=schema.columns[1:])
    edited = edit_schema(moved, told, FOLDER)
    assert edited.schema is None
    assert set(edited.errors) == {"state"}
    assert edited.fields == fields_of(moved)


def test_a_unit_of_two_people_is_shown_and_stays() -> None:
    ends = [Column(one, Kind.TEXT, Role.OTHER, nullable=False) for one in ("a", "b")]
    ties = Schema("ties", tuple(ends), Ties(("a", "b"), max_rows=9))
    told = fields_of(ties)
    assert (told["unit"], told["max_rows"]) == ("a and b", "9")
    assert edit_schema(ties, told, FOLDER).schema == ties
