"""Spellings of dates and numbers in text files: 24.12.1976, 1.591,09 €, 9,2 %.

A spelling is used to read cells and to write them again; methods see plain dates and numbers. Only
the declared spelling is read, and nothing is guessed. Decision `reading-files`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sfumato.data.schema.column import Kind
from sfumato.data.schema.names import quoted
from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.data.schema.domain import Scalar

# For each directive of a format its meaning and the regular expression of its digits.
_PIECES = {
    "%d": ("day", "0?[1-9]|[12][0-9]|3[01]"),
    "%-d": ("day", "0?[1-9]|[12][0-9]|3[01]"),
    "%m": ("month", "0?[1-9]|1[0-2]"),
    "%-m": ("month", "0?[1-9]|1[0-2]"),
    "%Y": ("year", "[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9]"),
    "%y": ("year", "[0-9]{2}"),
    "%H": ("hour", "[01]?[0-9]|2[0-3]"),
    "%I": ("hour", "0?[1-9]|1[0-2]"),
    "%M": ("minute", "[0-5][0-9]"),
    "%S": ("second", "[0-5][0-9]|60"),
    "%f": ("fraction", "[0-9]{1,9}"),
    "%p": ("half", "[AaPp][Mm]"),
    "%z": ("zone", "Z|[+-][0-9]{2}:?[0-5][0-9]"),
}
_DAY_PARTS = ("day", "month", "year")

# Patterns for formats without separators such as %Y%m%d: every number has all its digits.
_EXACT_WIDTH = {"day": "[0-9]{2}", "month": "[0-9]{2}"}

_TOKEN = re.compile(r"%-?.|[^%]+|%$")
_EXAMPLE_DAY = date(1976, 12, 24)
_EXAMPLE_TIME = {
    "%H": "18", "%I": "06", "%M": "05", "%S": "00", "%f": "000", "%p": "PM", "%z": "+01:00",
}  # fmt: skip


class _Declared:
    """The keys of a spelling in a schema file: the fields that differ from their default."""

    @property
    def keys(self) -> dict[str, Any]:
        """The keys and values for a schema file."""
        return _changed_fields(self)

    @property
    def lines(self) -> str:
        """The same as TOML on one line."""
        return _lines(self.keys)


@dataclass(frozen=True)
class DateSpelling(_Declared):
    """A date format such as %d.%m.%Y; a time of day after the date is ignored.

    The day is the written one, whatever the time zone. The time may be missing and is never written
    back. Years of two digits up to the `pivot` are 20xx, those above it 19xx. `%d` and `%m` read 1
    as well as 01 and write 01; `%-d` and `%-m` write 1.
    """

    format: str
    pivot: int | None = None

    def __post_init__(self) -> None:
        tokens = _TOKEN.findall(self.format)
        pieces = [token for token in tokens if token.startswith("%")]
        for token in pieces:
            if token not in _PIECES:
                raise self._wrong(f"{quoted(token)} in it is none of {' '.join(_PIECES)}")
        if re.search("[0-9]", self.format) or not _shown(self.format):
            raise self._wrong("between the directives there can be no digits and no line ends")
        ordered = [_PIECES[token][0] for token in pieces]
        if sorted(ordered[:3]) != sorted(_DAY_PARTS) or len(set(ordered)) < len(ordered):
            raise self._wrong("it must begin with a day, a month and a year, each named once")
        if self._joined and {"%-d", "%-m"} & set(pieces):
            raise self._wrong("numbers side by side need all their digits: write %d and %m")
        self._check_pivot(two_digits="%y" in pieces)

    def _check_pivot(self, *, two_digits: bool) -> None:
        if two_digits and self.pivot is None:
            raise SchemaError(
                "spelling_invalid",
                f"Format {quoted(self.format)} has years of two digits, which mean nothing "
                "without a pivot: with pivot = 30 the years 00 to 30 are 2000 to 2030 and 31 to "
                "99 are 1931 to 1999.",
                hint="Add pivot = ... below it.",
                parameter="format",
            )
        if self.pivot is not None and not (two_digits and 0 <= self.pivot <= 99):
            raise SchemaError(
                "spelling_invalid",
                f"The pivot {self.pivot} is not allowed: it is a year from 0 to 99 and goes with "
                "%y in the format.",
                hint="Correct or remove it.",
                parameter="format",
            )

    def _wrong(self, why: str) -> SchemaError:
        return SchemaError(
            "spelling_invalid",
            f"Format {quoted(self.format)} cannot be used: {why}. Write for example "
            'format = "%d.%m.%Y", or "%Y-%m-%d %H:%M" with a time of day.',
            parameter="format",
        )

    @cached_property
    def _day_and_time(self) -> tuple[list[str], list[str]]:
        """The tokens of the day, and those of the time after it including the sign between them."""
        tokens = _TOKEN.findall(self.format)
        directives = [position for position, token in enumerate(tokens) if token.startswith("%")]
        end = directives[2] + 1 if len(directives) > 3 else len(tokens)
        return tokens[:end], tokens[end:]

    @cached_property
    def _joined(self) -> bool:
        return re.search("%-?[dmYy]%", self.format) is not None

    @property
    def timed(self) -> bool:
        """Whether a time of day may follow the day."""
        return bool(self._day_and_time[1])

    @property
    def kinds(self) -> frozenset[Kind]:
        """Formats are for dates."""
        return frozenset({Kind.DATE})

    def pattern(self, kind: Kind) -> str:  # noqa: ARG002  # numbers have two kinds
        """Return the regular expression of a cell, with a group for each part of the day."""
        day, time = ("".join(map(self._piece, tokens)) for tokens in self._day_and_time)
        return day + (f"(?:{time})?" if time else "")

    def _piece(self, token: str) -> str:
        if not token.startswith("%"):
            return re.escape(token)
        name, digits = _PIECES[token]
        digits = _EXACT_WIDTH.get(name, digits) if self._joined else digits
        return f"(?P<{name}>{digits})" if name in _DAY_PARTS else f"(?:{digits})"

    def read(self, text: str, kind: Kind) -> date | None:
        """The day of a text; None where the text has another form or the day does not exist."""
        match = re.fullmatch(self.pattern(kind), text)
        if match is None:
            return None
        year = int(match["year"])
        if self.pivot is not None:
            year += 2000 if year <= self.pivot else 1900
        try:
            return date(year, int(match["month"]), int(match["day"]))
        except ValueError:
            return None

    def write(self, value: Scalar) -> str:
        """Write a day, without a time of day, which is not kept."""
        assert isinstance(value, date)
        written = {
            "%d": f"{value.day:02}",
            "%-d": str(value.day),
            "%m": f"{value.month:02}",
            "%-m": str(value.month),
            "%Y": f"{value.year:04}",
            "%y": f"{value.year % 100:02}",
        }
        return "".join(written.get(token, token) for token in self._day_and_time[0])

    def describe(self, kind: Kind) -> str:  # noqa: ARG002  # numbers have two kinds
        """A description of the cells with an example day."""
        day, time = self.write(_EXAMPLE_DAY), self._day_and_time[1]
        hour = "".join(_EXAMPLE_TIME.get(token, token) for token in time)
        return f"dates written {day}{hour}" + (", of which the day is kept" if time else "")


_SPACES = " \u00a0\u2009\u202f"
_SPACE = f"[{_SPACES}]?"
_THOUSANDS = (".", ",", "'", "\u2019", *_SPACES)
_NUMBER = "#"
_PERCENT = "#%"
# The decimals that a declared value can have (`domain._DECIMALS`).
MOST_PLACES = 12


@dataclass(frozen=True)
class NumberSpelling(_Declared):
    """A number format: decimal sign, thousands separator, percent sign or currency.

    `percent` and `currency` show where their sign stands, as in "# %" or "$#". The sign does not
    change the value: 9,2 % is 9.2. A number may have all of its thousands separators or none.
    `places` is the smallest number of decimals that is written; further decimals are never cut.
    """

    decimal: str | None = None
    thousands: str | None = None
    percent: str | None = None
    currency: str | None = None
    places: int | None = None

    def __post_init__(self) -> None:
        if self.point not in (".", ","):
            raise SchemaError(
                "spelling_invalid",
                f'The decimal sign {quoted(self.point)} is not allowed. Write decimal = "," '
                'or decimal = ".".',
                parameter="decimal",
            )
        if self.thousands is not None and self.thousands not in _THOUSANDS:
            raise SchemaError(
                "spelling_invalid",
                f"The sign {quoted(self.thousands)} between thousands is not allowed. Write one "
                'of thousands = ".", ",", "\'" or " ".',
                parameter="thousands",
            )
        if self.thousands == self.point:
            raise SchemaError(
                "spelling_invalid",
                f"The sign {quoted(self.point)} cannot stand both between thousands and before "
                "decimals.",
                hint="Change decimal or thousands.",
                parameter="thousands",
            )
        if self.percent is not None and self.currency is not None:
            raise SchemaError(
                "spelling_invalid",
                "A number has a percent sign or a currency, not both. Keep one.",
                parameter="currency",
            )
        if self.percent is not None and not (_stands(self.percent) and "%" in self.percent):
            raise SchemaError(
                "spelling_invalid",
                f"{quoted(self.percent)} shows no place of a percent sign, where '#' is the "
                'number. Write percent = true for 9.2%, or percent = "# %" for 9.2 %.',
                parameter="percent",
            )
        if self.currency is not None and not _stands(self.currency):
            raise SchemaError(
                "spelling_invalid",
                f"{quoted(self.currency)} shows no place of a currency, where '#' is the number. "
                'Write currency = "€" for 5 €, or currency = "$#" for $5.',
                parameter="currency",
            )
        if self.places is not None and not 0 <= self.places <= MOST_PLACES:
            raise SchemaError(
                "spelling_invalid",
                f"{self.places} places are not allowed; write a whole number from 0 to "
                f"{MOST_PLACES}.",
                parameter="places",
            )

    @property
    def kinds(self) -> frozenset[Kind]:
        """Integers and reals; only reals where decimals are declared."""
        is_for_both = self.decimal is None and self.places is None
        return frozenset({Kind.INTEGER, Kind.REAL} if is_for_both else {Kind.REAL})

    @property
    def point(self) -> str:
        """The decimal sign; where it is not declared, the one that does not separate thousands."""
        return self.decimal or ("," if self.thousands == "." else ".")

    @cached_property
    def around(self) -> tuple[str, str]:
        """The text before a number and the text after it."""
        before, _, behind = (self.percent or self.currency or _NUMBER).partition(_NUMBER)
        return before, behind

    def pattern(self, kind: Kind) -> str:
        """Return the regular expression of a cell, with groups for sign, digits and decimals."""
        before, behind = (re.escape(sign.strip(_SPACES)) for sign in self.around)
        before, behind = before and f"{before}{_SPACE}", behind and f"{_SPACE}{behind}"
        sign = (
            f"(?:(?P<sign>[+-]?){before}|{before}(?P<inner>[+-]))" if before else "(?P<sign>[+-]?)"
        )
        digits = "[0-9]+"
        if self.thousands is not None:
            between = f"[{_SPACES}]" if self.thousands in _SPACES else re.escape(self.thousands)
            digits = f"[1-9][0-9]{{0,2}}(?:{between}[0-9]{{3}})+|[0-9]+"
        decimals, special = "", ""
        if kind is Kind.REAL:
            decimals = f"(?P<decimals>{re.escape(self.point)}[0-9]+)?"
            special = "|(?P<special>nan|NaN|-?inf)"
        return f"(?:{sign}(?P<whole>{digits}){decimals}{behind}{special})"

    def read(self, text: str, kind: Kind) -> int | Decimal | None:
        """Return the number of a text; None where the text has another form."""
        match = re.fullmatch(self.pattern(kind), text)
        if match is None:
            return None
        groups = {name: group or "" for name, group in match.groupdict().items()}
        digits = groups["sign"] + groups.get("inner", "") + re.sub("[^0-9]", "", groups["whole"])
        if kind is Kind.INTEGER:
            return int(digits)
        decimals = groups["decimals"].replace(self.point, ".")
        return Decimal(groups["special"] or digits + decimals)

    def write(self, value: Scalar) -> str:
        """Write a number with as many decimals as it needs and at least `places`."""
        assert isinstance(value, int | Decimal)
        if isinstance(value, Decimal) and not value.is_finite():
            return str(value).lower().replace("infinity", "inf")
        integer_part, _, decimals = format(
            value, ",f" if isinstance(value, Decimal) else ","
        ).partition(".")
        decimals = decimals.rstrip("0").ljust(self.places or 0, "0")
        sign, integer_part = (
            ("-", integer_part[1:]) if integer_part.startswith("-") else ("", integer_part)
        )
        integer_part = integer_part.replace(",", self.thousands or "")
        number = f"{integer_part}{self.point}{decimals}" if decimals else integer_part
        before, behind = self.around
        return f"{sign}{before}{number}{behind}"

    def describe(self, kind: Kind) -> str:
        """A description of the cells with an example number."""
        example = Decimal(1234) if kind is Kind.INTEGER else Decimal("1234.5")
        comma = self.point == "," and kind is Kind.REAL
        return f"numbers written {self.write(example)}" + (", a decimal comma" if comma else "")


Spelling = DateSpelling | NumberSpelling

_NUMBER_KEYS = tuple(option.name for option in fields(NumberSpelling))
_DATE_KEYS = tuple(option.name for option in fields(DateSpelling))
SPELLING_KEYS: dict[str, type] = {
    "format": str,
    "pivot": int,
    "decimal": str,
    "thousands": str,
    "percent": str,
    "currency": str,
    "places": int,
}
"""The keys of a column that declare its spelling, and the types of their values."""


def spelling_of(kind: Kind, keys: Mapping[str, Any]) -> Spelling | None:
    """Return the spelling that the keys of a column declare; None without keys."""
    if not keys:
        return None
    known = {Kind.DATE: _DATE_KEYS, Kind.INTEGER: _NUMBER_KEYS, Kind.REAL: _NUMBER_KEYS}
    stray = [key for key in keys if key not in known.get(kind, ())]
    if stray:
        raise SchemaError(
            "spelling_invalid",
            f"A column of kind {kind} cannot have {stray[0]!r}: dates have format, pivot, numbers "
            "have decimal, thousands, percent, currency and places.",
            hint="Change its kind or remove it.",
        )
    if kind is Kind.DATE:
        return DateSpelling(**{"format": "%Y-%m-%d", **keys})
    signs = {key: _with_number(key, sign) for key, sign in keys.items()}
    return NumberSpelling(**signs)


def _with_number(key: str, sign: Any) -> Any:
    """Complete a sign without a position by the most usual one: 9.2% and 5 €."""
    if key == "percent" and sign is True:
        return _PERCENT
    if key == "currency" and _NUMBER not in sign:
        return f"{_NUMBER} {sign}"
    return sign


def _lines(keys: Mapping[str, Any]) -> str:
    written = {
        key: json.dumps(value, ensure_ascii=False, allow_nan=False) for key, value in keys.items()
    }
    return ", ".join(f"{key} = {value}" for key, value in written.items())


def _stands(sign: str) -> bool:
    """Return whether a sign is before or after the number and cannot be read as part of it."""
    bare = sign.replace(_NUMBER, "").strip(_SPACES)
    one_side = sign.startswith(_NUMBER) or sign.endswith(_NUMBER)
    clear = bool(bare) and not re.search(r"[-+0-9']", bare) and _shown(sign)
    return sign.count(_NUMBER) == 1 and one_side and clear


def _shown(text: str) -> bool:
    """Return whether a text is printable; spaces of any width are."""
    return text.translate(dict.fromkeys(map(ord, _SPACES))).isprintable()


def _changed_fields(spelling: Any) -> dict[str, Any]:
    """Return the keys whose values differ from their default."""
    values = ((option, getattr(spelling, option.name)) for option in fields(spelling))
    declared = {option.name: value for option, value in values if value != option.default}
    if declared.get("percent") == _PERCENT:
        declared["percent"] = True
    if "currency" in declared:
        declared["currency"] = declared["currency"].removeprefix(f"{_NUMBER} ")
    return declared
