"""Recognise spellings of dates and numbers in text columns by shapes: 24.12.1976 is 99.99.9999.

A column is read as dates or numbers only if one spelling fits every present cell and no other
spelling reads the cells differently. Other columns that look like it get a warning with the schema
lines to choose from. So does text that reading would change: 06.1990 is a month and not the number
6.199; twenty digits do not fit a float64; no format reads 8 Oct 1956. Warnings quote no cell, only
a fixed example. Decision `reading-files`.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import product
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.names import count
from sfumato.data.schema.spelling import MOST_PLACES, DateSpelling, NumberSpelling

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from sfumato.data.engines.base import Engine
    from sfumato.data.schema.spelling import Spelling

    Shapes = Sequence[tuple[str, int]]


MOST_SHAPES = 500
"""The largest number of shapes that are read; columns of dates or numbers have far fewer."""

ENOUGH = 0.9
"""The share of cells with a form from which a column counts as looking like it."""

# The pivot in the example of a warning; it is never applied.
_PIVOT = 30

SPACES = " \u00a0\u2009\u202f"


@dataclass(frozen=True)
class Recognised:
    """The column that a text column is certainly read as, and warnings for its owner."""

    column: Column | None = None
    warnings: tuple[str, ...] = ()


def shapes_of(engine: Engine, table: exp.Table, name: str) -> tuple[list[tuple[str, int]], int]:
    """The shapes of a column with the number of cells of each, and the number of present cells.

    Every digit becomes 9; a single zero before a point or comma becomes Z, because 0,125 cannot
    have a thousands separator.
    """
    cell = exp.column(name, quoted=True)
    values = (
        exp.select(exp.alias_(cell, "sf_value"), exp.alias_(exp.Count(this=exp.Star()), "sf_count"))
        .from_(table.copy())
        .where(cell.copy().is_(exp.Null()).not_())
        .group_by(cell.copy())
    )
    arguments = map(exp.Literal.string, ("^([^0-9]*)0([.,])", "\\1Z\\2", "g"))
    zero = exp.Anonymous(this="REGEXP_REPLACE", expressions=[exp.column("sf_value"), *arguments])
    # TRANSLATE is far cheaper than a second regular expression, where all cells differ.
    digits = map(exp.Literal.string, ("012345678", "999999999"))
    shape = exp.Anonymous(this="TRANSLATE", expressions=[zero, *digits])
    summed = exp.cast(exp.Sum(this=exp.column("sf_count")), "BIGINT")
    query = (
        exp.select(
            exp.alias_(shape, "sf_shape"),
            exp.alias_(summed, "sf_rows"),
            exp.alias_(exp.cast(exp.Window(this=exp.Sum(this=summed.copy())), "BIGINT"), "sf_all"),
        )
        .from_(values.subquery("sf_values"))
        .group_by("sf_shape")
        .order_by(exp.Ordered(this=exp.column("sf_rows"), desc=True), exp.column("sf_shape"))
        .limit(MOST_SHAPES)
    )
    answer = engine.run(query)
    pairs = zip(answer["sf_shape"].to_pylist(), answer["sf_rows"].to_pylist(), strict=True)
    return list(pairs), answer["sf_all"][0].as_py() if answer.num_rows else 0


def recognise(
    name: str,
    shapes: Shapes,
    present: int,
    fitting: Callable[[Column], int],
    *,
    numbers: bool = True,
) -> Recognised:
    """Recognise the spelling of a text column.

    Parameters
    ----------
    name : str
        The column.
    shapes, present
        The result of `shapes_of`.
    fitting : callable
        Returns the number of cells that a column with a spelling can read.
    numbers : bool
        Whether to look for numbers; false for a name such as zip code, whose digits are none.
    """
    if present == 0:
        return Recognised()
    dates = _date_readings(shapes)
    if sum(reading.rows for reading in dates) >= ENOUGH * present:
        return _recognise_dates(name, dates, present, fitting)
    if not numbers:
        return Recognised()
    readings = _number_readings(shapes)
    best = max((candidate.rows for candidate in readings), default=0)
    if best < ENOUGH * present or best == 0:
        return Recognised()
    best_readings = _different([candidate for candidate in readings if candidate.rows == best])
    columns = [Column(name, reading.kind, spelling=reading.spelling) for reading in best_readings]
    return _decide_column(columns, present, [fitting(column) for column in columns])


def as_text(recognised: Recognised) -> Recognised:
    """The same as a warning only, for a source whose type is text: that type is kept."""
    column = recognised.column
    if column is None or column.kind in (Kind.INTEGER, Kind.TEXT):
        return Recognised(None, recognised.warnings)
    warning = (
        f"taken as the text that its source holds, though every cell is one of {describe(column)}. "
        f"To have it read so, write {lines_of(column)}."
    )
    return Recognised(None, (warning,))


def recognise_reals(name: str, shapes: Shapes, present: int) -> Recognised:
    """The number of decimals of a column of plain reals, where all cells have equally many."""
    warnings = _points_warning(name, shapes, present)
    readings = (reading for reading in _number_readings(shapes) if reading.spelling is None)
    decimals = _common(
        {*next((reading.decimals for reading in readings if reading.rows == present), ())}
    )
    if warnings or decimals is None:
        return Recognised(None, warnings)
    return Recognised(Column(name, Kind.REAL, spelling=NumberSpelling(places=decimals)))


def _points_warning(name: str, shapes: Shapes, present: int) -> tuple[str, ...]:
    """A warning where every cell could also be an integer with a point between thousands."""
    readings = _number_readings(shapes)
    best = max((reading.rows for reading in readings), default=0)
    best_readings = _different([reading for reading in readings if reading.rows == best])
    if best < present or len(best_readings) < 2:
        return ()
    alternative = Column(name, best_readings[1].kind, spelling=best_readings[1].spelling)
    warning = (
        "every cell could also be a whole number with a point between thousands, but 1.591 is read "
        f"as a number between one and two. If they are thousands, write {lines_of(alternative)}."
    )
    return (warning,)


def date_rows(shapes: Shapes) -> int:
    """Return the number of cells with any shape of a date."""
    return sum(reading.rows for reading in _date_readings(shapes))


def number_rows(shapes: Shapes) -> int:
    """Return the number of cells that the best reading as numbers fits."""
    return max((reading.rows for reading in _number_readings(shapes)), default=0)


def _decide_column(columns: Sequence[Column], present: int, fit: Sequence[int]) -> Recognised:
    """Return the only column that reads all cells, else a warning why none is used."""
    fitting_columns = [
        column for column, cells in zip(columns, fit, strict=True) if cells == present
    ]
    if len(fitting_columns) == 1:
        return Recognised(fitting_columns[0])
    if fitting_columns:
        readings_text = " or ".join(
            f"{describe(column)} ({lines_of(column)})" for column in fitting_columns
        )
        warning = (
            f"taken as text, because its cells can be read in two ways: {readings_text}. Write one."
        )
        return Recognised(None, (warning,))
    cells, column = max(zip(fit, columns, strict=True), key=lambda pair: pair[0])
    if cells < ENOUGH * present:
        return Recognised()
    warning = (
        f"taken as text, though {cells:,} of {present:,} cells are {describe(column)}; "
        f"the other {present - cells:,} must be left empty before you write {lines_of(column)}."
    )
    return Recognised(None, (warning,))


def describe(column: Column) -> str:
    """A description of how the cells of a column are written."""
    if column.spelling is not None:
        return column.spelling.describe(column.kind)
    return {Kind.DATE: "dates written 1976-12-24", Kind.INTEGER: "whole numbers"}.get(
        column.kind, "numbers written 1234.5"
    )


def lines_of(column: Column) -> str:
    """Return the schema lines that make a column be read so."""
    written = "" if column.spelling is None else f", {column.spelling.lines}"
    return f'kind = "{column.kind}"{written}'


_DATE = re.compile(
    r"(?:(?P<year>9{4})(?P<sep>\. |[-/. ])(?P<month>9{1,2})(?P=sep)(?P<day>9{1,2})"
    r"|(?P<first>9{1,2})(?P<mark>\. |[-/. ])(?P<second>9{1,2})(?P=mark)(?P<last>9{4}|99))"
    r"(?P<time>(?P<lead>,? |T)9{1,2}:99(?P<seconds>:99(?P<comma>[.,]9{1,9})?)?"
    r"(?P<half> ?[AaPp][Mm])?(?P<zone> ?(?:Z|[+-]99:?99))?)?"
)


@dataclass
class _DateReading:
    """Dates of one order and separator, with all forms of their times."""

    year_first: bool
    separator: str
    two_digits: bool
    rows: int = 0
    unpadded: bool = False
    times: Counter[str] = field(default_factory=Counter)

    def columns(self, name: str) -> list[Column]:
        """Return the columns that may read them: day first and month first, unless the year is."""
        day, month = ("%-d", "%-m") if self.unpadded else ("%d", "%m")
        year = "%y" if self.two_digits else "%Y"
        orders = (
            [(year, month, day)] if self.year_first else [(day, month, year), (month, day, year)]
        )
        time = max(self.times, key=lambda time: (self.times[time], time), default="")
        pivot = _PIVOT if self.two_digits else None
        formats = [self.separator.join(order) + time for order in orders]
        return [
            Column(name, Kind.DATE)
            if written == "%Y-%m-%d"
            else Column(name, Kind.DATE, spelling=DateSpelling(written, pivot))
            for written in formats
        ]


def _date_readings(shapes: Shapes) -> list[_DateReading]:
    """Return the forms of dates in a column, the most frequent first."""
    by_format: dict[tuple[bool, str, bool], _DateReading] = {}
    for shape, rows in shapes:
        match = _DATE.fullmatch(shape)
        if match is None:
            continue
        separator, two_digits = match["sep"] or match["mark"], match["last"] == "99"
        key = (match["year"] is not None, separator, two_digits)
        reading = by_format.setdefault(key, _DateReading(*key))
        reading.rows += rows
        reading.unpadded |= "9" in (match["month"], match["day"], match["first"], match["second"])
        if match["time"]:
            reading.times[_time_format(match)] += rows
    return sorted(by_format.values(), key=lambda date_reading: -date_reading.rows)


def _time_format(match: re.Match[str]) -> str:
    seconds, comma, half, zone = match["seconds"], match["comma"], match["half"], match["zone"]
    return "".join(
        (
            match["lead"],
            "%I:%M" if half else "%H:%M",
            ":%S" if seconds else "",
            f"{comma[0]}%f" if comma else "",
            f"{half[:-2]}%p" if half else "",
            f"{' ' if zone.startswith(' ') else ''}%z" if zone else "",
        )
    )


def _recognise_dates(
    name: str, dates: Sequence[_DateReading], present: int, fitting: Callable[[Column], int]
) -> Recognised:
    columns = dates[0].columns(name)
    fit = [fitting(column) for column in columns]
    decided = _decide_column(columns, present, fit)
    if not dates[0].two_digits or (decided.column is None and decided.warnings == ()):
        return decided
    best_columns = [column for column, cells in zip(columns, fit, strict=True) if cells == max(fit)]
    lines = " or ".join(map(lines_of, best_columns))
    warning = (
        f"taken as text, though {max(fit):,} of {present:,} cells look like dates with years of "
        f"two digits. Say which century they mean and write {lines}, where the pivot is the last "
        "year that is 20xx."
    )
    return Recognised(None, (warning,))


_NUMBER = re.compile(
    rf"-?(?P<before>[^-+9Z.,'\u2019]*)-?(?P<core>[9Z](?:[9Z.,'\u2019{SPACES}]*[9Z])?)"
    r"(?P<behind>[^9Z]*)"
)
_CODES = "EUR USD GBP CHF SEK NOK DKK PLN CZK HUF JPY CAD AUD kr zł Kč Ft Fr. Fr SFr. Euro R$"
_CURRENCIES = frozenset(_CODES.split(" "))


@dataclass(frozen=True)
class _NumberReading:
    """One way to read the numbers of a column, with the number of cells that fit."""

    kind: Kind
    spelling: Spelling | None
    rows: int
    decimals: tuple[int | None, ...]
    """The number of decimals of each shape; None where it does not fit."""


def _number_readings(shapes: Shapes) -> list[_NumberReading]:
    """Return all ways to read the numbers of a column, those with the fewest keys first."""
    matches = [(_NUMBER.fullmatch(shape), rows) for shape, rows in shapes]
    around: Counter[tuple[str, str]] = Counter()
    for match, cells in matches:
        if match is not None and _is_unit(match["before"], match["behind"]):
            around[match["before"], match["behind"]] += cells
    if not around:
        return []
    ((unit, _),) = around.most_common(1)
    signs = {sign for match, _ in matches if match for sign in match["core"]}
    points = [sign for sign in ".," if sign in signs] or ["."]
    between = [sign for sign in (".", ",", "'", "\u2019", *SPACES) if sign in signs]
    cores = [match["core"] if match and _has_unit(match, unit) else None for match, _ in matches]
    rows = [rows for _, rows in matches]
    readings = [
        _number_reading(cores, rows, unit, point, thousands)
        for point, thousands in product(points, [None, *between])
        if point != thousands
    ]
    # A column of integers with a point between thousands has no decimal sign.
    readings += [_number_reading(cores, rows, unit, None, thousands) for thousands in between]
    return sorted(
        readings, key=lambda reading: 0 if reading.spelling is None else len(reading.spelling.keys)
    )


def _number_reading(
    cores: Sequence[str | None],
    rows: Sequence[int],
    unit: tuple[str, str],
    point: str | None,
    thousands: str | None,
) -> _NumberReading:
    between = "" if thousands is None else f"|9{{1,3}}(?:{re.escape(thousands)}999)+"
    decimals = "" if point is None else f"(?:{re.escape(point)}(?P<decimals>9+))?"
    core = re.compile(f"(?:[9Z]|9+{between}){decimals}")
    decimal_counts: list[int | None] = []
    for text in cores:
        match = None if text is None else core.fullmatch(text)
        decimal_counts.append(
            None if match is None else len(match.groupdict().get("decimals") or "")
        )
    held = {decimal_count for decimal_count in decimal_counts if decimal_count is not None}
    fit = sum(
        row
        for row, decimal_count in zip(rows, decimal_counts, strict=True)
        if decimal_count is not None
    )
    kind = Kind.REAL if held - {0} else Kind.INTEGER
    sign = None if unit == ("", "") else f"{unit[0]}#{unit[1]}"
    percent = sign is not None and "%" in sign
    keys = {
        "decimal": point if kind is Kind.REAL and point == "," else None,
        "thousands": thousands,
        "percent": sign if percent else None,
        "currency": None if percent else sign,
    }
    spelling = None
    if any(keys.values()):
        spelling = NumberSpelling(**keys, places=_common(held))
    return _NumberReading(kind, spelling, fit, tuple(decimal_counts))


def _common(decimals: Collection[int | None]) -> int | None:
    """Return the number of decimals that all cells share, from 1 to `MOST_PLACES`; else None."""
    most = next(iter(decimals)) if len(decimals) == 1 else None
    return most if most and most <= MOST_PLACES else None


def _has_unit(match: re.Match[str], unit: tuple[str, str]) -> bool:
    return (match["before"].strip(SPACES), match["behind"].strip(SPACES)) == tuple(
        sign.strip(SPACES) for sign in unit
    )


def _is_unit(before: str, behind: str) -> bool:
    """Return whether the text around a number is empty, a percent sign or a currency."""
    signs = [sign for text in (before, behind) if (sign := text.strip(SPACES))]
    if not signs:
        return before == behind == ""
    (sign, *other_signs) = signs
    is_currency = len(sign) == 1 and unicodedata.category(sign) == "Sc"
    return not other_signs and (sign == "%" or sign in _CURRENCIES or is_currency)


def _different(readings: Iterable[_NumberReading]) -> list[_NumberReading]:
    """One reading, with the fewest keys, of those that give all cells the same values."""
    by_decimals: dict[tuple[int | None, ...], _NumberReading] = {}
    for reading in readings:
        by_decimals.setdefault(reading.decimals, reading)
    return list(by_decimals.values())


_YEAR, _MONTH = "(19|20)[0-9]{2}", "(0?[1-9]|1[0-2])"
_MONTHS = f"^({_MONTH}[./-]{_YEAR}|{_YEAR}[./-](0[1-9]|1[0-2]))$"
_OF_MONTH = "(0?[1-9]|[12][0-9]|3[01])"
_DAY = (
    f"^\\s*([0-9]{{4}}[-/. ]+{_MONTH}[-/. ]+{_OF_MONTH}|{_OF_MONTH}[-/. ]+{_MONTH}[-/. ]+[0-9]{{2}}"
    f"|{_MONTH}[-/. ]+{_OF_MONTH}[-/. ]+[0-9]{{2}})"
)
_DAYS = f"^{_YEAR}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])$"
DAY_DIGITS = 8
"""The number of digits of a date such as 19761224."""

_PADDED = "^[^0-9]*0[0-9]"

# A float64 holds 15 significant digits exactly; 16 or more may change.
_LONG = "[1-9]([., '\u2019]?[0-9]){15}"


def text_instead(engine: Engine, table: exp.Table, column: Column) -> Recognised | None:
    """A text column with a warning, where reading cells as reals would lose something."""
    name = column.name
    present = _matching(engine, table, name, "")
    if present and _matching(engine, table, name, _MONTHS) == present:
        reason = "every cell looks like a month and a year, such as 06.1990, and no number"
    elif padded := _matching(engine, table, name, _PADDED):
        reason = (
            f"{count(padded, 'cell begins', 'cells begin')} with a zero before other digits, which "
            "a number would lose: they may be codes or months"
        )
    elif any(_changes(text, column) for text in _texts(engine, table, name, _LONG)):
        reason = "some cells have more digits than a number can hold without changing them"
    else:
        return None
    warning = f"taken as text, because {reason}. If they are numbers, write {lines_of(column)}."
    return Recognised(Column(name, Kind.TEXT), (warning,))


def merged_warning(engine: Engine, table: exp.Table, column: Column) -> tuple[str, ...]:
    """A warning where reals differ only in their text: 1.10 and 1.1 may be versions."""
    # Only texts that end in a zero or begin with a plus can be the same number as another.
    odd = list(_texts(engine, table, column.name, "[.,][0-9]*0([^0-9]|$)|^[+.,]|[.,]$|[eE]|^-0"))
    if not odd:
        return ()
    texts = list(_texts(engine, table, column.name, ""))
    merged = len(texts) - len({_number(text, column) for text in texts})
    if not merged:
        return ()
    warning = (
        f"{count(merged, 'text becomes', 'texts become')} the same number as another, as 1.10 and "
        '1.1 do. If they are versions or codes, write kind = "text".'
    )
    return (warning,)


def read_as_days(engine: Engine, table: exp.Table, name: str) -> Recognised:
    """A text column with a warning, where all cells are eight digits of a date."""
    day = Column(name, Kind.DATE, spelling=DateSpelling("%Y%m%d"))
    texts = list(_texts(engine, table, name, ""))
    days = len(list(_texts(engine, table, name, _DAYS)))
    assert day.spelling is not None
    if not texts or days < len(texts) or not all(day.spelling.read(t, day.kind) for t in texts):
        return Recognised()
    number = Column(name, Kind.INTEGER)
    warning = (
        f"taken as text, because its cells can be read in two ways: {describe(day)} "
        f"({lines_of(day)}) or {describe(number)} ({lines_of(number)}). Write one."
    )
    return Recognised(Column(name, Kind.TEXT), (warning,))


def likeness_warning(
    engine: Engine, table: exp.Table, name: str, shapes: Shapes, present: int, *, numbers: bool
) -> tuple[str, ...]:
    """A warning where text looks like dates or numbers in a form that no spelling reads."""
    bare = [(shape.strip(SPACES).replace("\u2212", "-"), rows) for shape, rows in shapes]
    days = date_rows(bare) + _rows(bare, _DAY_AND_MORE) >= ENOUGH * present
    looks = {
        "dates with the name of a month": _rows(bare, _NAMED_DAY),
        "dates": _matching(engine, table, name, _DAY) if days else 0,
        "months": _matching(engine, table, name, _MONTHS) if _rows(bare, _MONTH_LIKE) else 0,
    }
    good = "1976-12-24"
    if max(looks.values()) < ENOUGH * present and numbers:
        good = "1234.5"
        odd = _rows(bare, _ODD_NUMBER)
        # Plain numbers that were not recognised are codes such as 012 345.
        looks = {"numbers": odd + number_rows(bare) if odd or bare != [*shapes] else 0}
        looks["numbers with a unit"] = _with_unit(bare)
    likeness = max(looks, key=lambda candidate: looks[candidate])
    if not 0 < present * ENOUGH <= looks[likeness]:
        return ()
    warning = (
        f"taken as text, though {min(looks[likeness], present):,} of {present:,} cells look like "
        f"{likeness}, in a way that nothing here reads. Have them written as {good} in the source, "
        "all "
        "in one way and without spaces around, to have them read."
    )
    return (warning,)


_NAMES = (
    "jan(uary|uar)? feb(ruary|ruar)? mar(ch)? mär(z)? mrz maerz apr(il)? may mai june? juni july? "
    "juli aug(ust)? sept?(ember)? o[ck]t(ober)? nov(ember)? de[cz](ember)? jän(ner|uar)?"
)
_NAME = f"({'|'.join(_NAMES.split())})\\.?"
_BETWEEN = r"[-/., ]{0,2}"
_NAMED_DAY = re.compile(
    rf"(\w+,? )?(9{{1,2}}{_BETWEEN})?{_NAME}{_BETWEEN}(9{{1,2}}(st|nd|rd|th)?{_BETWEEN})?"
    rf"9{{2,4}}([ T,].*)?|9{{4}}{_BETWEEN}{_NAME}{_BETWEEN}9{{1,2}}",
    re.IGNORECASE,
)
_DAY_AND_MORE = re.compile(
    r"(9{4}([-/.])9{1,2}\2 ?9{1,2}|9{1,2}([-/.]) ?9{1,2}\3 ?9{4})[T ]+9{1,2}:99.* [A-Za-z/]{2,}"
)
_MONTH_LIKE = re.compile(r"9{1,2}[./-]9{4}|9{4}[./-]9{2}")
_ODD_NUMBER = re.compile(
    r"[-+]? ?[.,]9+|[-+]?[9Z][9.,]*,-+|[<>\u2264\u2265~] ?[9Z][9.,]*|[9Z][9.,]*-"
    r"|\([^\w]*[9Z][9.,]*\)"
)
_UNIT = re.compile(r"[-+]?[9Z][9.,]*(?P<unit>\s?[^\W\d_][^\d]{0,11})")


def _rows(shapes: Shapes, pattern: re.Pattern[str]) -> int:
    return sum(rows for shape, rows in shapes if pattern.fullmatch(shape))


def _with_unit(shapes: Shapes) -> int:
    """The number of cells with the most frequent unit after a number, as in 5 kg or 1.5kg."""
    rows: dict[str, int] = {}
    for shape, cells in shapes:
        match = _UNIT.fullmatch(shape)
        if match and (match["unit"].startswith(" ") or "." in shape or "," in shape):
            rows[match["unit"]] = rows.get(match["unit"], 0) + cells
    return max(rows.values(), default=0)


def _number(text: str, column: Column) -> Decimal | None:
    if column.spelling is None:
        return Decimal(text)
    read = column.spelling.read(text, column.kind)
    return None if read is None else Decimal(read)  # type: ignore[arg-type]  # numbers alone


def _changes(text: str, column: Column) -> bool:
    """Return whether a number changes as a float64 and is not the text of a float64."""
    number = _number(text, column)
    if number is None or not number.is_finite():
        return False
    # Programs write a float64 as its shortest decimal or with 17 digits: neither is a loss.
    near = float(number)
    return number not in (Decimal(repr(near)), Decimal(format(near, ".17g")))


def _cells(table: exp.Table, name: str, pattern: str) -> exp.Select:
    cell = exp.column(name, quoted=True)
    chosen = exp.select(exp.alias_(cell, "sf_value")).from_(table.copy())
    chosen = chosen.where(cell.copy().is_(exp.Null()).not_())
    if pattern:
        literal = exp.Literal.string(pattern)
        matches = exp.Anonymous(this="REGEXP_MATCHES", expressions=[cell.copy(), literal])
        chosen = chosen.where(matches)
    return chosen


def _texts(engine: Engine, table: exp.Table, name: str, pattern: str) -> Iterable[str]:
    """Return the distinct texts that match a pattern."""
    texts: Iterable[str] = engine.run(_cells(table, name, pattern).distinct())[0].to_pylist()
    return texts


def _matching(engine: Engine, table: exp.Table, name: str, pattern: str) -> int:
    """Return the number of cells that match a pattern."""
    number = exp.alias_(exp.Count(this=exp.Star()), "sf_rows")
    inner = _cells(table, name, pattern).subquery("sf_cells")
    rows: int = engine.run(exp.select(number).from_(inner))[0][0].as_py()
    return rows
