"""Guess kinds and roles of columns from names and profiles, each with a reason.

A guess declares no domain: bounds and values would come from private rows, and a declared domain
counts as public, so a person must write it. The words of names are in hints.toml. Decision
`schemas`.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sfumato.data.inspection.hierarchies import propose
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.hierarchy.rules import Mask, Removal
from sfumato.data.schema.names import count

if TYPE_CHECKING:
    from sfumato.data.inspection.profile import ColumnProfile

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
        """Whether a word of a column name has this meaning."""
        if token in self.name_words:
            return True
        return any(token.startswith(prefix) for prefix in self.name_words if len(prefix) >= _LONG)


def hint(name: str) -> Hint | None:
    """The meaning of a column name, if it is known."""
    tokens = _tokens(name)
    return next((candidate for candidate in _hints() if any(map(candidate.fits, tokens))), None)


def holds_no_quantity(name: str) -> bool:
    """Whether a name is of something whose digits are no quantity: an identifier, a zip code."""
    named = hint(name)
    return named is not None and (named.role is Role.IDENTIFIER or named.meaning == _POSTAL)


def numbers_something(name: str) -> bool:
    """Whether a name is of a number that distinguishes things, such as id or nr."""
    return not _NUMBERING.isdisjoint(_tokens(name))


def names_a_person(name: str) -> bool:
    """Whether a name ends in a word for a person: visit_patient, not patient_age."""
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
    """The words of a name and pairs of neighbours: zip_code gives zip, code and zipcode."""
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
    """The kind to read a column as; for text the narrowest that loses nothing."""
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
    """The hierarchy that is possible once the column is read as its warnings say."""
    lines = " ".join(profile.warnings)
    if f'kind = "{Kind.DATE}"' in lines:
        return ', once they are dates: hierarchy = { dates = "all" }'
    return ""


def _is_code(profile: ColumnProfile) -> bool:
    """Whether digits are a code and no quantity, such as 01002 or the zip code 53715."""
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
        return Role.QUASI, f"parts people into groups of {mean_rows:,} on average; {figures}"
    return Role.OTHER, f"nothing speaks for another role; {figures}"


def _shape(profile: ColumnProfile) -> str | None:
    """What all profiled values look like, if that identifies a person."""
    texts = [value for value, _ in profile.top if isinstance(value, str)]
    for meaning, pattern in _PATTERNS.items():
        if texts and all(pattern.fullmatch(text) for text in texts):
            return meaning
    return None
