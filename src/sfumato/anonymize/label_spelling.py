"""Labels of a column that is spelled its own way: what is one value is written as people write it.

So are the ends of ranges and the members of sets; every other label stands for many values and has
a name of its own, such as 1976-12 or 197x. Inside, all labels are plain: they become spelled when
they leave and plain when they are read again. Decision 0213.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING

from sfumato.anonymize.labels import members_of, set_of
from sfumato.data.schema.column import from_text
from sfumato.data.schema.hierarchy.base import ROOT, spell, unquoted
from sfumato.data.schema.names import quoted
from sfumato.data.schema.spelling import NumberSpelling
from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.data.schema.column import Column
    from sfumato.data.schema.domain import Scalar

_CLOSED = re.compile(r"\[(?P<low>.+?)(?:; |, )(?P<high>.+)(?P<end>[])])")
_SIMPLE = re.compile(r"(?P<low>.+?)(?P<between> to |-)(?P<high>.+)")


def spelled_label(column: Column, label: str) -> str:
    """A plain label as it leaves; it is read back as the same."""
    if column.spelling is None or label == ROOT:
        return label
    for text in (_spelled(column, label), label):
        if bare_label(column, plain_label(column, text)) == bare_label(column, label):
            return text
    raise SchemaError(
        "value_like_label",
        f"Column {quoted(column.name)} has a label {quoted(label)} in its hierarchy, which would "
        "be read as a value as its cells are written. Rename the label.",
    )


def plain_label(column: Column, label: str) -> str:
    """A label as it was before it was spelled; one that never was is as it is."""
    spelling, kind = column.spelling, column.kind
    if spelling is None or label == ROOT:
        return label

    def end(text: str) -> str | None:
        value = spelling.read(text, kind)
        return None if value is None else spell(value)

    def value(text: str) -> str | None:
        found = spelling.read(text, kind)
        if isinstance(found, Decimal) and found.is_finite():
            found = Decimal(repr(float(found)))  # as a cell of a real column is held
        return None if found is None else spell(found)

    return _changed(label, value, end, ", ") or label


def _spelled(column: Column, label: str) -> str:
    spelling = column.spelling
    assert spelling is not None

    def value(text: str) -> str | None:
        found = _value(column, text)
        return None if found is None else spelling.write(found)

    signs = (spelling.point, spelling.thousands) if isinstance(spelling, NumberSpelling) else ()
    return _changed(label, value, value, "; " if "," in signs else ", ") or label


def bare_label(column: Column, label: str) -> str:
    """A plain label with no decimals that say nothing: 1.70 is 1.7, as values and in ranges."""

    def bare(text: str) -> str | None:
        found = _value(column, text)
        if found is None or not isinstance(found, Decimal):
            return None if found is None else spell(found)
        whole, _, decimals = spell(found).partition(".")
        decimals = decimals.rstrip("0")
        return f"{whole}.{decimals}" if decimals else whole

    return _changed(label, bare, bare, ", ") or label


def _changed(
    label: str,
    value: Callable[[str], str | None],
    end: Callable[[str], str | None],
    separator: str,
) -> str | None:
    """A value, range or set with its values changed; None where a label is none of them."""
    if (changed := value(label)) is not None:
        return changed
    if (members := members_of(label)) is not None:
        return set_of([one if one is None else _member(one, value) for one in members])
    for form in (_CLOSED, _SIMPLE):
        found = form.fullmatch(label)
        ends = None if found is None else (end(found["low"]), end(found["high"]))
        if found is None or ends is None or None in ends:
            continue
        low, high = ends
        if form is _CLOSED:
            return f"[{low}{separator}{high}{found['end']}"
        return f"{low}{found['between']}{high}"
    return None


def _member(member: str, value: Callable[[str], str | None]) -> str:
    inside = unquoted(member)
    changed = value(member if inside is None else inside)
    return member if changed is None else changed


def _value(column: Column, text: str) -> Scalar | None:
    try:
        return from_text(text, column.kind)
    except SchemaError:
        return None
