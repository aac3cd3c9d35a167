"""Cells read and written as their columns are spelled."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from sfumato.data.engines.sources import open_source
from sfumato.data.files.cell_conversion import conform
from sfumato.data.files.column_spelling import marked, read_spelled, spelling_in, write_spelled
from sfumato.data.files.writers import lines
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.spelling import DateSpelling, NumberSpelling
from sfumato.errors import SourceError

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.data.schema.spelling import Spelling

GERMAN = NumberSpelling(",", ".")
EUROS = NumberSpelling(",", ".", None, "# €", 2)
DOLLARS = NumberSpelling(None, ",", None, "$#")
DOTS = DateSpelling("%d.%m.%Y")

READ: list[tuple[Spelling, Kind, str, object]] = [
    (DOTS, Kind.DATE, "29.02.2024", dt.date(2024, 2, 29)),
    (DOTS, Kind.DATE, "1.3.0001", dt.date(1, 3, 1)),
    (DateSpelling("%m/%d/%Y"), Kind.DATE, "12/24/1976", dt.date(1976, 12, 24)),
    (DateSpelling("%d.%m.%Y %H:%M"), Kind.DATE, "24.12.1976 23:59", dt.date(1976, 12, 24)),
    (DateSpelling("%d.%m.%Y %H:%M"), Kind.DATE, "24.12.1976", dt.date(1976, 12, 24)),
    (DateSpelling("%Y-%m-%dT%H:%M:%S.%f%z"), Kind.DATE, "2024-01-01T23:30:00.5-05:00",
     dt.date(2024, 1, 1)),
    (DateSpelling("%Y-%m-%dT%H:%M:%S%z"), Kind.DATE, "2024-01-01T23:30:00Z", dt.date(2024, 1, 1)),
    (DateSpelling("%m/%d/%Y %I:%M %p"), Kind.DATE, "1/2/2024 12:30 pm", dt.date(2024, 1, 2)),
    (GERMAN, Kind.REAL, "1.234.567,89", 1234567.89),
    (GERMAN, Kind.REAL, "-0,5", -0.5),
    (GERMAN, Kind.REAL, "+1234567,5", 1234567.5),
    (GERMAN, Kind.REAL, "nan", float("nan")),
    (GERMAN, Kind.REAL, "-inf", float("-inf")),
    (NumberSpelling(thousands="."), Kind.INTEGER, "1.591", 1591),
    (NumberSpelling(thousands="."), Kind.INTEGER, "-9.223.372.036.854.775.808", -(2**63)),
    (NumberSpelling(thousands=" "), Kind.INTEGER, "1\u202f591", 1591),
    (NumberSpelling(",", percent="# %"), Kind.REAL, "9,2 %", 9.2),
    (NumberSpelling(",", percent="# %"), Kind.REAL, "9,2\u00a0%", 9.2),
    (NumberSpelling(percent="#%"), Kind.REAL, "9.2%", 9.2),
    (EUROS, Kind.REAL, "1.591,09 €", 1591.09),
    (EUROS, Kind.REAL, "1.591,09€", 1591.09),
    (DOLLARS, Kind.REAL, "-$1,234.50", -1234.5),
    (DOLLARS, Kind.REAL, "$-1,234.50", -1234.5),
    (NumberSpelling(None, "'", None, "Fr. #"), Kind.REAL, "Fr. 1'234.50", 1234.5),
]  # fmt: skip

REFUSED: list[tuple[Spelling, Kind, str]] = [
    (DOTS, Kind.DATE, "31.02.2024"),
    (DOTS, Kind.DATE, "29.02.2023"),
    (DOTS, Kind.DATE, "00.01.2023"),
    (DOTS, Kind.DATE, "01.13.2023"),
    (DOTS, Kind.DATE, "01.01.0000"),
    (DOTS, Kind.DATE, "01.01.24"),
    (DOTS, Kind.DATE, "2024-01-01"),
    (DOTS, Kind.DATE, " 01.01.2024"),
    (DOTS, Kind.DATE, "01.01.2024\n"),
    (DOTS, Kind.DATE, "01.01.2024 10:00"),
    (DOTS, Kind.DATE, "٠١.٠١.٢٠٢٤"),
    (DOTS, Kind.DATE, "\u200f01.01.2024"),
    (DateSpelling("%d.%m.%Y %H:%M"), Kind.DATE, "24.12.1976 24:00"),
    (GERMAN, Kind.REAL, "1.59,09"),
    (GERMAN, Kind.REAL, "0.123"),
    (GERMAN, Kind.REAL, "1,234.5"),
    (GERMAN, Kind.REAL, "1e5"),
    (GERMAN, Kind.REAL, "1,"),
    (GERMAN, Kind.REAL, "9" * 400),
    (GERMAN, Kind.REAL, "１,5"),
    (NumberSpelling(","), Kind.REAL, "1.5"),
    (NumberSpelling(thousands="."), Kind.INTEGER, "1.591,0"),
    (NumberSpelling(thousands="."), Kind.INTEGER, "9.223.372.036.854.775.808"),
    (NumberSpelling(percent="#%"), Kind.REAL, "9.2"),
    (EUROS, Kind.REAL, "5 $"),
    (DOLLARS, Kind.REAL, "-$-5"),
]


@pytest.mark.parametrize(("spelling", "kind", "text", "value"), READ)
def test_what_is_spelled_so_is_read_by_the_batch_and_alone(
    spelling: Spelling, kind: Kind, text: str, value: object
) -> None:
    cells = pa.array([text, None, text])
    found = read_spelled(cells, spelling, kind)
    assert found is not None
    assert repr(found.to_pylist()) == repr([value, None, value])
    alone = spelling.read(text, kind)
    assert alone is not None
    assert repr(float(alone) if kind is Kind.REAL else alone) == repr(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(("spelling", "kind", "text"), REFUSED)
def test_what_is_not_spelled_so_is_refused_by_place_or_missing(
    spelling: Spelling, kind: Kind, text: str
) -> None:
    asked = {"x": Column("x", kind, spelling=spelling)}
    good = spelling.write(dt.date(1976, 12, 24) if kind is Kind.DATE else 7)
    batch = pa.record_batch([pa.array([good, None, text, good])], ["x"])
    with pytest.raises(SourceError, match=r"'x', data row 3, is not one of (dates|numbers)") as no:
        list(conform([batch], asked))
    assert no.value.code == "cell_malformed"
    (read,) = conform([batch], asked, strict=False)
    assert read.column(0).is_valid().to_pylist() == [True, False, False, True]
    if kind is not Kind.INTEGER and len(text) < 100:
        assert spelling.read(text, kind) is None


@pytest.mark.parametrize("arrow", [pa.string(), pa.large_string(), pa.string_view()])
def test_every_type_of_text_is_read(arrow: pa.DataType) -> None:
    found = read_spelled(pa.array(["24.12.1976", None]).cast(arrow), DOTS, Kind.DATE)
    assert found is not None
    assert found.to_pylist() == [dt.date(1976, 12, 24), None]


@pytest.mark.parametrize("numbers", [[1.5, -1234567.0, None, 0.1], [1e22, float("nan"), -1e-7]])
def test_the_batch_is_written_as_each_value_is(numbers: list[float | None]) -> None:
    from decimal import Decimal

    written = write_spelled(pa.array(numbers, pa.float64()), EUROS).to_pylist()
    assert written == [None if x is None else EUROS.write(Decimal(repr(x))) for x in numbers]


def test_parquet_and_tables_in_memory_are_read_so_too(tmp_path: Path) -> None:
    from pyarrow import parquet

    table = pa.table({"day": ["24.12.1976", None], "pay": ["1.591,09 €", "5 €"]})
    parquet.write_table(table, tmp_path / "t.parquet")
    asked: dict[str, Any] = {
        "day": Column("day", Kind.DATE, spelling=DOTS),
        "pay": Column("pay", Kind.REAL, spelling=EUROS),
    }
    for source in (tmp_path / "t.parquet", table, table.to_pandas()):
        engine = open_source(source, kinds=asked)
        try:
            assert engine.columns(engine.table) == {"day": Kind.DATE, "pay": Kind.REAL}
        finally:
            engine.close()


def test_a_column_that_holds_dates_already_is_left_alone() -> None:
    days = pa.array([dt.date(1976, 12, 24)])
    (read,) = conform(
        [pa.record_batch([days], ["x"])], {"x": Column("x", Kind.DATE, spelling=DOTS)}
    )
    assert read.column(0).equals(days)


def test_csv_is_written_as_fields_say_and_negative_numbers_are_no_formulas() -> None:
    spelled: dict[str, Spelling] = {"day": DOTS, "pay": EUROS, "note": DOTS}
    plain = pa.schema([("day", pa.date32()), ("pay", pa.float64()), ("note", pa.string())])
    schema = marked(plain, spelled)
    batch = pa.record_batch(
        [pa.array([dt.date(1976, 12, 24), None]), pa.array([-1591.1, None]), pa.array(["-a", "b"])],
        schema=schema,
    )
    assert lines(batch).decode() == '24.12.1976,"-1.591,10 €",\'-a\n,,b\n'
    assert [spelling_in(field) for field in schema] == [DOTS, EUROS, None]


def test_a_million_dates_are_read_in_a_second() -> None:
    import time

    first = dt.date(1930, 1, 1)
    days = [(first + dt.timedelta(days=n)).strftime("%d.%m.%Y") for n in range(30_000)]
    cells = pa.array(days).take(pa.array([n * 7919 % 30_000 for n in range(10**6)]))
    seconds = []
    for _ in range(3):
        began = time.process_time()
        read_spelled(cells, DOTS, Kind.DATE)
        seconds.append(time.process_time() - began)
    assert min(seconds) < 1
