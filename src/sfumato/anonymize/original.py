"""The original table: its quasi-identifiers, its sensitive values in their order, its people.

Decision `schemas`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.anonymize.classes import Original
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Values
from sfumato.data.schema.names import quoted
from sfumato.errors import SourceError
from sfumato.release.recoding import ColumnMap

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray
    from sqlglot import exp

    from sfumato.anonymize.classes import Counts
    from sfumato.arrays import IntArray
    from sfumato.data.counting.axes import Axis
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.domain import Scalar
    from sfumato.data.schema.hierarchy import Leaf, Taxonomy


@dataclass(frozen=True, eq=False)
class Labels:
    """The leaves, original rows and levels that labels of one column cover.

    They may be the labels of a whole level, or one label for each class of a partition.
    """

    leaves: IntArray
    rows: IntArray
    level: IntArray


@dataclass(frozen=True, eq=False)
class United:
    """Values of a column that the engine unites by `key` from a `level` of its hierarchy on.

    `values` says how many there are behind each key, in the order of the axis, and `bits` has the
    sum of n log2 n over all of them, n their rows: what cannot be known from the keys.
    """

    level: int
    key: Callable[[exp.Expr], exp.Expr]
    values: IntArray
    bits: float


@dataclass(frozen=True, eq=False)
class Quasi:
    """A quasi-identifier of the original table.

    `present` are the codes of its axis that occur and `rows` counts the rows of each leaf. Where
    its values are too many to be held, `united` says how values that lie together stand as one.
    """

    axis: Axis
    taxonomy: Taxonomy
    present: IntArray
    leaves: NDArray[np.int32]
    rows: IntArray
    united: United | None = None

    @classmethod
    def build(
        cls, name: str, taxonomy: Taxonomy, table: Frequencies, united: United | None = None
    ) -> Quasi:
        """Find the leaf of every value of the table to anonymize."""
        marginal = table.marginal([name])
        present = marginal.codes[0].astype(np.int64)
        leaves = taxonomy.locate(marginal.axes[0].decode(present).to_pylist())
        rows = np.bincount(leaves, marginal.counts, len(taxonomy.leaves)).astype(np.int64)
        return cls(marginal.axes[0], taxonomy, present, leaves, rows, united)

    @property
    def name(self) -> str:
        """The column's name."""
        return self.axis.column

    @cached_property
    def levels(self) -> tuple[Labels, ...]:
        """What the labels of each level cover."""
        labels = []
        for level, sizes in enumerate(self.taxonomy.sizes):
            codes, count = self.taxonomy.codes[:, level], len(sizes)
            rows = np.bincount(codes, self.rows, count).astype(np.int64)
            leaves = sizes
            if self.united is not None:
                leaves = np.bincount(codes, self._widths, count).astype(np.int64)
            labels.append(Labels(leaves, rows, np.full(count, level)))
        return tuple(labels)

    @cached_property
    def _widths(self) -> IntArray:
        """How many values each leaf stands for."""
        widths = np.zeros(len(self.taxonomy.leaves), dtype=np.int64)
        assert self.united is not None
        widths[self.leaves] = self.united.values
        return widths

    @property
    def breadth(self) -> int:
        """How many leaves the hierarchy has, those that stand as one counted each."""
        return len(self.taxonomy.leaves) if self.united is None else int(self.united.values.sum())

    def locate(self, table: Frequencies) -> NDArray[np.int32]:
        """Return the leaf of each combination of a table."""
        index = table.columns.index(self.name)
        codes = table.codes[index]
        present = np.unique(codes)
        leaves = self.taxonomy.locate(table.axes[index].decode(present).to_pylist())
        located: NDArray[np.int32] = leaves[np.searchsorted(present, codes)]
        return located

    def released(self, level: int) -> ColumnMap:
        """Return the map from the values that occur to the labels of a level."""
        import pyarrow as pa

        codes = self.taxonomy.codes[self.leaves, level]
        labels = pa.array(self.taxonomy.labels[level], type=pa.string())
        values = self.axis.decode(self.present)
        united = None if self.united is None else self.united.key
        return ColumnMap(self.name, values, labels.take(pa.array(codes)), pa.array(codes), united)

    def held(self, level: int) -> ColumnMap:
        """Return the map from values to the leaf that represents their label at a level."""
        import pyarrow as pa

        labels = self.taxonomy.codes[self.leaves, level]
        first = np.full(len(self.taxonomy.labels[level]), len(self.taxonomy.leaves), dtype=np.int32)
        # The first leaf that occurs stands for its label: the engine held that value for all of
        # them.
        np.minimum.at(first, labels, self.leaves)
        return replace(self.released(level), codes=pa.array(first[labels]))


