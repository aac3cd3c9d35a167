"""What released labels cover: labels read back, whoever wrote them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.labels import members_of, ordered
from sfumato.anonymize.leaves import ends_of, value_of
from sfumato.errors import SchemaError
from sfumato.schema.hierarchy.base import ROOT, spell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.schema.column import Column
    from sfumato.schema.domain import Scalar
    from sfumato.schema.hierarchy.base import Leaf, Taxonomy

    Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Covers:
    """For some labels of a column the runs of leaves that each covers.

    Runs stand label by label; `starts` says where each label begins. `ends` has the two leaves at
    the ends of each range label, -1 where a label is no range or its end is no leaf.
    """

    taxonomy: Taxonomy
    starts: Ints
    first: Ints
    last: Ints
    ends: Ints

    @cached_property
    def leaves(self) -> Ints:
        """How many leaves each label covers."""
        return np.add.reduceat(self.last - self.first + 1, self.starts)

    def count(self, marked: NDArray[np.integer] | NDArray[np.bool_]) -> Ints:
        """Add up a number of each leaf over the leaves of every label."""
        before = np.concatenate([[0], np.cumsum(marked, dtype=np.int64)])
        return np.add.reduceat(before[self.last + 1] - before[self.first], self.starts)

    def contains(self, leaf: int) -> NDArray[np.bool_]:
        """Which labels cover a leaf."""
        inside = (self.first <= leaf) & (leaf <= self.last)
        return np.logical_or.reduceat(inside, self.starts)

    def holding(self, label: int) -> NDArray[np.bool_]:
        """Which leaves a label covers."""
        inside = np.zeros(len(self.taxonomy.leaves), dtype=bool)
        end = self.starts[label + 1] if label + 1 < len(self.starts) else len(self.first)
        for run in range(int(self.starts[label]), int(end)):
            inside[self.first[run] : self.last[run] + 1] = True
        return inside

    @cached_property
    def low(self) -> Ints:
        """The first leaf of each label."""
        start: Ints = self.first[self.starts]
        return start

    @cached_property
    def high(self) -> Ints:
        """The last leaf of each label."""
        final: Ints = self.last[np.append(self.starts[1:], len(self.last)) - 1]
        return final


def read(column: Column, taxonomy: Taxonomy, labels: Sequence[Leaf]) -> Covers:
    """Read the labels of a column: values, labels of its hierarchy, ranges, sets, the root."""
    reader = _Reader(column, taxonomy)
    starts, runs, ends = [], list[tuple[int, int]](), []
    for label in labels:
        starts.append(len(runs))
        found, end = reader.read(label)
        runs += found
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
        self._own = {
            leaf: (place, place) for place, leaf in enumerate(taxonomy.leaves) if leaf is not None
        }
        pairs = [(leaf, place) for place, leaf in enumerate(taxonomy.leaves) if ordered(leaf)]
        self._line = sorted(pairs, key=lambda pair: pair[0])  # type: ignore[arg-type,return-value]
        self._values = [leaf for leaf, _ in self._line]

    def read(self, label: Leaf) -> tuple[list[tuple[int, int]], tuple[int, int]]:
        """The runs that a label covers, and its ends where it is a range."""
        exact = Decimal(repr(label)) if isinstance(label, float) else label
        text = exact if isinstance(exact, str) or exact is None else spell(exact)
        bounds = None if text is None else ends_of(text, self.column)
        ends = (-1, -1) if bounds is None else self._ends(*bounds)
        if text in self._runs:
            return [self._runs[text]], ends
        if bounds is not None:
            low, high, closed = bounds
            start = bisect_left(self._values, low)  # type: ignore[type-var]
            side = bisect_right if closed else bisect_left
            places = [place for _, place in self._line[start : side(self._values, high)]]  # type: ignore[type-var]
            if places:
                return _in_runs(places), ends
        members = [] if text is None else members_of(text) or [text]
        found = [self._run_of(one) for one in members]
        if found and None not in found:
            places = [place for run in found if run for place in range(run[0], run[1] + 1)]
            return _in_runs(places), ends
        raise SchemaError(
            "label_unknown",
            f"Column {self.column.name!r} holds a label that is no value, no label of its "
            "hierarchy, no range and no set of values. Declare the hierarchy it comes from.",
            detail=f"Label: {label!r}",
        )

    def _run_of(self, label: str | None) -> tuple[int, int] | None:
        """The run of a label, or of the value that it spells otherwise or quotes."""
        if label in self._runs or label is None:
            return self._runs.get(label)
        value = value_of(self.column, label)
        return None if value is None else self._own.get(value)

    def _ends(self, low: Scalar, high: Scalar, closed: bool) -> tuple[int, int]:
        """The leaves at the ends of a range; an open end is none."""
        first, last = self._runs.get(spell(low)), self._runs.get(spell(high)) if closed else None
        return -1 if first is None else first[0], -1 if last is None else last[0]


def _known(taxonomy: Taxonomy) -> dict[str | None, tuple[int, int]]:
    """The run of every label of a taxonomy, of the lowest level that has it.

    Where nobody said what there can be, the root covers nobody knows what: it has no run then.
    """
    runs: dict[str | None, tuple[int, int]] = {}
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


def _in_runs(places: Sequence[int]) -> list[tuple[int, int]]:
    """Leaves as runs of consecutive ones."""
    inside = np.unique(places)
    first = inside[np.flatnonzero(np.diff(inside, prepend=-2) != 1)]
    last = inside[np.flatnonzero(np.diff(inside, append=inside[-1] + 2) != 1)]
    return list(zip(first.tolist(), last.tolist(), strict=True))
