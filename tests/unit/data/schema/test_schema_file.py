from __future__ import annotations

import os
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.hierarchy import Calendar, Mask, Step, Tree, Widths
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.schema_file import dump, load, save
from sfumato.data.schema.unit import Entity, Neighbours, Rows
from sfumato.errors import OutputError, SchemaError

if TYPE_CHECKING:
    from pathlib import Path

PEOPLE = """\
# The people of our town.
table = "people"                   # a comment
unit = "row"                       # what one person can change

# Five digits.
[columns.zip]
role = "quasi"                     # identifier | quasi | sensitive | other
kind = "text"                      # integer | real | text | date | boolean
hierarchy = { mask = "right" }     # 53715 -> 5371* -> 537** ...
[columns.age]
role = "quasi"
kind = "integer"
bounds = [0, 110]                  # declared = public
hierarchy = { widths = [5, 10, 20] }

[columns.disease]
role = "sensitive"
kind = "text"
values = ["flu", "cancer", "diabetes"]       # declared = public
hierarchy = { file = "disease.csv" }
# the end
"""


@pytest.fixture
def people(tmp_path: Path) -> Path:
    (tmp_path / "disease.csv").write_text("flu;virus;*\ncancer;growth;*\ndiabetes;growth;*\n")
    path = tmp_path / "people.toml"
    path.write_text(PEOPLE)
    return path


def refused(people: Path, text: str) -> SchemaError:
    people.write_text(text)
    with pytest.raises(SchemaError) as caught:
        load(people)
    assert "\n" not in caught.value.message
    return caught.value


def test_the_example(people: Path) -> None:
    schema = load(people)
    disease = Tree(
        ("flu", "cancer", "diabetes"),
        (("virus", "*"), ("growth", "*"), ("growth", "*")),
        people.parent / "disease.csv",
    )
    assert schema == Schema(
        "people",
        (
            Column("zip", Kind.TEXT, Role.QUASI, hierarchy=Mask()),
            Column("age", Kind.INTEGER, Role.QUASI, Bounds(0, 110), Widths((5, 10, 20))),
            Column(
                "disease",
                Kind.TEXT,
                Role.SENSITIVE,
                Values(("flu", "cancer", "diabetes")),
                disease,
            ),
        ),
        Rows(),
    )


