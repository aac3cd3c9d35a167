"""Names of tables and columns: checks, comparison, and how messages show them."""

from __future__ import annotations

import unicodedata
from difflib import get_close_matches
from typing import TYPE_CHECKING

from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable

# Unicode categories and bidirectional classes of characters that hide or reorder what a terminal
# shows: a name with them could pass for another one.
_HIDDEN = {"Cc", "Cs", "Zl", "Zp"}
_DIRECTIONS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def quoted(name: str) -> str:
    """Quote and escape a name for a message; cut it after 60 characters."""
    return repr(name if len(name) <= 60 else f"{name[:57]}...")


def check_name(name: str, title: str) -> None:
    """Refuse a name that is blank or has control characters; `title` says what it names."""
    if not name.strip():
        raise SchemaError("name_invalid", f"{title} has no name; give it one.")
    for position, character in enumerate(name, 1):
        if (
            unicodedata.category(character) in _HIDDEN
            or unicodedata.bidirectional(character) in _DIRECTIONS
        ):
            raise SchemaError(
                "name_invalid",
                f"{title} has the control character U+{ord(character):04X} at place {position} "
                "of its name; rename it.",
            )


def clash(names: Iterable[str]) -> tuple[int, int] | None:
    """Return the positions of two names that differ only in case, outer spaces or Unicode form."""
    seen: dict[str, int] = {}
    for position, name in enumerate(names):
        folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold()).strip()
        first = seen.setdefault(folded, position)
        if first != position:
            return first, position
    return None


def check_names(names: list[str]) -> None:
    """Refuse column names that are invalid or that clash."""
    for position, name in enumerate(names, 1):
        check_name(name, f"Column {position}")
    if clashing := clash(names):
        first, second = clashing
        raise SchemaError(
            "name_taken",
            f"Columns {first + 1} ({quoted(names[first])}) and {second + 1} "
            f"({quoted(names[second])}) have the same name except for case, outer spaces or "
            "Unicode form; rename one.",
        )


def suggestion(name: str, allowed: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest allowed one, or all of them."""
    names = list(allowed)
    if not names:
        return "there are none."
    near = get_close_matches(name, names, n=1)
    if near:
        return f"did you mean {quoted(near[0])}?"
    return f"allowed: {', '.join(map(quoted, names[:10]))}{', ...' if len(names) > 10 else ''}."


def count(number: int, singular: str, plural: str | None = None) -> str:
    """A number with its noun: 1 leaf, 2,000 leaves."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def untaken(preferred: str, existing: Iterable[str]) -> str:
    """Return the preferred name, with a number appended where it is in use in any case."""
    folded = {name.casefold() for name in existing}
    name, number = preferred, 1
    while name.casefold() in folded:
        number += 1
        name = f"{preferred}_{number}"
    return name


def free_prefix(names: Iterable[str]) -> str:
    """A prefix for names of our own that none of these names begins with."""
    folded, prefix = [name.casefold() for name in names], "sf_"
    while any(name.startswith(prefix) for name in folded):
        prefix += "_"
    return prefix
