"""A quasi-identifier: its hierarchy, what each label covers, and how codes become leaves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.recoding import ColumnMap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.axes import Axis
    from sfumato.frequencies import Frequencies
    from sfumato.schema.hierarchy.base import Taxonomy


@dataclass(frozen=True, eq=False)
class Labels:
    """What labels of one column cover: leaves of the hierarchy, rows of the original, steps up.

    They may be the labels of a whole level, or one label for each class of a partition.
    """

    leaves: NDArray[np.int64]
    rows: NDArray[np.int64]
    level: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Quasi:
    """A quasi-identifier of the original table.

    `present` are the codes of its axis that occur and `rows` counts the rows of each leaf.
    """

    axis: Axis
    taxonomy: Taxonomy
    present: NDArray[np.int64]
    leaves: NDArray[np.int32]
    rows: NDArray[np.int64]

    @classmethod
    def build(cls, name: str, taxonomy: Taxonomy, tables: Sequence[Frequencies]) -> Quasi:
        """Find the leaf of every value; the first table is the one to anonymize."""
        marginal = tables[0].marginal([name])
        present = marginal.codes[0].astype(np.int64)
        leaves = taxonomy.locate(marginal.axes[0].decode(present).to_pylist())
        rows = np.bincount(leaves, marginal.counts, len(taxonomy.leaves)).astype(np.int64)
        return cls(marginal.axes[0], taxonomy, present, leaves, rows)

    @property
    def name(self) -> str:
        """The column's name."""
        return self.axis.column

    @cached_property
    def levels(self) -> tuple[Labels, ...]:
        """What the labels of each level cover."""
        found = []
        for level, sizes in enumerate(self.taxonomy.sizes):
            rows = np.bincount(self.taxonomy.codes[:, level], self.rows, len(sizes))
            found.append(Labels(sizes, rows.astype(np.int64), np.full(len(sizes), level)))
        return tuple(found)

    def locate(self, table: Frequencies) -> NDArray[np.int32]:
        """The leaf of each combination of a table."""
        place = table.columns.index(self.name)
        codes = table.codes[place]
        present = np.unique(codes)
        leaves = self.taxonomy.locate(table.axes[place].decode(present).to_pylist())
        found: NDArray[np.int32] = leaves[np.searchsorted(present, codes)]
        return found

    def released(self, level: int) -> ColumnMap:
        """The map of the values that occur to the labels of a level."""
        import pyarrow as pa

        codes = self.taxonomy.codes[self.leaves, level]
        labels = pa.array(self.taxonomy.labels[level], type=pa.string())
        values = self.axis.decode(self.present)
        return ColumnMap(self.name, values, labels.take(pa.array(codes)), pa.array(codes))
