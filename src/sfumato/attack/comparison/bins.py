"""The bins in which a column of any release is counted, and how a label is spread over them.

Bins are runs of the column's values in the order of its hierarchy, numbers and dates by size: each
value by itself where there are few, else so that each has about as many rows of the original. A
label counts in every bin by the share of what it covers: of values that are declared or that the
original has all alike, of numbers and dates by the length that they stand for; nothing counts as
missing that does not say so. What is no value of the column has a bin of its own, the last. So the
figures of a release do not depend on which others it is compared with.

Decision 0294.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.labels import numeric, ordered, positions
from sfumato.anonymize.taxonomy import declared, grow, read_labels, universe
from sfumato.data.schema.hierarchy.base import stands_for_itself
from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sfumato.anonymize.taxonomy import Covers
    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.hierarchy.base import Leaf, Taxonomy


MOST_BINS = 20


@dataclass(frozen=True, eq=False)
class ColumnBins:
    """A column cut into bins; `edges` has the first leaf of each, and one behind the last."""

    column: Column
    taxonomy: Taxonomy
    edges: IntArray
    lengths: FloatArray
    """The lengths of all leaves before each, and of all."""

    @property
    def size(self) -> int:
        """How many bins there are, that of strange values among them."""
        return len(self.edges)

    @property
    def anywhere(self) -> FloatArray:
        """The shares of bins for someone who knows nothing of the column."""
        shares = np.append(np.diff(self.lengths[self.edges]), 0.0)
        return np.asarray(shares / shares.sum()) if shares.any() else np.eye(self.size)[-1]

    def spread(self, labels: Sequence[Leaf]) -> FloatArray:
        """The shares of bins of each label, a row each."""
        shares = np.zeros((len(labels), self.size))
        places = self.taxonomy.places(labels)
        places[[one for one, label in enumerate(labels) if _may_be_above(label)]] = -1
        values = np.flatnonzero(places >= 0)
        shares[values, np.searchsorted(self.edges, places[values], side="right") - 1] = 1.0
        for part, covers in self._read(labels, np.flatnonzero(places < 0).tolist()):
            shares[part, :-1] = self._covered(covers)
        shares[:, -1] = 1.0 - shares[:, :-1].sum(axis=1)
        return shares.clip(min=0.0)

    def _covered(self, covers: Covers) -> FloatArray:
        """The shares of bins of labels that cover runs of leaves."""
        low = np.maximum(covers.first[:, None], self.edges[:-1])
        high = np.minimum(covers.last[:, None] + 1, self.edges[1:])
        inside = np.where(low < high, self.lengths[high] - self.lengths[low], 0.0)
        by_label = np.add.reduceat(inside, covers.starts, axis=0)
        empty = by_label.sum(axis=1) == 0  # what only other releases have
        leaves = np.add.reduceat((high - low).clip(min=0), covers.starts, axis=0)
        by_label[empty] = leaves[empty]
        return np.asarray(by_label / by_label.sum(axis=1, keepdims=True))

    def _read(
        self, labels: Sequence[Leaf], places: Sequence[int]
    ) -> Iterator[tuple[Sequence[int], Covers]]:
        """What labels cover, those that mean something; strange ones are found by halving."""
        parts = [places] if places else []
        while parts:
            part = parts.pop()
            try:
                yield part, read_labels(self.column, self.taxonomy, [labels[one] for one in part])
            except SchemaError:
                middle = len(part) // 2
                parts += [part[:middle], part[middle:]] if middle else []


def bins_of(column: Column, labels: Sequence[Leaf], original: Frequencies) -> ColumnBins:
    """Cut a column by what the original has, of which `original` counts the column alone."""
    values = original.axes[0].decode(original.codes[0]).to_pylist()
    taxonomy = universe(column, [*labels, *values])
    places = taxonomy.places(values)
    if (places < 0).any() and not _closed(column):
        lacking = [values[one] for one in np.flatnonzero(places < 0)]
        taxonomy = grow(column, [*taxonomy.leaves, *lacking])
        places = taxonomy.places(values)
    count = len(taxonomy.leaves)
    known = places >= 0
    rows = np.bincount(places[known], original.counts[known], minlength=count).astype(np.float64)
    own = rows > 0
    own[taxonomy.places(list(declared(column)))] = True
    lengths = np.concatenate([[0.0], np.cumsum(_lengths(taxonomy, own))])
    return ColumnBins(column, taxonomy, _edges(rows), lengths)


def _edges(rows: FloatArray) -> IntArray:
    """Where bins begin: at each leaf, or after about as many rows each."""
    if len(rows) <= MOST_BINS:
        return np.arange(len(rows) + 1)
    before = np.concatenate([[0.0], np.cumsum(rows)])
    marks = before[-1] * np.arange(1, MOST_BINS) / MOST_BINS
    inner = np.searchsorted(before, marks, side="left")
    return np.unique(np.concatenate([[0], inner, [len(rows)]]))


def _lengths(taxonomy: Taxonomy, own: BoolArray) -> FloatArray:
    """What each leaf stands for: numbers up to half the way to the next, `own` values alike."""
    lengths = own.astype(np.float64)
    if taxonomy.leaves and numeric(taxonomy):
        placed = np.array([ordered(leaf) for leaf in taxonomy.leaves])
        halves = np.diff(positions(taxonomy)[placed]) / 2
        if len(halves):
            lengths[:] = 0.0
            lengths[placed] = np.append(halves[0], halves) + np.append(halves, halves[-1])
    missing = [place for place, leaf in enumerate(taxonomy.leaves) if leaf is None]
    lengths[missing] = 0.0
    return lengths


def _may_be_above(label: Leaf) -> bool:
    """Whether a text may be another label than that of the value it spells."""
    return isinstance(label, str) and not stands_for_itself(label)


def _closed(column: Column) -> bool:
    """Whether the hierarchy names the only values there can be."""
    return column.hierarchy is not None and column.hierarchy.declared is not None
