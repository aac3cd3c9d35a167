"""Every way of writing against Python's own reader, and there and back again."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sfumato.anonymize.labels import bare_label, plain_label, spelled_label
from sfumato.data.files.column_spelling import read_spelled, write_spelled
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.hierarchy import Widths, spell
from sfumato.data.schema.spelling import DateSpelling, NumberSpelling

DAYS = st.dates(date(1000, 1, 1), date(9999, 12, 31))
FORMATS = st.sampled_from(
    ["%d.%m.%Y", "%m/%d/%Y", "%Y/%m/%d", "%Y%m%d", "%d-%m-%Y", "%d. %m. %Y", "%Y年%m月%d日"]
)
TIMES = st.sampled_from(["", " %H:%M", "T%H:%M:%S", " %H:%M:%S.%f%z", ", %I:%M %p"])
SIGNS = st.sampled_from(
    [(None, None), (",", None), (",", "."), (None, ","), (",", " "), (None, "'"), (".", "\u202f")]
)
UNITS = st.sampled_from(
    [(None, None), ("#%", None), ("# %", None), (None, "# €"), (None, "$#"), (None, "Fr. #")]
)


@st.composite
def number_spellings(draw: st.DrawFn) -> NumberSpelling:
    (decimal, thousands), (percent, currency) = draw(SIGNS), draw(UNITS)
    places = draw(st.sampled_from([None, 0, 2]))
    return NumberSpelling(decimal, thousands, percent, currency, places)


@given(FORMATS, TIMES, st.datetimes(datetime.fromisoformat("1000-01-01")))
def test_dates_are_read_as_python_reads_them(day: str, time: str, moment: datetime) -> None:
    format_ = day + time
    text = moment.astimezone().strftime(format_)
    assert datetime.strptime(text, format_).date() == moment.date()  # noqa: DTZ007  # days only
    spelling = DateSpelling(format_)
    assert spelling.read(text, Kind.DATE) == moment.date()
    cells = read_spelled(pa.array([text, None]), spelling, Kind.DATE)
    assert cells is not None
    assert cells.to_pylist() == [moment.date(), None]


@given(FORMATS, st.integers(0, 99), st.integers(0, 99), st.integers(0, 9999))
def test_days_exist_where_python_says_so(format_: str, day: int, month: int, year: int) -> None:
    parts = {"%d": f"{day:02}", "%m": f"{month:02}", "%Y": f"{year:04}"}
    text = format_
    for piece, digits in parts.items():
        text = text.replace(piece, digits)
    try:
        expected = datetime.strptime(text, format_).date()  # noqa: DTZ007  # days only
    except ValueError:
        expected = None
    cells = read_spelled(pa.array([text]), DateSpelling(format_), Kind.DATE)
    assert (None if cells is None else cells[0].as_py()) == expected


@given(FORMATS, st.lists(st.none() | DAYS))
def test_dates_come_back_as_they_were_written(format_: str, days: list[date | None]) -> None:
    spelling = DateSpelling(format_)
    cells = pa.array(days, pa.date32())
    text = write_spelled(cells, spelling)
    read = read_spelled(text, spelling, Kind.DATE)
    assert read is not None
    assert read.equals(cells)
    assert write_spelled(read, spelling).equals(text)


@given(number_spellings(), st.lists(st.none() | st.floats(allow_nan=False)))
def test_reals_come_back_exactly(spelling: NumberSpelling, numbers: list[float | None]) -> None:
    cells = pa.array(numbers, pa.float64())
    text = write_spelled(cells, spelling)
    read = read_spelled(text, spelling, Kind.REAL)
    assert read is not None
    assert read.equals(cells)
    assert write_spelled(read, spelling).equals(text)


@given(number_spellings(), st.decimals(-(10**14), 10**14, places=3))
def test_decimals_are_read_as_python_reads_them(spelling: NumberSpelling, number: Decimal) -> None:
    read = spelling.read(spelling.write(number), Kind.REAL)
    assert read == number
    cells = read_spelled(pa.array([spelling.write(number)]), spelling, Kind.REAL)
    assert cells is not None
    assert cells[0].as_py() == float(number)


@given(SIGNS, UNITS, st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)))
def test_integers_come_back_exactly(
    signs: tuple[str | None, str | None],
    units: tuple[str | None, str | None],
    numbers: list[int | None],
) -> None:
    spelling = NumberSpelling(None, signs[1], *units)
    cells = pa.array(numbers, pa.int64())
    read = read_spelled(write_spelled(cells, spelling), spelling, Kind.INTEGER)
    assert read is not None
    assert read.equals(cells)


@given(number_spellings(), st.floats(-1e9, 1e9), st.floats(-1e9, 1e9))
def test_labels_of_reals_come_back(spelling: NumberSpelling, one: float, two: float) -> None:
    column = Column("x", Kind.REAL, spelling=spelling)
    low, high = sorted(Decimal(repr(x)) for x in (one, two))
    taxonomy = Widths((Decimal("0.5"), Decimal(10))).grow([low, high])
    labels = [label for level in taxonomy.labels for label in level if label is not None]
    for label in [*labels, f"[{spell(low)}, {spell(high)}]", "1976-12"]:
        back = plain_label(column, spelled_label(column, label))
        assert bare_label(column, back) == bare_label(column, label)  # but for zeros at the end


@given(SIGNS, UNITS, st.integers(-(10**12), 10**12), st.integers(-(10**12), 10**12))
def test_labels_of_integers_come_back(
    signs: tuple[str | None, str | None], units: tuple[str | None, str | None], one: int, two: int
) -> None:
    column = Column("x", Kind.INTEGER, spelling=NumberSpelling(None, signs[1], *units))
    taxonomy = Widths((5, 1000)).grow([one, two])
    labels = [label for level in taxonomy.labels for label in level if label is not None]
    for label in [*labels, f"[{min(one, two)}, {max(one, two)}]", f"{{{one}, {two}}}"]:
        assert plain_label(column, spelled_label(column, label)) == label
