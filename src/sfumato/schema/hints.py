"""What a column's name says about it; the words are in hints.toml."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise

from sfumato.schema.column import Role

_LONG = 6
"""From so many letters on, a word also counts as the beginning of another."""

_NUMBERING = frozenset({"id", "key", "uuid", "guid", "nr", "no", "number", "nummer"})


@dataclass(frozen=True)
class Hint:
    """A meaning that names give away: what it is called, and which role it has."""

    meaning: str
    role: Role
    words: frozenset[str]

    def fits(self, token: str) -> bool:
        """Whether a word of a column's name says this."""
        if token in self.words:
            return True
        return any(token.startswith(word) for word in self.words if len(word) >= _LONG)


def hint(name: str) -> Hint | None:
    """What a column's name says, if anything."""
    tokens = _tokens(name)
    return next((found for found in _hints() if any(map(found.fits, tokens))), None)


def numbers_something(name: str) -> bool:
    """Whether a column is named like a number that tells things apart."""
    return not _NUMBERING.isdisjoint(_tokens(name))


@cache
def _hints() -> tuple[Hint, ...]:
    text = files(__package__).joinpath("hints.toml").read_text(encoding="utf-8")
    return tuple(
        Hint(entry["meaning"], Role(entry["role"]), frozenset(entry["words"].split()))
        for entry in tomllib.loads(text)["hint"]
    )


def _tokens(name: str) -> list[str]:
    """Cut a name into words, joined neighbours included: dateOfBirth, zip_code, E-Mail."""
    for sign, spelled in (("ß", "ss"), ("ä", "ae"), ("ö", "oe"), ("ü", "ue")):
        name = name.replace(sign, spelled)
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", plain)
    words = re.findall(r"[a-z0-9]+", spaced.lower())
    return [*words, *(one + two for one, two in pairwise(words))]