@pytest.mark.parametrize(
    ("old", "new", "line", "code", "words"),
    [
        # What the keys say.
        ('table = "people"', "table = 5", 2, "schema_malformed", "'table' must be a text"),
        ('table = "people"', 'table = "a\\nb"', 2, "name_invalid", "U+000A"),
        ('table = "people"', "", 1, "schema_malformed", "'table' is missing"),
        (
            'table = "people"',
            'table = "p"\ntabel = 1',
            3,
            "schema_malformed",
            "did you mean 'table'?",
        ),
        ('role = "quasi"\n', 'rolle = "quasi"\n', 11, "schema_malformed", "did you mean 'role'?"),
        ('"sensitive"', '"sensitiv"', 17, "schema_malformed", "did you mean 'sensitive'?"),
        ('"sensitive"', "true", 17, "schema_malformed", "'role' must be a text"),
        ('kind = "integer"\n', "", 10, "schema_malformed", "'kind' is missing here"),
        ('kind = "integer"', 'kind = "float"', 12, "schema_malformed", "'integer'"),
        ('kind = "integer"', 'kind = "integer"\nnullable = 1', 13, "schema_malformed", "true or"),
        ('kind = "integer"', 'kind = "integer"\nlength = 9', 13, "bounds_invalid", "only texts"),
        ("hierarchy = { mask", "length = 0\nhierarchy = { mask", 9, "bounds_invalid", "1 to"),
        (
            "hierarchy = { mask",
            'length = "9"\nhierarchy = { mask',
            9,
            "schema_malformed",
            "whole",
        ),
        # Domains.
        ("[0, 110]", "[110, 0]", 13, "bounds_invalid", "[110, 0]"),
        ("[0, 110]", "[0]", 13, "bounds_invalid", "[low, high]"),
        ("[0, 110]", "5", 13, "schema_malformed", "'bounds' must be an array"),
        ("[0, 110]", "[\n0,\n1.5]", 15, "kind_mismatch", "'1.5'"),
        ("[0, 110]", "[0, nan]", 13, "kind_mismatch", "'NaN'"),
        ("[0, 110]", "[0, 9223372036854775808]", 13, "value_outside_domain", "64 bits"),
        ("[0, 110]", "[0, 110]\nstep = 3", 13, "bounds_invalid", "Step 3"),
        ("[0, 110]", "[0, 110]\nstep = 0.5", 14, "kind_mismatch", "'0.5'"),
        ("bounds = [0, 110]", "step = 1", 13, "bounds_invalid", "'age'"),
        ("[0, 110]", "[0, 110]\nvalues = [1]", 13, "schema_malformed", "keep one"),
        ('values = ["flu"', 'bounds = [0, 5]\n#["flu"', 19, "bounds_invalid", "text"),
        ('"flu", "cancer"', '"flu", "flu"', 19, "domain_invalid", "'flu'"),
        ('"flu", "cancer"', '\n"flu",\n5', 21, "kind_mismatch", "'5'"),
        (
            'values = ["flu", "cancer", "diabetes"]',
            "values = []",
            19,
            "domain_invalid",
            "one value",
        ),
        # Hierarchies.
        ('"right"', '"rigth"', 9, "schema_malformed", "did you mean 'right'?"),
        ('mask = "right"', 'maks = "right"', 9, "schema_malformed", "did you mean 'mask'?"),
        ('mask = "right"', 'mask = "right", tree = ["a"]', 9, "schema_malformed", "exactly one"),
        ('{ mask = "right" }', '"right"', 9, "schema_malformed", "'hierarchy' must be a table"),
        ('mask = "right"', 'dates = "all"', 9, "hierarchy_invalid", "date columns"),
        ('mask = "right"', "tree = 5", 9, "schema_malformed", "arrays of values"),
        ('mask = "right"', "tree = []", 9, "hierarchy_invalid", "one value"),
        ('mask = "right"', 'tree = { A = ["a"], B = ["a"] }', 9, "hierarchy_invalid", "'a'"),
        (
            'mask = "right"',
            'tree = { A = ["a"], b = { B = ["b"] } }',
            9,
            "hierarchy_invalid",
            "'b'",
        ),
        ('mask = "right"', 'tree = { A = { B = ["A"] } }', 9, "hierarchy_invalid", "'A'"),
        ('mask = "right"', 'tree = { A = [\n"a",\n5] }', 11, "kind_mismatch", "'5'"),
        ('mask = "right"', 'tree = ["a", "a"]', 9, "hierarchy_invalid", "'a'"),
        ("[5, 10, 20]", "[5, 12]", 14, "hierarchy_invalid", "5 does not divide 12"),
        ("[5, 10, 20]", "[0.5]", 14, "kind_mismatch", "'0.5'"),
        ('"disease.csv"', '"absent.csv"', 20, "file_unreadable", "absent.csv"),
        ('"disease.csv"', '"."', 20, "file_unreadable", "ordinary file"),
        ('"disease.csv"', '"a\\u0000b"', 20, "file_unreadable", "no file can have"),
        ('"diabetes"', '"diabtes"', 20, "value_outside_domain", "'diabtes'"),
        # The privacy unit.
        ('unit = "row"', 'unit = "rows"', 3, "schema_malformed", '"row" or {'),
        ('unit = "row"', 'unit = { colum = "zip" }', 3, "schema_malformed", "'column'"),
        ('unit = "row"', 'unit = { column = "zip" }', 3, "schema_malformed", "'max_rows'"),
        ('unit = "row"', "unit = { max_rows = 5 }", 3, "schema_malformed", "'column'"),
        (
            'unit = "row"',
            'unit = { column = "zip", max_rows = 0 }',
            3,
            "parameter_out_of_range",
            "0",
        ),
        ('unit = "row"', 'unit = { column = "zip", max_rows = true }', 3, "schema_malformed", ""),
        ('unit = "row"', 'unit = { column = "z", max_rows = 1 }', 3, "column_unknown", "'z'"),
        ('unit = "row"', 'unit = { column = "zip", max_rows = 1 }', 3, "unit_invalid", ""),
        # Names.
        ("columns.age", 'columns."ZIP "', 10, "name_taken", "Columns 1 ('zip') and 2"),
        ("columns.age", 'columns."a\\u202e"', 10, "name_invalid", "U+202E"),
        ("columns.age", 'columns.""', 10, "name_invalid", "no name"),
        # Syntax.
        ('"people"', '"people', 2, "schema_malformed", "not valid TOML"),
        ("[columns.age]", "[columns.age", 10, "schema_malformed", "not valid TOML"),
        ("[columns.age]", "[columns.zip]", 10, "schema_malformed", "twice"),
        ('unit = "row"', 'table = "q"', 3, "schema_malformed", "overwrite"),
        ("[0, 110]", f"[0, {'1' * 5000}]", 13, "schema_malformed", "too long"),
        ("[0, 110]", f"[0, 1e{'1' * 50}]", 13, "schema_malformed", "too long"),
    ],
)
def test_errors_name_the_line(
    people: Path, old: str, new: str, line: int, code: str, words: str
) -> None:
    assert old in PEOPLE
    error = refused(people, PEOPLE.replace(old, new, 1))
    assert (error.code, words in error.message) == (code, True), error.message
    assert error.message.startswith(f"{people}, line {line}: ")


