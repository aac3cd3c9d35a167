"""Select the rows of a released table that certainly or possibly satisfy a predicate.

A row's label stands for any leaf that it covers, each column on its own. The leaves of a column are
grouped into kinds that no test distinguishes. A row can be of the kinds of its label's leaves, and
the predicate is decided for each combination of kinds. That is exact, even if a column occurs more
than once.

A range of reals, or a very wide one of integers, holds numbers that no label lists. No query
distinguishes the numbers between two neighbouring cuts (ends of ranges, values, constants of the
query), so one leaf represents all of them: a stretch. Decision `worlds`.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import cached_property
from itertools import pairwise, product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.anonymize.labels import members_of, plain_label
from sfumato.anonymize.taxonomy import declared, ends_of, grow, read_labels, universe
from sfumato.anonymize.worlds.bounds import SelectableRows
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import EXACT, Bounds
from sfumato.data.schema.hierarchy import ROOT
from sfumato.data.schema.toml_document import DOMAIN, add_line
from sfumato.errors import QueryError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sfumato.anonymize.taxonomy import Covers
    from sfumato.anonymize.worlds.question import Atom, Formula, Truth
    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.schema.domain import Scalar
    from sfumato.data.schema.hierarchy import Leaf, Taxonomy
    from sfumato.data.schema.schema import Schema

    Number = int | Decimal
    Stretches = Mapping[Leaf, tuple[Number, Number]]

_WEIGHT_UNITS = 1 << 40
"""Parts into which the whole width is divided; a single number weighs one part."""


@dataclass(frozen=True, eq=False)
class LeafNumbers:
    """The least and the greatest number that each leaf stands for, and how many they are."""

    low: FloatArray
    high: FloatArray
    weights: IntArray

    @classmethod
    def of(cls, leaves: Sequence[Leaf], stretches: Stretches) -> LeafNumbers:
        """Return the numbers of leaves; leaves that are not numbers are never summed."""
        ends = [stretches.get(leaf) or (_float(leaf), _float(leaf)) for leaf in leaves]
        low, high = np.array([(float(least), float(greatest)) for least, greatest in ends]).T
        weights = np.ones(len(leaves), dtype=np.int64)
        if stretches:
            first = min(start for start, _ in stretches.values())
            span = max(end for _, end in stretches.values()) - first
            for index, leaf in enumerate(leaves):
                if leaf in stretches:
                    weights[index] = _weight(*stretches[leaf], span)
        return cls(low, high, weights)

    @property
    def middle(self) -> FloatArray:
        """The mean of what each leaf stands for."""
        middle: FloatArray = self.low + (self.high - self.low) / 2
        return np.where(self.low == self.high, self.low, middle)


def stretches_between(
    column: Column, taxonomy: Taxonomy, labels: Iterable[Leaf], constants: Iterable[Any]
) -> Stretches:
    """Return additional leaves for numbers that no label lists, with the ends of each.

    The cuts are among them. Empty if every number that a label can cover is a leaf.
    """
    spans = _spans(column, labels)
    if not spans or declared(column):
        return {}
    first, last = min(low for low, _ in spans), max(high for _, high in spans)
    cuts = {end for span in spans for end in span}
    cuts |= {leaf for leaf in taxonomy.leaves if isinstance(leaf, int | Decimal) and _finite(leaf)}
    cuts |= {cut for constant in constants for cut in _cuts(constant, column, first, last)}
    stretches: dict[Leaf, tuple[Number, Number]] = {cut: (cut, cut) for cut in cuts}
    for start_cut, end_cut in pairwise(sorted(cuts)):
        if isinstance(start_cut, Decimal):
            middle = EXACT.multiply(EXACT.add(start_cut, Decimal(end_cut)), Decimal("0.5"))
            stretches[middle] = (start_cut, end_cut)
        elif end_cut - start_cut > 1:
            stretches[start_cut + 1] = (start_cut + 1, int(end_cut) - 1)
    return stretches


def _spans(column: Column, labels: Iterable[Leaf]) -> list[tuple[Number, Number]]:
    """Return the ends of bounds and of range labels, cut to the bounds."""
    if column.kind not in (Kind.INTEGER, Kind.REAL):
        return []
    bounds = column.domain if isinstance(column.domain, Bounds) else None
    spans: list[Any] = [] if bounds is None else [(bounds.low, bounds.high)]
    for label in labels:
        text = plain_label(column, label) if isinstance(label, str) else ""
        for member in members_of(text) or [text]:
            ends = None if member is None else ends_of(member, column)
            if ends is None or not _finite(ends[0]) or not _finite(ends[1]):
                continue
            low, high = ends[:2]
            if bounds is not None:
                low, high = max(low, bounds.low), min(high, bounds.high)
            if low <= high:  # type: ignore[operator]
                spans.append((low, high))
    return spans


def _cuts(constant: Decimal, column: Column, first: Number, last: Number) -> list[Number]:
    """Return a constant as a double, or the whole numbers next to it."""
    if not first <= constant <= last:
        return []
    if column.kind is Kind.REAL:
        return [Decimal(repr(float(constant)))]
    return [int(constant.to_integral_value(rounding)) for rounding in (ROUND_FLOOR, ROUND_CEILING)]


def _weight(low: Number, high: Number, span: Number) -> int:
    """Return the weight of a stretch among all; for integers their number, if all are few."""
    if isinstance(low, int) and span < _WEIGHT_UNITS:
        return int(high) - low + 1
    return max(1, int((Decimal(high) - Decimal(low)) / Decimal(span or 1) * _WEIGHT_UNITS))


def _finite(number: object) -> bool:
    return not isinstance(number, Decimal) or number.is_finite()


def _float(leaf: object) -> float:
    return float(leaf) if isinstance(leaf, int | Decimal) else 0.0


# The combinations of kinds over all columns are walked one by one.
_MOST_KINDS = 1 << 16


@dataclass(frozen=True, eq=False)
class ReleasedColumn:
    """One released column: what its labels cover, the label of each row, and numbers of leaves.

    `vague` are the labels that may stand for numbers which no leaf has.
    """

    covers: Covers
    labels: IntArray
    numbers: LeafNumbers
    vague: BoolArray


@dataclass(frozen=True, eq=False)
class Kinds:
    """The leaves of one column by the truth of the tests: the share of each kind in each label."""

    known: ReleasedColumn
    truths: tuple[tuple[Truth, ...], ...]
    kind: IntArray
    leaves: IntArray

    @classmethod
    def of(cls, known: ReleasedColumn, tests: Sequence[Atom]) -> Kinds:
        """Test every leaf."""
        values = known.covers.taxonomy.leaves
        rows = [tuple(test(value) for _, test, _ in tests) for value in values]
        kind_of_truths = {truths: index for index, truths in enumerate(dict.fromkeys(rows))}
        kind = np.array([kind_of_truths[truths] for truths in rows], dtype=np.int64)
        weights = known.numbers.weights
        leaves = np.array(
            [known.covers.count(weights * (kind == index)) for index in range(len(kind_of_truths))]
        )
        return cls(known, tuple(kind_of_truths), kind, leaves)

    @cached_property
    def shares(self) -> FloatArray:
        """The share of each kind in the leaves of each row's label."""
        shares: FloatArray = (self.leaves / self.leaves.sum(axis=0))[:, self.known.labels]
        return shares

    @cached_property
    def reached(self) -> BoolArray:
        """Which kinds each row can be of."""
        reached: BoolArray = (self.leaves > 0)[:, self.known.labels]
        return reached

    @cached_property
    def ends(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The least, the greatest and the mean number of each kind in each row's label."""
        covers, numbers = self.known.covers, self.known.numbers
        low = np.full(self.leaves.shape, np.inf)
        high = np.full(self.leaves.shape, -np.inf)
        mean = np.zeros(self.leaves.shape)
        single = np.flatnonzero(covers.leaves == 1)
        leaf = covers.low[single]
        sums = numbers.weights * numbers.middle
        for ends, mine in ((low, numbers.low), (high, numbers.high), (mean, sums)):
            ends[self.kind[leaf], single] = mine[leaf]
        for label in np.flatnonzero(covers.leaves > 1).tolist():
            inside = np.flatnonzero(covers.holding(label))
            kinds = self.kind[inside]
            np.minimum.at(low[:, label], kinds, numbers.low[inside])
            np.maximum.at(high[:, label], kinds, numbers.high[inside])
            np.add.at(mean[:, label], kinds, sums[inside])
        mean /= np.maximum(self.leaves, 1)
        labels = self.known.labels
        return low[:, labels], high[:, labels], mean[:, labels]


@dataclass(frozen=True, eq=False)
class Selected:
    """For each row: whether it is selected for certain or perhaps, how likely, with which number.

    `low` and `high` bound the number that it counts with if it is selected.
    """

    certain: BoolArray
    possible: BoolArray
    chance: FloatArray
    low: FloatArray
    high: FloatArray
    middle: FloatArray


class RowSelection:
    """A predicate over released rows."""

    def __init__(
        self,
        formula: Formula,
        columns: Mapping[str, ReleasedColumn],
        measure: str | None,
        rows: int,
    ) -> None:
        self.names = list(columns)
        self.measure, self.rows = measure, rows
        self.kinds = [
            Kinds.of(known, [atom for atom in formula.atoms if atom[0] == name])
            for name, known in columns.items()
        ]
        self._truths = self._true(formula)

    def _true(self, formula: Formula) -> list[tuple[int, ...]]:
        """Return the combinations of kinds that satisfy the predicate."""
        size = prod(len(kinds.truths) for kinds in self.kinds)
        if size > _MOST_KINDS:
            raise QueryError(
                "question_not_supported",
                f"The condition distinguishes {size:,} cases; at most {_MOST_KINDS:,} are "
                "possible. Use fewer or simpler conditions.",
            )
        satisfying = []
        for combination in product(*(range(len(kinds.truths)) for kinds in self.kinds)):
            truths = {
                name: iter(kinds.truths[kind])
                for name, kinds, kind in zip(self.names, self.kinds, combination, strict=True)
            }
            if formula.joined([next(truths[name]) for name, _, _ in formula.atoms]):
                satisfying.append(combination)
        return satisfying

    def select(self, fixed: tuple[str, Any] | None = None) -> Selected:
        """The state of every row; with `fixed`, if a column were of one leaf, for rows that can."""
        reached, shares = self._reachable(fixed)
        rows = self.rows
        hits, chance = np.zeros(rows, dtype=np.int64), np.zeros(rows)
        low, high, middle = np.full(rows, np.inf), np.full(rows, -np.inf), np.zeros(rows)
        place_of = None if self.measure is None else self.names.index(self.measure)
        for combination in self._truths:
            pairs = list(enumerate(combination))
            reach = np.logical_and.reduce([reached[at][kind] for at, kind in pairs])
            weight = np.multiply.reduce([shares[at][kind] for at, kind in pairs])
            hits += reach
            chance += weight
            if place_of is not None:
                ends = [end[combination[place_of]] for end in self.kinds[place_of].ends]
                np.minimum(low, np.where(reach, ends[0], np.inf), out=low)
                np.maximum(high, np.where(reach, ends[1], -np.inf), out=high)
                middle += np.where(reach, weight * ends[2], 0.0)
        if place_of is not None:
            known = self.kinds[place_of].known
            unknown = known.vague[known.labels] & (hits > 0)
            low[unknown], high[unknown] = np.nan, np.nan
        # A row is certain where every combination of kinds that it can be of satisfies the
        # condition.
        total = np.multiply.reduce([kinds.sum(axis=0) for kinds in reached])
        middle = np.divide(middle, chance, out=np.zeros(rows), where=chance > 0)
        return Selected(hits == total, hits > 0, np.minimum(chance, 1.0), low, high, middle)

    def _reachable(self, fixed: tuple[str, Any] | None) -> tuple[list[BoolArray], list[FloatArray]]:
        reached = [kinds.reached for kinds in self.kinds]
        shares = [kinds.shares for kinds in self.kinds]
        if fixed is not None:
            name, leaf = fixed
            index = self.names.index(name)
            only = np.zeros_like(reached[index])
            only[self.kinds[index].kind[leaf]] = True
            reached[index], shares[index] = only, only.astype(np.float64)
        return reached, shares


@dataclass(frozen=True, eq=False)
class ReleasedTable:
    """The columns that a question names, row by row as far as they differ, and how many of each."""

    columns: Mapping[str, ReleasedColumn]
    measure: str | None
    counts: IntArray

    @classmethod
    def of(
        cls,
        table: Frequencies,
        schema: Schema,
        where: Formula,
        measure: str | None,
        suppressed: bool = True,
    ) -> ReleasedTable:
        """Read the labels of the columns; rows that are blank everywhere may be anything.

        That is, if there can be `suppressed` ones.
        """
        for name in where.columns:
            if name not in table.columns:
                raise QueryError(
                    "column_unknown",
                    f"The question names column {name!r}, which the release has not; it has "
                    f"{', '.join(map(repr, table.columns))}.",
                )
        starred = _is_starred(table) & suppressed
        columns = {
            name: _known(schema.column(name), table, starred, where.constants(name))
            for name in where.columns
        }
        for name, known in columns.items():
            if name != measure and known.vague.any():
                raise _endless(schema.column(name))
        return cls(columns, measure, table.counts)

    def select(self, formula: Formula) -> tuple[RowSelection, Selected]:
        """Return which rows a predicate selects."""
        selection = RowSelection(formula, self.columns, self.measure, len(self.counts))
        return selection, selection.select()

    def choice(self, selected: Selected) -> SelectableRows:
        """Each row by itself may be taken or not, or must be."""
        return SelectableRows(
            np.arange(len(self.counts)),
            self.counts,
            selected.low,
            selected.high,
            selected.middle,
            selected.chance,
            np.where(selected.certain, self.counts, 0),
            np.where(selected.possible, self.counts, 0),
        )


def _is_starred(table: Frequencies) -> BoolArray:
    """Return which combinations are blank in every column, and so suppressed."""
    starred = np.ones(len(table), dtype=bool)
    for axis, codes in zip(table.axes, table.codes, strict=True):
        present, numbers = np.unique(codes, return_inverse=True)
        blank = [value is None or value == ROOT for value in axis.decode(present).to_pylist()]
        starred &= np.array(blank, dtype=bool)[numbers]
    return starred


def _known(
    column: Column, table: Frequencies, starred: BoolArray, constants: set[Any]
) -> ReleasedColumn:
    """Read one column; cells of suppressed rows have the root as label."""
    index = table.columns.index(column.name)
    present, numbers = np.unique(table.codes[index], return_inverse=True)
    texts = table.axes[index].decode(present).to_pylist()
    labels = np.where(starred, len(texts), numbers)
    used = np.unique(labels)
    texts = [[*texts, ROOT][label] for label in used.tolist()]
    # Values that were never generalized are their own labels: nothing need be declared of them.
    plain = column.role is not Role.QUASI and ROOT not in texts
    declared = Column(column.name, column.kind, spelling=column.spelling) if plain else column
    taxonomy = universe(declared, [*texts, *([] if plain else _outermost(column))])
    vague = np.array([text == ROOT and not _has_bounds(column) for text in texts], dtype=bool)
    if not taxonomy.leaves:
        raise _endless(column)
    stretches = stretches_between(declared, taxonomy, texts, constants)
    if stretches:
        taxonomy = grow(declared, [*taxonomy.leaves, *stretches])
    covers = read_labels(column, taxonomy, texts)
    numbers = LeafNumbers.of(taxonomy.leaves, stretches)
    return ReleasedColumn(covers, np.searchsorted(used, labels), numbers, vague)


def _endless(column: Column) -> SchemaError:
    """Return the error for a star in a column without declared values: nothing bounds it."""
    return SchemaError(
        "domain_missing",
        f"Column {column.name!r} has cells that say nothing, and its schema does not declare what "
        f"they can be, so no bound holds. {add_line(column.name, DOMAIN[column.kind])}",
    )


def _outermost(column: Column) -> Sequence[Scalar]:
    """Return the bounds as leaves, even if their grid is too fine to list."""
    return (column.domain.low, column.domain.high) if isinstance(column.domain, Bounds) else ()


def _has_bounds(column: Column) -> bool:
    """Return whether the schema bounds the numbers of the column."""
    return column.domain is not None or (
        column.hierarchy is not None and column.hierarchy.declared is not None
    )
