"""The labels of classes: ranges, ancestors, sets and stars, and how they are spelled.

Inside, labels are plain. Where a column has its own spelling, single values, the ends of ranges and
the members of sets are spelled when they leave and plain again when they are read. Other labels,
such as 1976-12 or 197x, stand for many values and have names of their own. Decisions `what-travels`
and `reading-files`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.original import Labels
from sfumato.data.schema.column import from_text
from sfumato.data.schema.hierarchy import ROOT, quote_label, spell, unquoted
from sfumato.data.schema.names import quoted
from sfumato.data.schema.spelling import NumberSpelling
from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sfumato.anonymize.original import Quasi
    from sfumato.arrays import FloatArray
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.domain import Scalar
    from sfumato.data.schema.hierarchy import Taxonomy

    Positions = NDArray[np.int64]

_MEMBER_TEXT = r'"(?:[^"]|"")*"|[^,{}"]*'
_SET = re.compile(rf"\{{(?:{_MEMBER_TEXT})(?:, (?:{_MEMBER_TEXT}))*\}}")
_MEMBER = re.compile(rf", ({_MEMBER_TEXT})")


@dataclass(frozen=True, eq=False)
class Written:
    """The labels of one column: a code for each class, equal for equal labels, and the texts.

    `covers` has the leaves, rows and level that the label of each class covers.
    """

    codes: Positions
    texts: tuple[str | None, ...]
    covers: Labels

    @classmethod
    def build(cls, codes: Positions, texts: Sequence[str | None], covers: Labels) -> Written:
        """Number the labels so that equal texts have one code."""
        known = {text: code for code, text in enumerate(dict.fromkeys(texts))}
        return cls(np.array([known[text] for text in texts])[codes], tuple(known), covers)

    def select(self, classes: Positions) -> Written:
        """Return the labels of the classes at these indices."""
        covers = self.covers
        selected = Labels(covers.leaves[classes], covers.rows[classes], covers.level[classes])
        return Written(self.codes[classes], self.texts, selected)

    def replaced(self, classes: Positions, replacement: Written) -> Written:
        """Return the labels with others for the classes at these indices."""
        codes, covers = self.codes.copy(), []
        # Codes of the replacement follow those of the present texts; `build` merges equal texts.
        codes[classes] = replacement.codes + len(self.texts)
        for mine, theirs in (
            (self.covers.leaves, replacement.covers.leaves),
            (self.covers.rows, replacement.covers.rows),
            (self.covers.level, replacement.covers.level),
        ):
            covers.append(mine.copy())
            covers[-1][classes] = theirs
        return Written.build(codes, [*self.texts, *replacement.texts], Labels(*covers))


def ordered(leaf: Scalar | None) -> bool:
    """Return whether a leaf is a number or a date with a place between others."""
    if isinstance(leaf, Decimal):
        return not leaf.is_nan()
    return isinstance(leaf, int | date) and not isinstance(leaf, bool)


def numeric(taxonomy: Taxonomy) -> bool:
    """Return whether leaves are ordered numbers or dates, which are released as ranges."""
    # Declared values may stand in another order than their size; ranges need the order of size.
    line = [leaf for leaf in taxonomy.leaves if ordered(leaf)]
    rises = all(leaf < next_leaf for leaf, next_leaf in pairwise(line))  # type: ignore[operator]
    return ordered(taxonomy.leaves[0]) and rises


def ancestors(column: Quasi, low: Positions, high: Positions) -> Written:
    """Return the lowest common ancestor of the leaves from low to high."""
    return at_levels(column, low, common_level(column.taxonomy, low, high))


def at_levels(column: Quasi, leaf: Positions, level: Positions) -> Written:
    """Return the label of a leaf at a level, for each class."""
    taxonomy = column.taxonomy
    code = np.empty_like(level)
    leaves, rows = np.empty_like(level), np.empty_like(level)
    for height, labels in enumerate(column.levels):
        at_height = level == height
        code[at_height] = taxonomy.codes[leaf[at_height], height]
        leaves[at_height], rows[at_height] = (
            labels.leaves[code[at_height]],
            labels.rows[code[at_height]],
        )
    return _written(
        level * len(taxonomy.leaves) + code,
        Labels(leaves, rows, level),
        lambda index: taxonomy.labels[level[index]][code[index]],
    )


def ranges(column: Quasi, low: Positions, high: Positions) -> Written:
    """Return the range [low, high], the value itself, or the root where values have no order."""
    leaves = column.taxonomy.leaves
    # Whether a range can end at a leaf.
    between = np.array([ordered(leaf) for leaf in leaves])
    texts = column.taxonomy.labels[0]
    # A missing value or NaN comes after all numbers: no range can end there, so the root covers it.
    open_ended = (low < high) & ~between[high]
    low, high = np.where(open_ended, 0, low), np.where(open_ended, len(leaves) - 1, high)

    def text(index: int) -> str | None:
        if open_ended[index]:
            return ROOT
        first, last = int(low[index]), int(high[index])
        return texts[first] if first == last else f"[{texts[first]}, {texts[last]}]"

    return _written(low * len(leaves) + high, _run(column, low, high), text)


def stars(column: Quasi, low: Positions, high: Positions) -> Written:
    """Return the value of a class that has only one, else the root."""
    last = len(column.taxonomy.leaves) - 1
    mixed = low < high
    low, high = np.where(mixed, 0, low), np.where(mixed, last, high)
    covers = _run(column, low, high)
    level = np.where(mixed, column.taxonomy.height, 0)
    return _written(
        np.where(mixed, last + 1, low),
        Labels(covers.leaves, covers.rows, level),
        lambda index: ROOT if mixed[index] else column.taxonomy.labels[0][low[index]],
    )


def sets(column: Quasi, owners: Positions, leaves: Positions, count: int) -> Written:
    """Return the set of the values of each class: `owners` and `leaves` name the leaves it has."""
    taxonomy = column.taxonomy
    width = len(taxonomy.leaves)
    # Each leaf once per class, class by class, leaves ascending.
    pairs = np.unique(owners * width + leaves)
    starts = np.searchsorted(pairs // width, np.arange(count))
    ends = np.append(starts[1:], len(pairs))
    members = pairs % width
    flat, known = members.tolist(), dict[tuple[int, ...], int]()
    codes = np.array(
        [
            known.setdefault(tuple(flat[start:end]), len(known))
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]
    )
    covers = Labels(
        ends - starts,
        np.add.reduceat(column.rows[members], starts),
        common_level(taxonomy, members[starts], members[ends - 1]),
    )
    return Written.build(codes, [_set_text(taxonomy, leaf_set) for leaf_set in known], covers)


def natural(
    column: Quasi, owners: Positions, leaves: Positions, low: Positions, high: Positions
) -> Written:
    """Return ranges of numbers and dates, ancestors of other values, sets without a hierarchy."""
    if numeric(column.taxonomy):
        return ranges(column, low, high)
    if column.taxonomy.height > 1:
        return ancestors(column, low, high)
    return sets(column, owners, leaves, len(low))


def common_level(taxonomy: Taxonomy, low: Positions, high: Positions) -> Positions:
    """Return the lowest level at which two leaves have the same label."""
    # Labels of a level stay together above it, so levels that differ can simply be counted.
    level = np.zeros(len(low), dtype=np.int64)
    for height in range(taxonomy.height):
        level += taxonomy.codes[low, height] != taxonomy.codes[high, height]
    return level


def positions(taxonomy: Taxonomy) -> FloatArray:
    """Return positions of leaves on a line: numbers and days by size, others one step apart.

    Leaves without an order, such as missing ones, come after the last number, at twice its distance
    from the first.
    """
    if not numeric(taxonomy):
        return np.arange(len(taxonomy.leaves), dtype=np.float64)
    line = np.array([_number(leaf) for leaf in taxonomy.leaves])
    finite = np.isfinite(line)
    first, last = line[finite].min(initial=np.inf), line[finite].max(initial=-np.inf)
    # Infinities and missing values get a place, so that a cut can part them from the numbers.
    span = last - first if first < last else 1.0
    placed: FloatArray = np.nan_to_num(
        line, nan=last + 2 * span, posinf=last + span, neginf=first - span
    )
    return placed


def _number(leaf: Scalar | None) -> float:
    if isinstance(leaf, date):
        return float(leaf.toordinal())
    return float("nan") if leaf is None else float(leaf)


def _run(column: Quasi, low: Positions, high: Positions) -> Labels:
    """Return the leaves, rows and level of the runs from low to high."""
    before = np.concatenate([[0], np.cumsum(column.rows)])
    level = common_level(column.taxonomy, low, high)
    return Labels(high - low + 1, before[high + 1] - before[low], level)


def _written(keys: Positions, covers: Labels, text: Callable[[int], str | None]) -> Written:
    """Number the labels and write each of them once."""
    _, first, codes = np.unique(keys, return_index=True, return_inverse=True)
    return Written.build(codes, [text(index) for index in first.tolist()], covers)


def _set_text(taxonomy: Taxonomy, members: tuple[int, ...]) -> str | None:
    if len(members) == 1:
        return taxonomy.labels[0][members[0]]
    if len(members) == len(taxonomy.leaves):
        return ROOT
    return set_of([taxonomy.labels[0][leaf] for leaf in members])


def set_of(members: Sequence[str | None]) -> str:
    """Write a set of values as a label: {a, b}; a missing member is empty.

    Members that would not be read back are quoted: empty texts, and those with a comma, brace or
    quote.
    """
    return "{" + ", ".join(map(_set_member, members)) + "}"


def members_of(label: str) -> list[str | None] | None:
    """Return the members of a set as written; None if a label is not a set."""
    if not _SET.fullmatch(label):
        return None
    return [member or None for member in _MEMBER.findall(", " + label[1:-1])]


def _set_member(label: str | None) -> str:
    if label is None:
        return ""
    plain = label and not set(label) & set(',{}"')
    return label if plain or unquoted(label) is not None else quote_label(label)


_CLOSED = re.compile(r"\[(?P<low>.+?)(?:; |, )(?P<high>.+)(?P<end>[])])")
_SIMPLE = re.compile(r"(?P<low>.+?)(?P<between> to |-)(?P<high>.+)")


def spelled_label(column: Column, label: str) -> str:
    """Return a plain label in the spelling of its column; reading it gives the same label."""
    if column.spelling is None or label == ROOT:
        return label
    # A spelled label that would be read as another label stays plain.
    for text in (_respell(column, label), label):
        if bare_label(column, plain_label(column, text)) == bare_label(column, label):
            return text
    raise SchemaError(
        "cell_malformed",
        f"Column {quoted(column.name)} has a label {quoted(label)} in its hierarchy, which would "
        "be read as a value as its cells are written. Rename the label.",
    )


def plain_label(column: Column, label: str) -> str:
    """Return the plain form of a spelled label."""
    spelling, kind = column.spelling, column.kind
    if spelling is None or label == ROOT:
        return label

    def end(text: str) -> str | None:
        value = spelling.read(text, kind)
        return None if value is None else spell(value)

    def value(text: str) -> str | None:
        parsed = spelling.read(text, kind)
        if isinstance(parsed, Decimal) and parsed.is_finite():
            parsed = Decimal(repr(float(parsed)))  # as a cell of a real column is held
        return None if parsed is None else spell(parsed)

    return _change_values(label, value, end, ", ") or label


def _respell(column: Column, label: str) -> str:
    spelling = column.spelling
    assert spelling is not None

    def value(text: str) -> str | None:
        parsed = _parsed_value(column, text)
        return None if parsed is None else spelling.write(parsed)

    # A comma inside numbers would make ", " between the ends of a range ambiguous.
    signs = (spelling.point, spelling.thousands) if isinstance(spelling, NumberSpelling) else ()
    return _change_values(label, value, value, "; " if "," in signs else ", ") or label


def bare_label(column: Column, label: str) -> str:
    """Return a plain label without trailing zeros: 1.70 becomes 1.7, in ranges too."""

    def bare(text: str) -> str | None:
        parsed = _parsed_value(column, text)
        if parsed is None or not isinstance(parsed, Decimal):
            return None if parsed is None else spell(parsed)
        digits, _, decimals = spell(parsed).partition(".")
        decimals = decimals.rstrip("0")
        return f"{digits}.{decimals}" if decimals else digits

    return _change_values(label, bare, bare, ", ") or label


def _change_values(
    label: str,
    value: Callable[[str], str | None],
    end: Callable[[str], str | None],
    separator: str,
) -> str | None:
    """Change the values of a label that is a value, range or set; None if it is none of them."""
    if (changed := value(label)) is not None:
        return changed
    if (members := members_of(label)) is not None:
        return set_of(
            [member if member is None else _respelled_member(member, value) for member in members]
        )
    for form in (_CLOSED, _SIMPLE):
        match = form.fullmatch(label)
        ends = None if match is None else (end(match["low"]), end(match["high"]))
        if match is None or ends is None or None in ends:
            continue
        low, high = ends
        if form is _CLOSED:
            return f"[{low}{separator}{high}{match['end']}"
        return f"{low}{match['between']}{high}"
    return None


def _respelled_member(member: str, value: Callable[[str], str | None]) -> str:
    inside = unquoted(member)
    changed = value(member if inside is None else inside)
    return member if changed is None else changed


def _parsed_value(column: Column, text: str) -> Scalar | None:
    try:
        return from_text(text, column.kind)
    except SchemaError:
        return None