_NATURAL = {
    Kind.INTEGER: "numbers by size",
    Kind.REAL: "numbers by size",
    Kind.DATE: "dates by time",
    Kind.BOOLEAN: "false before true",
    Kind.TEXT: "texts by alphabet, nothing being declared",
}


@dataclass(frozen=True)
class Order:
    """An order of values, and how a guarantee names it.

    `declared_ranks` has the rank of each declared value. Values that are not declared come after
    those that are, in the order in which they are given; a missing value (NULL) is the last of all.
    """

    name: str = "values by size or alphabet"
    declared_ranks: Mapping[Scalar, int] = field(default_factory=dict)

    def ranks(self, values: Sequence[Leaf | float]) -> IntArray:
        """Return the rank of each of some different values, given by size or alphabet."""
        behind = len(self.declared_ranks)
        sort_keys = [self._sort_key(value, behind) for value in values]
        ranks = np.empty(len(values), dtype=np.int64)
        ranks[np.argsort(np.array(sort_keys, dtype=np.int64), kind="stable")] = np.arange(
            len(values)
        )
        return ranks

    def _sort_key(self, value: Leaf | float, behind: int) -> int:
        if value is None:
            return behind + 1
        exact = Decimal(repr(value)) if isinstance(value, float) else value
        return self.declared_ranks.get(exact, behind)


def order_of(column: Column) -> Order:
    """Name the order of a column: of declared values, of the tree's leaves, or of its kind."""
    if isinstance(column.domain, Values):
        return Order("declared order of values", _number_values(column.domain.values))
    if column.hierarchy is not None and column.hierarchy.listed is not None:
        return Order("order of the hierarchy's leaves", _number_values(column.hierarchy.listed))
    return Order(_NATURAL[column.kind])


def _number_values(values: Sequence[Scalar]) -> dict[Scalar, int]:
    return {value: index for index, value in enumerate(values)}


@dataclass(frozen=True, eq=False)
class RowOwners:
    """The people of a table: the column that names them, and how many rows each has."""

    column: str
    rows: Counts

    @classmethod
    def of(cls, table: Frequencies, column: str) -> RowOwners:
        """Find the people of counted rows; refuse rows without a person."""
        marginal = table.marginal([column])
        nobody = marginal.axes[0].decode(marginal.codes[0]).is_null().to_numpy(zero_copy_only=False)
        if nobody.any():
            raise SourceError(
                "cell_malformed",
                f"Column {quoted(column)} identifies the person of a row, but "
                f"{int(marginal.counts[nobody].sum()):,} rows have no value there. Correct the "
                'data, or declare unit = "row".',
            )
        return cls(column, marginal.counts)

    @property
    def count(self) -> int:
        """How many people there are."""
        return len(self.rows)

    def most_rows(self, people: int) -> int:
        """Return how many rows so many people can have at most."""
        # The people with most rows: no choice of so many people suppresses more.
        return int(np.sort(self.rows)[::-1][:people].sum())


@dataclass(frozen=True, eq=False)
class SensitiveColumn:
    """A sensitive column of the original, and its values that occur, in their order."""

    original: Original
    values: list[Any]
    codes: NDArray[np.integer]

    @classmethod
    def of(
        cls,
        table: Frequencies,
        name: str,
        order: Order,
        taxonomy: Taxonomy | None = None,
        *,
        person: str | None = None,
    ) -> SensitiveColumn:
        """Count a column; where a person is named, each person once for each value."""
        marginal = table.marginal([name]) if person is None else table.people([name], person)
        occurs = np.flatnonzero(marginal.counts)
        values = marginal.axes[0].decode(marginal.codes[0][occurs]).to_pylist()
        by_rank = np.argsort(order.ranks(values))
        values, occurs = [values[index] for index in by_rank.tolist()], occurs[by_rank]
        leaves = None if taxonomy is None else taxonomy.locate(values)
        original = Original(name, marginal.counts[occurs], taxonomy, leaves, order.name)
        return cls(original, values, marginal.codes[0][occurs])

    def ranks(self, codes: NDArray[np.integer]) -> IntArray:
        """Return the rank of each code of the counted table."""
        by_code = np.zeros(int(self.codes.max()) + 1, dtype=np.int64)
        by_code[self.codes] = np.arange(len(self.codes))
        # A code that does not occur has no rows either, so its rank is never looked at.
        ranks: IntArray = by_code[np.minimum(codes, len(by_code) - 1)]
        return ranks
