"""Warn of text that looks like dates or numbers but stays text: reading would lose something.

06.1990 is a month and not the number 6.199; twenty digits do not fit a float64; no format reads
8 Oct 1956. Warnings quote no cell. Decision `written-forms`.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.data.inspection.spellings import (
    ENOUGH,
    SPACES,
    Recognised,
    date_rows,
    describe,
    lines_of,
    number_rows,
)
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.names import count
from sfumato.data.schema.spelling import DateSpelling

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.data.engines.base import Engine
    from sfumato.data.inspection.spellings import Shapes

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
    """Whether a number changes as a float64 and is not the text of a float64."""
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
    """The distinct texts that match a pattern."""
    texts: Iterable[str] = engine.run(_cells(table, name, pattern).distinct())[0].to_pylist()
    return texts


def _matching(engine: Engine, table: exp.Table, name: str, pattern: str) -> int:
    """The number of cells that match a pattern."""
    number = exp.alias_(exp.Count(this=exp.Star()), "sf_rows")
    inner = _cells(table, name, pattern).subquery("sf_cells")
    rows: int = engine.run(exp.select(number).from_(inner))[0][0].as_py()
    return rows