def dated(bounds: str) -> str:
    return f'table = "t"\n[columns.day]\nkind = "date"\nbounds = {bounds}\n'


def test_dates(people: Path) -> None:
    for text in ("[2024-02-29, 2024-03-01]", '["2024-02-29", "2024-03-01"]'):
        people.write_text(dated(text))
        assert load(people).columns[0].domain == Bounds(date(2024, 2, 29), date(2024, 3, 1))
    for text, code in [
        ("[2024-02-30, 2024-03-01]", "schema_malformed"),
        ('["2024-02-30", "2024-03-01"]', "kind_mismatch"),
        ('["2024-W09-4", "2024-03-01"]', "kind_mismatch"),
        ("[2024-02-29T00:00:00, 2024-03-01]", "kind_mismatch"),
        ("[20240229, 20240301]", "kind_mismatch"),
    ]:
        error = refused(people, dated(text))
        assert error.code == code
        assert ", line 4: " in error.message


def test_reals_are_exact(people: Path) -> None:
    people.write_text('table = "t"\n[columns.x]\nkind = "real"\nbounds = [0, 0.3]\nstep = 0.1\n')
    domain = load(people).columns[0].domain
    assert domain == Bounds(Decimal(0), Decimal("0.3"), Decimal("0.1"))
    assert domain.size == 4
    for bounds in ("[-1e308, 1e308]", "[-inf, inf]", "[nan, 1.0]"):
        people.write_text(f'table = "t"\n[columns.x]\nkind = "real"\nbounds = {bounds}\n')
        with pytest.raises(SchemaError, match=r", line 4: Bound ") as caught:
            load(people)
        assert caught.value.code == "value_outside_domain"


