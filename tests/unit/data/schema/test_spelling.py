"""How columns are written: what can be declared, where a mistake stands, and what is saved."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.schema_file import dump, load, save
from sfumato.data.schema.spelling import DateSpelling, NumberSpelling
from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from pathlib import Path


def written(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "people.toml"
    path.write_text("\n".join(['table = "people"', "[columns.x]", *lines]) + "\n")
    return path


@pytest.mark.parametrize(
    "lines",
    [
        ('kind = "date"', 'format = "%d.%m.%Y"'),
        ('kind = "date"', 'format = "%-m/%-d/%Y %I:%M %p"'),
        ('kind = "date"', 'format = "%d.%m.%y"', "pivot = 30"),
        ('kind = "real"', 'decimal = ","', 'thousands = "."', 'currency = "€"', "places = 2"),
        ('kind = "real"', 'thousands = ","', 'currency = "$#"'),
        ('kind = "real"', "percent = true"),
        ('kind = "real"', 'decimal = ","', 'percent = "# %"'),
        ('kind = "integer"', 'thousands = "."'),
        ('kind = "integer"', 'thousands = "\u202f"'),
    ],
)
def test_what_is_declared_is_saved_as_it_was(tmp_path: Path, lines: tuple[str, ...]) -> None:
    schema = load(written(tmp_path, *lines))
    assert schema.columns[0].spelling is not None
    saved = dump(schema, folder=tmp_path)
    assert all(line in saved for line in lines)
    save(schema, tmp_path / "copy.toml")
    assert load(tmp_path / "copy.toml") == schema


@pytest.mark.parametrize(
    ("lines", "line", "code"),
    [
        (('kind = "date"', 'format = "%d.%b.%Y"'), 4, "spelling_invalid"),
        (('kind = "date"', 'format = "%d.%m"'), 4, "spelling_invalid"),
        (('kind = "date"', 'format = "%d.%m.%Y.%d"'), 4, "spelling_invalid"),
        (('kind = "date"', 'format = "%H:%M %d.%m.%Y"'), 4, "spelling_invalid"),
        (('kind = "date"', 'format = "%-d%m%Y"'), 4, "spelling_invalid"),
        (('kind = "date"', 'format = "%d.%m.19%y"', "pivot = 30"), 4, "spelling_invalid"),
        (('kind = "date"', 'format = "%d.%m.%y"'), 4, "spelling_invalid"),
        (('kind = "date"', 'format = "%d.%m.%Y"', "pivot = 30"), 4, "spelling_invalid"),
        (('kind = "date"', 'format = "%d.%m.%y"', "pivot = 100"), 4, "spelling_invalid"),
        (('kind = "date"', "pivot = 30"), 4, "spelling_invalid"),
        (('kind = "date"', "format = 3"), 4, "schema_malformed"),
        (('kind = "text"', 'format = "%d.%m.%Y"'), 4, "spelling_invalid"),
        (('kind = "date"', 'decimal = ","'), 4, "spelling_invalid"),
        (('kind = "integer"', 'decimal = ","'), 4, "spelling_invalid"),
        (('kind = "real"', 'decimal = ";"'), 4, "spelling_invalid"),
        (('kind = "real"', 'decimal = ","', 'thousands = ","'), 5, "spelling_invalid"),
        (('kind = "integer"', 'thousands = "x"'), 4, "spelling_invalid"),
        (('kind = "real"', 'decimal = ","', 'percent = "per cent"'), 5, "spelling_invalid"),
        (('kind = "real"', 'decimal = ","', 'currency = "7"'), 5, "spelling_invalid"),
        (('kind = "real"', "percent = true", 'currency = "€"'), 5, "spelling_invalid"),
        (('kind = "real"', 'decimal = ","', "places = 13"), 5, "spelling_invalid"),
        (
            (
                'kind = "date"',
                'format = "%d.%m.%y"',
                "pivot = 30",
                "bounds = [1900-01-01, 2000-01-01]",
            ),
            4,
            "spelling_invalid",
        ),
    ],
)
def test_a_mistake_is_refused_with_its_line(
    tmp_path: Path, lines: tuple[str, ...], line: int, code: str
) -> None:
    with pytest.raises(SchemaError) as caught:
        load(written(tmp_path, *lines))
    assert caught.value.code == code
    assert f"people.toml, line {line}: " in caught.value.message
    assert "\n" not in caught.value.message


def test_a_format_without_signs_needs_all_digits() -> None:
    spelling = DateSpelling("%Y%m%d")
    assert spelling.read("19761224", Kind.DATE) == date(1976, 12, 24)
    assert spelling.read("1976124", Kind.DATE) is None


@pytest.mark.parametrize(
    ("text", "year"), [("24.12.31", 1931), ("24.12.99", 1999), ("24.12.00", 2000), ("1.2.30", 2030)]
)
def test_the_pivot_is_the_last_year_of_this_century(text: str, year: int) -> None:
    found = DateSpelling("%d.%m.%y", 30).read(text, Kind.DATE)
    assert found is not None
    assert found.year == year


def test_a_hierarchy_file_may_be_written_as_the_table_is(tmp_path: Path) -> None:
    (tmp_path / "size.csv").write_text('"1.500,5";small;*\n"2.000,0";small;*\n')
    lines = ('kind = "real"', 'decimal = ","', 'thousands = "."', 'hierarchy = {file="size.csv"}')
    schema = load(written(tmp_path, *lines))
    assert schema.columns[0].hierarchy is not None
    assert schema.columns[0].hierarchy.declared == (Decimal("1500.5"), Decimal(2000))


def test_a_number_is_written_with_at_least_so_many_decimals_and_never_fewer_than_it_has() -> None:
    spelling = NumberSpelling(",", ".", None, "# €", 2)
    assert spelling.write(Decimal("1234567.5")) == "1.234.567,50 €"
    assert spelling.write(Decimal("-0.125")) == "-0,125 €"
    assert spelling.write(Decimal(7)) == "7,00 €"


def test_words_show_a_day_and_a_number_of_ours() -> None:
    assert DateSpelling("%m/%d/%Y").describe(Kind.DATE) == "dates written 12/24/1976"
    assert DateSpelling("%Y-%m-%dT%H:%M%z").describe(Kind.DATE) == (
        "dates written 1976-12-24T18:05+01:00, of which the day is kept"
    )
    assert NumberSpelling(thousands="'").describe(Kind.INTEGER) == "numbers written 1'234"


def test_a_spelling_is_part_of_what_a_column_is() -> None:
    plain = Column("x", Kind.DATE)
    spelled = Column("x", Kind.DATE, spelling=DateSpelling("%d.%m.%Y"))
    assert Schema("t", (plain,)) != Schema("t", (spelled,))
