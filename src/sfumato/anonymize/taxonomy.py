"""The taxonomy of a column, and the leaves that released labels cover."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.labels import bare_label, members_of, ordered, plain_label
from sfumato.data.schema.column import Kind, from_text
from sfumato.data.schema.domain import EXACT, Bounds, Values
from sfumato.data.schema.hierarchy import ROOT, Calendar, Mask, Taxonomy, spell, unquoted
from sfumato.data.schema.toml_document import add_line
from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, IntArray
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.domain import Scalar
    from sfumato.data.schema.hierarchy import Leaf


_RANGE = re.compile(r"\[(?P<low>.+), (?P<high>.+)(?P<end>[])])|(?P<from>.+?)( to |-)(?P<to>.+)")
_STRETCH = re.compile(
    r"(?P<year>[0-9]{3})((?P<decade>x)|(?P<unit>[0-9])(-((?P<month>[01][0-9])|Q(?P<quarter>[1-4])))?)"
)

_REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|nan|NaN|-?inf|-?Infinity")
"""A number as files and labels have it; a file writes 0 where a label says 0.0."""

MOST_LEAVES = 1_000_000
"""Larger grids are not listed: then only the values that occur are leaves."""


def grow(column: Column, values: Iterable[Leaf]) -> Taxonomy:
    """Grow the column's hierarchy over its declared values and these.

    Without a hierarchy every value is directly below the root: numbers and dates by size, other
    values in declared order and then by name.
    """
    # repr gives the shortest decimal of a float, as files and labels have it.
    exact = [Decimal(repr(value)) if isinstance(value, float) else value for value in values]
    leaves: list[Leaf] = [*dict.fromkeys([*declared(column), *exact])]
    if column.hierarchy is not None:
        return column.hierarchy.grow(leaves)
    present: list[Scalar] = [leaf for leaf in leaves if leaf is not None]  # type: ignore[misc]
    if column.kind in (Kind.TEXT, Kind.BOOLEAN):
        known = {leaf: index for index, leaf in enumerate(declared(column))}
        present.sort(key=lambda leaf: (known.get(leaf, len(known)), spell(leaf)))
    else:
        # NaN has no place in an order; it comes after all others.
        present.sort(key=lambda leaf: (leaf != leaf, 0 if leaf != leaf else leaf))
    return Taxonomy.build(present, [], missing=None in exact)


def universe(column: Column, labels: Sequence[Leaf]) -> Taxonomy:
    """Return the taxonomy of a released column: declared values, and values among its labels.

    Without declared values, ranges cover all whole numbers or days between their ends, and masks of
    digits all numbers of their length.
    """
    texts = [plain_label(column, label) for label in labels if isinstance(label, str)]
    members = [member for text in texts for member in members_of(text) or [text]]
    missing: list[Leaf] = [None] if None in labels or None in members else []
    texts = [member for member in members if member is not None]
    if isinstance(column.hierarchy, Mask) and not declared(column):
        return column.hierarchy.grow([*_expand_mask(column, texts), *missing])
    allowed = set(declared(column)) if _lists_all_leaves(column) else None
    leaves: list[Leaf] = [value for text in texts if (value := value_of(column, text)) is not None]
    leaves += [label for label in labels if label is not None and not isinstance(label, str)]
    if allowed is None and not declared(column):
        leaves += _covered_values(column, texts)
    plain = leaves if allowed is None else [value for value in leaves if value in allowed]
    return grow(column, [*plain, *missing])


def declared(column: Column) -> Sequence[Scalar]:
    """Return the values that the schema lists; empty if it lists none or too many."""
    if column.hierarchy is not None and column.hierarchy.declared is not None:
        return column.hierarchy.declared
    match column.domain:
        case Values(values=values):
            return values
        case Bounds(size=int(size)) as bounds if size <= MOST_LEAVES:
            return _grid(bounds, size)
        case _ if column.kind is Kind.BOOLEAN:
            return (False, True)
    return ()


def ends_of(text: str, column: Column) -> tuple[Scalar, Scalar, bool] | None:
    """Return the ends of a range label, and whether the upper one is included; None otherwise."""
    match = _RANGE.fullmatch(text)
    if match is None or column.kind not in (Kind.INTEGER, Kind.REAL, Kind.DATE):
        return None
    low, high = match["low"] or match["from"], match["high"] or match["to"]
    try:
        ends = from_text(low, column.kind), from_text(high, column.kind)
    except SchemaError:
        return None
    return *ends, match["end"] != ")"


def _covered_values(column: Column, texts: Sequence[str]) -> list[Leaf]:
    """Return the values that ranges and calendar labels cover, if they are finite."""
    leaves: set[Leaf] = set()
    for text in texts:
        ends = ends_of(text, column)
        if ends is None and isinstance(column.hierarchy, Calendar):
            ends = _stretch(text)
        match ends:
            case int(low), int(high), _ if high - low < MOST_LEAVES:
                leaves.update(range(low, high + 1))
            case date() as low, date() as high, _ if (high - low).days < MOST_LEAVES:
                leaves.update(low + timedelta(days=day) for day in range((high - low).days + 1))
            case low, high, closed:
                leaves.update((low, high) if closed else (low,))
    return list(leaves)


def _stretch(text: str) -> tuple[date, date, bool] | None:
    """Return the first and last day of a month, quarter, year or decade."""
    match = _STRETCH.fullmatch(text)
    if match is None:
        return None
    year, first, months = int(match["year"] + (match["unit"] or "0")), 1, 12
    if match["month"]:
        first, months = int(match["month"]), 1
    elif match["quarter"]:
        first, months = 3 * int(match["quarter"]) - 2, 3
    elif match["decade"]:
        months = 120
    # Months counted from year 0: the month after the stretch, whose first day less one is its end.
    after = year * 12 + first - 1 + months
    last = date(after // 12, after % 12 + 1, 1) - timedelta(days=1)
    return date(year, first, 1), last, True


def stretch_of(text: str) -> str | None:
    """Name the calendar step of a label; None if it is not one."""
    match = _STRETCH.fullmatch(text)
    if match is None:
        return None
    if match["month"]:
        return "month and year"
    if match["quarter"]:
        return "quarter and year"
    return "decade" if match["decade"] else "year"


def _grid(bounds: Bounds, size: int) -> list[Scalar]:
    low, step = bounds.low, bounds.grid_step
    if isinstance(low, date):
        return [low + timedelta(days=index * int(step or 1)) for index in range(size)]
    if isinstance(low, Decimal):
        width = Decimal(step or 1)
        return [EXACT.add(low, EXACT.multiply(width, Decimal(index))) for index in range(size)]
    return [low + index * int(step or 1) for index in range(size)]


def _lists_all_leaves(column: Column) -> bool:
    """Return whether the hierarchy lists every leaf that can occur."""
    return column.hierarchy is not None and column.hierarchy.declared is not None


def value_of(column: Column, text: str) -> Scalar | None:
    """Return the value that a label spells; None if it is a label above the values."""
    value = unquoted(text)
    if value is None and (text == ROOT or (isinstance(column.hierarchy, Mask) and ROOT in text)):
        return None
    if column.kind is Kind.REAL and _REAL.fullmatch(text):
        return Decimal(repr(float(text)))
    try:
        return from_text(text if value is None else value, column.kind)
    except SchemaError:
        return None


def _expand_mask(column: Column, texts: Sequence[str]) -> list[str]:
    """Return all digit texts of the length of the labels, or the labels without a mask."""
    plain = (value_of(column, text) if unquoted(text) is not None else text for text in texts)
    shown = {str(text) for text in plain if text != ROOT}
    lengths = {len(text) for text in shown}
    if len(lengths) == 1 and all(text.replace(ROOT, "0").isdigit() for text in shown):
        (length,) = lengths
        if 10**length <= MOST_LEAVES:
            return [f"{number:0{length}}" for number in range(10**length)]
    if any(ROOT in text for text in shown):
        raise SchemaError(
            "domain_missing",
            f"The values that the masks of column {column.name!r} cover are not known. "
            + add_line(column.name, "values = [...]"),
        )
    return sorted(shown)


@dataclass(frozen=True, eq=False)
class Covers:
    """The runs of leaves that labels of a column cover.

    Runs are sorted by label; `starts` has the first run of each label. `ends` has the two leaves at
    the ends of each range label, and -1 if a label is not a range or its end is not a leaf.
    """

    taxonomy: Taxonomy
    starts: IntArray
    first: IntArray
    last: IntArray
    ends: IntArray

    @cached_property
    def leaves(self) -> IntArray:
        """The number of leaves that each label covers."""
        return np.add.reduceat(self.last - self.first + 1, self.starts)

    def count(self, marked: NDArray[np.integer] | BoolArray) -> IntArray:
        """Add up a number of each leaf over the leaves of every label."""
        # Prefix sums give the sum of each run in constant time.
        before = np.concatenate([[0], np.cumsum(marked, dtype=np.int64)])
        return np.add.reduceat(before[self.last + 1] - before[self.first], self.starts)

    def contains(self, leaf: int) -> BoolArray:
        """Return which labels cover a leaf."""
        inside = (self.first <= leaf) & (leaf <= self.last)
        return np.logical_or.reduceat(inside, self.starts)

    def holding(self, label: int) -> BoolArray:
        """Return which leaves a label covers."""
        inside = np.zeros(len(self.taxonomy.leaves), dtype=bool)
        end = self.starts[label + 1] if label + 1 < len(self.starts) else len(self.first)
        for run in range(int(self.starts[label]), int(end)):
            inside[self.first[run] : self.last[run] + 1] = True
        return inside

    @cached_property
    def low(self) -> IntArray:
        """The first leaf of each label."""
        start: IntArray = self.first[self.starts]
        return start

    @cached_property
    def high(self) -> IntArray:
        """The last leaf of each label."""
        final: IntArray = self.last[np.append(self.starts[1:], len(self.last)) - 1]
        return final


def read_labels(column: Column, taxonomy: Taxonomy, labels: Sequence[Leaf]) -> Covers:
    """Read the labels of a column: values, labels of its hierarchy, ranges, sets, the root."""
    reader = _Reader(column, taxonomy)
    starts, runs, ends = [], list[tuple[int, int]](), []
    for label in labels:
        starts.append(len(runs))
        label_runs, end = reader.read(label)
        runs += label_runs
        ends.append(end)
    first, last = np.array(runs, dtype=np.int64).reshape(-1, 2).T
    return Covers(
        taxonomy,
        np.array(starts, dtype=np.int64),
        first,
        last,
        np.array(ends, dtype=np.int64).reshape(-1, 2),
    )


class _Reader:
    """Reads the labels of one column."""

    def __init__(self, column: Column, taxonomy: Taxonomy) -> None:
        self.column, self.taxonomy = column, taxonomy
        self._runs = _known(taxonomy)
        # The ends of a range that is spelled have other decimals than the label that it was.
        known = () if column.spelling is None else [label for label in self._runs if label]
        self._bare = {bare_label(column, label): label for label in known}
        self._own = {
            leaf: (index, index) for index, leaf in enumerate(taxonomy.leaves) if leaf is not None
        }
        pairs = [(leaf, index) for index, leaf in enumerate(taxonomy.leaves) if ordered(leaf)]
        self._line = sorted(pairs, key=lambda pair: pair[0])  # type: ignore[arg-type,return-value]
        self._values = [leaf for leaf, _ in self._line]
        indices = [index for _, index in self._line]
        # Where leaves stand in the order of their numbers, a range is one run of them.
        self._in_a_row = indices == list(range(indices[0], indices[-1] + 1)) if indices else False

    def read(self, label: Leaf) -> tuple[list[tuple[int, int]], tuple[int, int]]:
        """Return the runs that a label covers, and its ends where it is a range."""
        exact = Decimal(repr(label)) if isinstance(label, float) else label
        exact = plain_label(self.column, exact) if isinstance(exact, str) else exact
        text = exact if isinstance(exact, str) or exact is None else spell(exact)
        if text is not None and text not in self._runs:
            text = self._bare.get(bare_label(self.column, text), text)
        bounds = None if text is None else ends_of(text, self.column)
        ends = (-1, -1) if bounds is None else self._ends(*bounds)
        if text in self._runs:
            return [self._runs[text]], ends
        if bounds is not None:
            low, high, closed = bounds
            start = bisect_left(self._values, low)  # type: ignore[type-var]
            side = bisect_right if closed else bisect_left
            end = side(self._values, high)  # type: ignore[type-var]
            if start < end and self._in_a_row:  # the leaves themselves stand in order
                return [(self._line[start][1], self._line[end - 1][1])], ends
            if start < end:
                return _in_runs([index for _, index in self._line[start:end]]), ends
        members = [] if text is None else members_of(text) or [text]
        member_runs = [self._run_of(member) for member in members]
        if member_runs and None not in member_runs:
            indices = [index for run in member_runs if run for index in range(run[0], run[1] + 1)]
            return _in_runs(indices), ends
        raise SchemaError(
            "value_outside_domain",
            f"Column {self.column.name!r} holds a label that is neither a value, a label of its "
            "hierarchy, a range nor a set of values. Declare the hierarchy that it comes from.",
            detail=f"Label: {label!r}",
        )

    def _run_of(self, label: str | None) -> tuple[int, int] | None:
        """Return the run of a label, or of the value that it spells differently or quotes."""
        if label in self._runs or label is None:
            return self._runs.get(label)
        value = value_of(self.column, label)
        return None if value is None else self._own.get(value)

    def _ends(self, low: Scalar, high: Scalar, closed: bool) -> tuple[int, int]:
        """Return the leaves at the ends of a range; None for an open end."""
        if not closed:
            return -1, -1
        first, last = self._own.get(low), self._own.get(high)
        return -1 if first is None else first[0], -1 if last is None else last[0]


def _known(taxonomy: Taxonomy) -> dict[str | None, tuple[int, int]]:
    """Return the run of every label of a taxonomy, at the lowest level that has it.

    Without declared values nobody knows what the root covers, so it has no run.
    """
    runs: dict[str | None, tuple[int, int]] = {}
    # Lower levels overwrite higher ones: a label that stands at several levels covers least.
    if taxonomy.leaves:
        runs[ROOT] = (0, len(taxonomy.leaves) - 1)
    for level in range(taxonomy.height - 1, -1, -1):
        codes = taxonomy.codes[:, level]
        first = np.flatnonzero(np.diff(codes, prepend=-1))
        # With no leaves at all (every cell starred, nothing declared) there are no runs either.
        last = np.append(first[1:], len(codes))[: len(first)] - 1
        for code, start, end in zip(
            codes[first].tolist(), first.tolist(), last.tolist(), strict=True
        ):
            runs[taxonomy.labels[level][code]] = (start, end)
    return runs


def _in_runs(indices: Sequence[int]) -> list[tuple[int, int]]:
    """Return leaves as runs of consecutive ones."""
    inside = np.unique(indices)
    first = inside[np.flatnonzero(np.diff(inside, prepend=-2) != 1)]
    last = inside[np.flatnonzero(np.diff(inside, append=inside[-1] + 2) != 1)]
    return list(zip(first.tolist(), last.tolist(), strict=True))