def test_calendar_and_left_mask(people: Path) -> None:
    people.write_text(
        'table = "t"\n[columns.a]\nkind = "date"\nhierarchy = { dates = "all" }\n'
        '[columns.b]\nkind = "date"\nhierarchy = { dates = ["month", "year"] }\n'
    )
    assert [column.hierarchy for column in load(people).columns] == [
        Calendar(),
        Calendar((Step.MONTH, Step.YEAR)),
    ]
    error = refused(people, people.read_text().replace('"month", "year"', '"year", "month"'))
    assert (error.code, ", line 7: " in error.message) == ("hierarchy_invalid", True)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ('"row"', Rows()),
        ('{ relation = "replace-one" }', Rows(relation=Neighbours.REPLACE_ONE)),
        ('{ column = "p", max_rows = 10, max_groups = 3 }', Entity("p", 10, 3)),
        (
            '{ column = "p", max_rows = 2, relation = "replace-one" }',
            Entity("p", 2, None, Neighbours.REPLACE_ONE),
        ),
    ],
)
def test_units(people: Path, text: str, unit: Rows | Entity) -> None:
    people.write_text(f'table = "t"\nunit = {text}\n[columns.p]\nkind = "text"\nnullable = false\n')
    schema = load(people)
    assert schema.unit == unit
    people.write_text(dump(schema, folder=people.parent))
    assert load(people).unit == unit


def test_the_unit_may_be_left_out(people: Path) -> None:
    people.write_text('table = "t"\n[columns.p]\nkind = "text"\n')
    assert load(people).unit == Rows()


def test_limits(people: Path) -> None:
    error = refused(people, "a = " + "[" * 100_000)
    assert error.code == "schema_malformed"
    error = refused(people, "#" * (1024 * 1024 + 1))
    assert (error.code, "1 MiB" in error.message) == ("file_too_large", True)


def test_a_hundred_megabytes_are_not_read(people: Path) -> None:
    with people.open("wb") as stream:
        stream.truncate(100_000_000)
    with pytest.raises(SchemaError) as caught:
        load(people)
    assert caught.value.code == "file_too_large"


def test_files_that_are_none(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, code in [
        (tmp_path, "file_unreadable"),
        (pipe, "file_unreadable"),
        (tmp_path / "absent.toml", "file_unreadable"),
    ]:
        with pytest.raises(SchemaError) as caught:
            load(path)
        assert caught.value.code == code


def test_encodings(people: Path) -> None:
    people.write_bytes(b"\xef\xbb\xbf" + PEOPLE.replace("\n", "\r\n").encode())
    assert load(people).table == "people"
    people.write_bytes(PEOPLE.replace("end", "\xe4nd").encode("latin-1"))
    with pytest.raises(SchemaError, match=r"line 21, byte \d+ of the file is 0xe4") as caught:
        load(people)
    assert caught.value.code == "encoding_wrong"


def test_fresh_text(people: Path) -> None:
    schema = load(people)
    text = dump(schema, folder=people.parent, notes={"zip": "every value\nis different"})
    assert text.startswith(
        'table = "people"\nunit = "row"\n\n# every value is different\n[columns.zip]\n'
        'role = "quasi"\nkind = "text"\nhierarchy = { mask = "right" }\n'
    )
    people.write_text(text)
    assert load(people) == schema


def test_save_refuses_an_existing_file(people: Path) -> None:
    schema = load(people)
    with pytest.raises(OutputError) as caught:
        save(schema, people)
    assert caught.value.code == "output_exists"
    assert people.read_text() == PEOPLE
    save(schema, people, overwrite=True)
    assert people.read_text() != PEOPLE
    assert load(people) == schema
    assert sorted(p.name for p in people.parent.iterdir()) == ["disease.csv", "people.toml"]


def test_hierarchy_files_stay_where_they_are(people: Path) -> None:
    schema = load(people)
    folder = people.parent / "below"
    folder.mkdir()
    save(schema, folder / "fresh.toml")
    assert load(folder / "fresh.toml") == schema
    assert '{ file = "../disease.csv" }' in (folder / "fresh.toml").read_text()
    assert people.read_text() == PEOPLE
