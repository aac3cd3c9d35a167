"""Guess kinds, roles and hierarchies of columns from names and profiles, each with a reason.

A guess declares no domain: bounds and values would come from private rows, and a declared domain
counts as public, so a person must write it. The words of names are in hints.toml.

Bounds, values, missing cells and the privacy unit are proposed apart (`observed_schema`), for the
owner only: they are written as comments or asked one by one, and declare nothing until a person
confirms them. Bounds are round and a bit wider than the data, so that they reveal no cell.
Decision `schemas`.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from dataclasses import dataclass, replace
from datetime import date
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sfumato.data.inspection.profile import MOST_TOP
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.hierarchy import ROOT, Calendar, Mask, Removal, Tree, Widths
from sfumato.data.schema.names import count
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.unit import Entity, Rows
from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.data.inspection.profile import ColumnProfile
    from sfumato.data.schema.domain import Domain
    from sfumato.data.schema.hierarchy import Hierarchy
    from sfumato.data.schema.unit import Unit


# A hint of at least so many letters also matches as the beginning of a word.
_LONG = 6

_POSTAL = "a postal code"
_NUMBERING = frozenset({"id", "key", "uuid", "guid", "nr", "nbr", "no", "number", "nummer"})


@dataclass(frozen=True)
class Hint:
    """A meaning that the name of a column can have, and the role that follows."""

    meaning: str
    role: Role
    name_words: frozenset[str]

    def fits(self, token: str) -> bool:
        """Return whether a word of a column name has this meaning."""
        if token in self.name_words:
            return True
        return any(token.startswith(prefix) for prefix in self.name_words if len(prefix) >= _LONG)


def hint(name: str) -> Hint | None:
    """Return the meaning of a column name, if it is known."""
    tokens = _tokens(name)
    return next((candidate for candidate in _hints() if any(map(candidate.fits, tokens))), None)


def holds_no_quantity(name: str) -> bool:
    """Return whether digits under this name are not a quantity, as in an identifier or zip code."""
    named = hint(name)
    return named is not None and (named.role is Role.IDENTIFIER or named.meaning == _POSTAL)


def numbers_something(name: str) -> bool:
    """Return whether a name is of a number that distinguishes things, such as id or nr."""
    return not _NUMBERING.isdisjoint(_tokens(name))


def names_a_person(name: str) -> bool:
    """Return whether a name ends in a word for a person: visit_patient, not patient_age."""
    return not _people().isdisjoint(_split_words(name)[-1:])


@cache
def _hints() -> tuple[Hint, ...]:
    return tuple(
        Hint(entry["meaning"], Role(entry["role"]), frozenset(entry["words"].split()))
        for entry in _document()["hint"]
    )


@cache
def _people() -> frozenset[str]:
    return frozenset(_document()["people"].split())


def _document() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("hints.toml").read_text(encoding="utf-8"))


def _tokens(name: str) -> list[str]:
    """Return the words of a name and pairs of neighbours: zip_code gives zip, code and zipcode."""
    name_words = _split_words(name)
    return [*name_words, *(first + second for first, second in pairwise(name_words))]


def _split_words(name: str) -> list[str]:
    for sign, spelled in (("ß", "ss"), ("ä", "ae"), ("ö", "oe"), ("ü", "ue")):
        name = name.replace(sign, spelled)
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", plain)
    return re.findall(r"[a-z0-9]+", spaced.lower())


# The order in which text is tried as another kind, from narrow to wide.
_READ_FIRST = (Kind.BOOLEAN, Kind.INTEGER, Kind.REAL, Kind.DATE)
# Lengths of postal codes.
_POSTAL_LENGTHS = range(4, 13)
# Characters from which a text that mostly differs counts as free text, which can name people.
_FREE_TEXT = 80
# Up to so many distinct values a column groups people rather than naming them.
_FEW_VALUES = 50

_PATTERNS = {
    "an e-mail address": re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+"),
    "a social security number": re.compile(r"\d{3}-\d{2}-\d{4}"),
    "a telephone number": re.compile(r"(\+|00|\()[\d ()/.-]{7,20}"),
}


@dataclass(frozen=True)
class Guess:
    """A proposed column, and why."""

    column: Column
    reason: str
    warnings: tuple[str, ...] = ()
    """Sentences for the owner on how the cells were read."""


def kind_of(profile: ColumnProfile) -> Kind:
    """Return the kind to read a column as; for text the narrowest that loses nothing."""
    # Digits such as a ZIP code stay text: as numbers they would lose leading zeros.
    if profile.kind is not Kind.TEXT or profile.present == 0 or _is_code(profile):
        return profile.kind
    return next((kind for kind in _READ_FIRST if kind in profile.fits), Kind.TEXT)


def guess(profile: ColumnProfile) -> Guess:
    """Propose kind, role, spelling and, for a quasi-identifier, a hierarchy."""
    kind = kind_of(profile)
    role, reason = _role(profile, kind)
    if profile.spelling is not None:
        reason += f"; {profile.spelling.describe(kind)}"
    hierarchy = propose(profile, kind) if role is Role.QUASI else None
    if isinstance(hierarchy, Removal):
        reason += "; kept or removed whole, until you write a better hierarchy" + _better(profile)
    elif isinstance(hierarchy, Mask) and profile.fixed_length is None:
        reason += "; for want of a better hierarchy, coarser letter by letter"
    column = Column(profile.name, kind, role, hierarchy=hierarchy, spelling=profile.spelling)
    return Guess(column, reason, profile.warnings)


def _better(profile: ColumnProfile) -> str:
    """Return the hierarchy that is possible once the column is read as its warnings say."""
    lines = " ".join(profile.warnings)
    if f'kind = "{Kind.DATE}"' in lines:
        return ', once they are dates: hierarchy = { dates = "all" }'
    return ""


def _is_code(profile: ColumnProfile) -> bool:
    """Return whether digits are a code and no quantity, such as 01002 or the zip code 53715."""
    if Kind.INTEGER not in profile.fits or profile.spelling is not None:
        return False
    named = hint(profile.name)
    postal = named is not None and named.meaning == _POSTAL
    return profile.padded or (postal and profile.fixed_length in _POSTAL_LENGTHS)


def _role(profile: ColumnProfile, kind: Kind) -> tuple[Role, str]:
    """The role by the first rule that applies: identifying contents, the name, the counts."""
    figures = f"{count(profile.distinct, 'value')} in {count(profile.rows, 'row')}"
    if profile.present == 0:
        return Role.OTHER, "every cell is missing"
    if shape := _shape(profile):
        return Role.IDENTIFIER, f"values look like {shape}; {figures}"
    if named := hint(profile.name):
        return named.role, f"named like {named.meaning}; {figures}"
    return _role_by_counts(profile, kind, figures)


def _role_by_counts(profile: ColumnProfile, kind: Kind, figures: str) -> tuple[Role, str]:
    share = profile.distinct / profile.present
    if profile.distinct == 1:
        return Role.OTHER, "every value is the same"
    if kind in (Kind.TEXT, Kind.INTEGER):
        if profile.all_distinct:
            return Role.IDENTIFIER, f"every value is different; {figures}"
        if (profile.longest or 0) >= _FREE_TEXT and share > 0.5:
            return Role.IDENTIFIER, f"long free text, which can name people; {figures}"
        if numbers_something(profile.name) and share > 0.05:
            return Role.IDENTIFIER, f"named like a number that tells people apart; {figures}"
        if names_a_person(profile.name) and profile.distinct > _FEW_VALUES:
            return Role.IDENTIFIER, f"named like the person whose row it is; {figures}"
        if share > 0.5:
            return Role.QUASI, f"most values are different; {figures}"
    if kind is Kind.DATE:
        return Role.QUASI, f"dates narrow down who a person is; {figures}"
    if kind is not Kind.REAL and profile.distinct <= _FEW_VALUES:
        mean_rows = profile.present // profile.distinct
        return Role.QUASI, f"divides the rows into groups of {mean_rows:,} on average; {figures}"
    return Role.OTHER, f"nothing speaks for another role; {figures}"


def _shape(profile: ColumnProfile) -> str | None:
    """Return what all profiled values look like, if that identifies a person; else None."""
    texts = [value for value, _ in profile.top if isinstance(value, str)]
    for meaning, pattern in _PATTERNS.items():
        if texts and all(pattern.fullmatch(text) for text in texts):
            return meaning
    return None


# Lengths at which texts of equal length with digits count as codes, for which a mask is proposed.
_MASKED_LENGTHS = range(3, 33)

# Lengths of texts for which a mask is proposed where nothing better fits.
_LETTERS = range(1, 81)

_DIGIT = re.compile(r"[0-9]")

# Widths with more digits before or after the point are not proposed.
_MOST_PLACES = 12

# Values in less than this share of the rows are joined first, under this label.
_RARE, _RARER = 0.02, "rarer values"

# The approximate number of intervals of the smallest width.
_INTERVALS = 20


def propose(profile: ColumnProfile, kind: Kind) -> Hierarchy:
    """Propose a hierarchy for a column; `Removal` where nothing else fits.

    So every proposal can be released at once.
    """
    if kind is Kind.DATE:
        return Calendar()
    if kind in (Kind.INTEGER, Kind.REAL):
        return _widths(profile, kind) or _flat(profile, kind) or Removal()
    if profile.warnings:
        return Removal()  # text like dates or numbers: no mask hides them, and a person decides
    if kind is Kind.TEXT and profile.fixed_length in _MASKED_LENGTHS:
        texts = [str(value) for value, _ in profile.top]
        if texts and all(_DIGIT.search(text) for text in texts):
            return Mask()
    proposed = _frequency_tree(profile, kind) or _flat(profile, kind)
    lettered = kind is Kind.TEXT and profile.longest in _LETTERS
    return proposed or (Mask() if lettered else Removal())


def _frequency_tree(profile: ColumnProfile, kind: Kind) -> Tree | None:
    """A tree of two levels: rare values are joined first, then all."""
    flat = _flat(profile, kind)
    rare = {value for value, rows in profile.top if rows < _RARE * profile.present}
    if kind is not Kind.TEXT or flat is None or not 2 <= len(rare) < len(flat.leaves):
        return None
    common = [leaf for leaf in flat.leaves if leaf not in rare]
    if {_RARER, ROOT} & {*flat.leaves}:
        return None
    leaves = (*common, *(leaf for leaf in flat.leaves if leaf in rare))
    steps = [(_RARER if leaf in rare else str(leaf), ROOT) for leaf in leaves]
    return Tree(leaves, tuple(steps), seen=True)


def _widths(profile: ColumnProfile, kind: Kind) -> Widths | None:
    """A round width and its doublings: a range of 17 to 90 gives 5, 10, 20."""
    low, high = finite(profile.minimum), finite(profile.maximum)
    if low is None or high is None or low >= high:
        return None
    base = round_up((high - low) / _INTERVALS)
    if kind is Kind.INTEGER:
        base = max(base, Decimal(2))
    elif not -_MOST_PLACES <= base.adjusted() < _MOST_PLACES:
        return None
    # Each width divides the next, so that intervals nest.
    widths = [base * factor for factor in (1, 2, 4) if base * factor < high - low]
    if not widths:
        return None
    if kind is Kind.INTEGER:
        return Widths(tuple(int(width) for width in widths))
    return Widths(tuple(widths))


def finite(end: object) -> Decimal | None:
    """A number as an exact decimal; None for other values and infinities."""
    if isinstance(end, bool) or not isinstance(end, int | float | Decimal):
        return None
    number = Decimal(repr(end)) if isinstance(end, float) else Decimal(end)
    return number if number.is_finite() else None


def round_up(number: Decimal) -> Decimal:
    """Return the smallest of ..., 0.5, 1, 2, 5, 10, 20, 50, ... that is not below a number."""
    power = Decimal(1).scaleb(number.adjusted())
    return next(power * digit for digit in (1, 2, 5, 10) if power * digit >= number)


def _flat(profile: ColumnProfile, kind: Kind) -> Tree | None:
    """A tree of one level, value > *, where the profile lists every value."""
    values = [value for value, _ in profile.top]
    if not values or len(values) < profile.distinct or profile.distinct > MOST_TOP:
        return None
    if any(type(value) is not kind.type for value in values):
        return None
    leaves = tuple(sorted(values))
    return Tree(leaves, ((ROOT,),) * len(leaves), seen=True)  # type: ignore[arg-type]  # no floats here


# Bounds are multiples of a round number near this fraction of the range.
_STEPS_OF_RANGE = 10

# Up to 12 distinct integers count as codes and are listed, if each is in at least 20 rows.
_CODES, _COMMON = 12, 20

# Integers whose mean distance is larger than this count as codes, too.
_APART = 10_000

# Dates over at least so many years are bounded by decades.
_LONG_YEARS = 20


def observed_column(profile: ColumnProfile, column: Column) -> Column:
    """A guessed column with everything that its owner could declare."""
    domain = None
    if column.role is not Role.IDENTIFIER and profile.present:
        domain = _domain(profile, column.kind)
    return replace(column, domain=domain, nullable=profile.nulls > 0 or profile.rows == 0)


def _domain(profile: ColumnProfile, kind: Kind) -> Domain | None:
    if kind is Kind.BOOLEAN:
        return None
    lists_all = len(profile.top) == profile.distinct
    codes = kind is Kind.INTEGER and _are_codes(profile)
    try:
        if lists_all and (kind is Kind.TEXT or codes):
            listed = sorted(value for value, _ in profile.top)
            return Values(tuple(listed))  # type: ignore[arg-type]  # no floats here
        return _bounds(profile, kind)
    except SchemaError:
        return None  # numbers or texts that no schema can hold


def _are_codes(profile: ColumnProfile) -> bool:
    """Return whether integers are codes rather than quantities: few and common, or far apart."""
    rarest = min((rows for _, rows in profile.top), default=0)
    low, high = finite(profile.minimum), finite(profile.maximum)
    apart = low is not None and high is not None and high - low > _APART * profile.distinct
    return apart or (profile.distinct <= _CODES and rarest >= _COMMON)


def _bounds(profile: ColumnProfile, kind: Kind) -> Bounds | None:
    low, high = profile.minimum, profile.maximum
    if isinstance(low, date) and isinstance(high, date):
        return _years(low, high)
    least, most = finite(low), finite(high)
    if kind is Kind.TEXT or least is None or most is None:
        return None
    unit = round_up((most - least) / _STEPS_OF_RANGE or abs(most) / _STEPS_OF_RANGE or Decimal(1))
    if kind is Kind.INTEGER:
        unit = max(unit, Decimal(1))
    # One unit below the smallest value, so that the bound is nobody's cell.
    below = ((least / unit).to_integral_value(ROUND_CEILING) - 1) * unit
    above = ((most / unit).to_integral_value(ROUND_FLOOR) + 1) * unit
    if least >= 0:  # amounts end at nothing
        below = max(below, Decimal(0))
    if kind is Kind.INTEGER:
        return Bounds(int(below), int(above))
    return Bounds(below, above)


def _years(low: date, high: date) -> Bounds:
    """Bounds of whole years, or of whole decades for a long range."""
    width = 10 if high.year - low.year >= _LONG_YEARS else 1
    first = max(low.year - low.year % width, date.min.year)
    last = min(high.year - high.year % width + width - 1, date.max.year)
    return Bounds(date(first, 1, 1), date(last, 12, 31))


def observed_schema(schema: Schema, profiles: Sequence[ColumnProfile]) -> Schema:
    """A guessed schema with everything that its owner could declare, the unit included."""
    columns = tuple(map(observed_column, profiles, schema.columns))
    several = (
        profile
        for profile, column in zip(profiles, columns, strict=True)
        if could_number_people(column) and 1 < profile.distinct < profile.present
    )
    repeated = next(several, None)
    unit: Unit = Rows()
    if repeated is not None:
        unit = Entity(repeated.name, int(round_up(Decimal(repeated.top[0][1]))))
    return Schema(schema.table, columns, unit, schema.layout)


def names_people(column: Column) -> bool:
    """Whether a column can be the unit: an identifier without missing values that is not real."""
    return column.role is Role.IDENTIFIER and not column.nullable and column.kind is not Kind.REAL


def could_number_people(column: Column) -> bool:
    """Return whether a column can be the unit and is named like a number or a person."""
    named = names_a_person(column.name) or numbers_something(column.name)
    return named and names_people(column)


def with_people(schema: Schema, seen: Schema) -> Schema:
    """Return the guessed schema, with `nullable = false` for the columns that can be the unit."""
    known = {column.name: names_people(column) for column in seen.columns}
    columns = (replace(column, nullable=not known[column.name]) for column in schema.columns)
    return replace(schema, columns=tuple(columns))
