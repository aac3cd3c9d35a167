"""Binned columns and class labels, and exact counts of rows by class and bin.

A number is cut into bins of equal width between its declared bounds; a column of declared values
has a bin for each value. Naive Bayes and trees count over these bins. Bins are computed from the
coordinates of `features`, so that their edges follow from the schema alone: a missing number lies
in the middle bin, and a missing or undeclared value has a bin of its own.

Decision `learning`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import date, timedelta
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

from sfumato.data.counting.axes import Listed, declared, literal
from sfumato.data.counting.contribution import PERSON, WEIGHT, weigh_rows
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.names import quoted
from sfumato.data.schema.unit import Sensitivity, count_sensitivity
from sfumato.errors import ParameterError
from sfumato.methods.learn.features import GRID, FeatureSpace, OneHot, Stepped, Switch
from sfumato.methods.learn.row_sums import coordinate, layered, whole_row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from sfumato.arrays import IntArray
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.unit import Unit
    from sfumato.methods.learn.row_sums import Layer
    from sfumato.methods.method import Dataset


MOST_BINS = 64
"""The most bins of a column."""

MOST_CLASSES = 64
"""The most classes of a target; noise is added to the counts of each."""


@dataclass(frozen=True)
class BinnedSpace:
    """Columns as bin numbers from 0 to the size less one, from their declarations alone."""

    space: FeatureSpace
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, columns: tuple[Column, ...], bins: int) -> BinnedSpace:
        """Cut columns into `bins` bins, or fewer if fewer points or values are declared.

        A column of two values has a third bin only if values may be missing; a column of more
        values always has one more bin, for undeclared values.
        """
        space, sizes = FeatureSpace(columns), []
        for column, encoding in zip(columns, space.encodings, strict=True):
            if isinstance(encoding, OneHot):
                # One more bin, because rows may hold values that are not declared.
                sizes.append(len(encoding.values) + 1)
            elif isinstance(encoding, Switch):
                sizes.append(3 if column.nullable else 2)
            else:
                points = encoding.grid.points if isinstance(encoding, Stepped) else bins
                sizes.append(min(bins, points))
        return cls(space, tuple(sizes))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.space.columns)

    @cached_property
    def nominal(self) -> tuple[bool, ...]:
        """Which columns have bins without an order."""
        return tuple(isinstance(encoding, OneHot) for encoding in self.space.encodings)

    def layer(self) -> dict[str, exp.Expr]:
        """The SQL of every column's bin number, from its coordinates."""
        codes = {}
        for number, (block, size) in enumerate(zip(self.space.blocks, self.sizes, strict=True)):
            if self.nominal[number]:
                codes[f"sf_b{number}"] = _value_code(block, size - 1)
            else:
                position = exp.cast(coordinate(block[0]), "BIGINT")
                scaled = exp.Paren(this=position + literal(GRID)) * literal(size)
                bin_code = exp.IntDiv(this=exp.Paren(this=scaled), expression=literal(2 * GRID + 1))
                codes[f"sf_b{number}"] = exp.cast(bin_code, "BIGINT")
        return codes

    def encode(self, table: pa.Table) -> IntArray:
        """The same bin numbers of a table in memory, (rows, columns)."""
        coordinates = np.rint(self.space.encode(table) * GRID).astype(np.int64)
        numbers = np.empty((table.num_rows, len(self.sizes)), dtype=np.int64)
        for column, (block, size) in enumerate(zip(self.space.blocks, self.sizes, strict=True)):
            block_coordinates = coordinates[:, block.start : block.stop]
            if self.nominal[column]:
                is_value = block_coordinates == GRID
                numbers[:, column] = np.where(
                    is_value.any(axis=1), is_value.argmax(axis=1), size - 1
                )
            else:
                numbers[:, column] = (block_coordinates[:, 0] + GRID) * size // (2 * GRID + 1)
        return numbers

    def question(self, column: int, cut: int) -> str:
        """The question of a split in words: "city=Rome?", or "age > 40?"."""
        name, encoding = self.names[column], self.space.encodings[column]
        if isinstance(encoding, OneHot):
            return f"{encoding.names[cut]}?"
        if isinstance(encoding, Switch):
            binary = self.sizes[column] == 2
            return f"{name} = {encoding.values[1]}?" if binary else f"{name} > {cut}?"
        bounds = self.space.columns[column].public_domain
        assert isinstance(bounds, Bounds)
        fraction = Fraction((cut + 1) * (2 * GRID + 1), 2 * GRID * self.sizes[column])
        if isinstance(bounds.low, date) and isinstance(bounds.high, date):
            days = (bounds.high - bounds.low).days
            elapsed = timedelta(days=math.floor(min(fraction, Fraction(1)) * days))
            return f"{name} after {bounds.low + elapsed}?"
        return f"{name} > {float(bounds.low) + float(fraction) * float(bounds.span):.6g}?"  # type: ignore[arg-type]

    def facts(self) -> dict[str, Any]:
        """The declarations and sizes that a model needs, in JSON form."""
        return {**self.space.facts(), "sizes": list(self.sizes)}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> BinnedSpace:
        """Rebuild the space from its `facts`; ValueError if the sizes do not fit the columns."""
        space, sizes = FeatureSpace.from_facts(facts), tuple(map(int, facts["sizes"]))
        binned = cls(space, sizes)
        for nominal, block, size in zip(binned.nominal, space.blocks, sizes, strict=True):
            if not (size == len(block) + 1 if nominal else 1 <= size <= MOST_BINS):
                raise ValueError("sizes do not fit the columns")
        return binned


@dataclass(frozen=True)
class ClassLabels:
    """The declared values of a target, numbered from 0; rows with other values are not counted."""

    column: Column

    @classmethod
    def of(cls, target: Column) -> ClassLabels:
        """The classes of a column, or a refusal if they are not declared or too many."""
        domain = target.public_domain
        if domain is None and target.kind is Kind.BOOLEAN:
            domain = Values((False, True))
        if isinstance(domain, Bounds) and target.kind is Kind.INTEGER and (size := domain.size):
            first, step = int(domain.low), int(domain.grid_step or 1)  # type: ignore[arg-type]
            count = min(size, MOST_CLASSES + 1)
            domain = Values(tuple(first + step * index for index in range(count)))
        # Undeclared classes are private; and every class gets noise of its own.
        if not isinstance(domain, Values) or len(domain.values) > MOST_CLASSES:
            raise ParameterError(
                "column_unsuitable",
                f"Column {quoted(target.name)} does not declare from 1 to {MOST_CLASSES} values, "
                "so that it cannot be predicted as a class. Declare them as values = [...] in the "
                "schema, or learn a model of numbers.",
            )
        return cls(replace(target, domain=domain, nullable=False))

    @cached_property
    def values(self) -> pa.Array:
        """The classes in the order of their numbers."""
        axis = declared(self.column)
        assert isinstance(axis, Listed)
        return axis.values

    def __len__(self) -> int:
        return len(self.values)

    def expression(self) -> exp.Expr:
        """The SQL of a row's class number; -1 for a row without a class."""
        coordinates = FeatureSpace((self.column,)).expressions()
        # Two classes share one coordinate, from -GRID to GRID; more have an indicator each.
        conditions = [(indicator, GRID) for indicator in coordinates]
        if len(self) == 2:
            conditions = [(coordinates[0], -GRID), (coordinates[0], GRID)]
        case = exp.case()
        for number, (indicator, value) in enumerate(conditions):
            case = case.when(indicator.copy().eq(literal(value)), literal(number))
        return exp.cast(case.else_(literal(-1)), "BIGINT")

    def facts(self) -> dict[str, Any]:
        """The declaration of the classes, in JSON form."""
        facts: dict[str, Any] = FeatureSpace((self.column,)).facts()["columns"][0]
        return facts

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> ClassLabels:
        """Rebuild the classes from their `facts`."""
        return cls.of(FeatureSpace.from_facts({"columns": [facts]}).columns[0])


def _value_code(block: range, otherwise: int) -> exp.Expr:
    """The SQL of the position of the coordinate that is GRID, or `otherwise`."""
    case = exp.case()
    for number, position in enumerate(block):
        case = case.when(coordinate(position).eq(literal(GRID)), literal(number))
    return exp.cast(case.else_(literal(otherwise)), "BIGINT")


# Exact counts of rows by class and bin, several tables in one pass.
#
# The tables stand one behind the other in one range of cell numbers. Each row lists its cell in
# every table, and one query counts the listed cells, so that d tables cost one scan. If rows belong
# to people, a row has a weight in whole parts of 2^-17 rows (`counting.contribution.weigh_rows`),
# and the weights of a person add up to at most `max_rows` rows, wherever the rows fall.
#
# *Sensitivity*: a person moves each table by at most `max_rows` rows in L1 and in L2. The tables of
# the nodes of one level count disjoint rows, so that this bound holds for all of them together.
# *Range*: a weight is at most 2^17; sums of 2^45 rows fit 64 bits. Decision `learning`.

CLASS, _CELL, _COUNT = "sf_class", "sf_cell", "sf_rows_counted"

Key = tuple[str, int]
"""The name of a row's number in a layer, and the exclusive upper bound of that number."""


@dataclass(frozen=True)
class ClassCounter:
    """Counts the rows of a data set that have a class, by class and bin."""

    data: Dataset
    space: BinnedSpace
    labels: ClassLabels

    @property
    def bins(self) -> list[Key]:
        """The key of every column's bin."""
        return [(f"sf_b{number}", size) for number, size in enumerate(self.space.sizes)]

    def tables(
        self, keys: Sequence[Key], *, within: Key | None = None, layer: Layer | None = None
    ) -> list[IntArray]:
        """Return the exact table of every key, (classes, size), in parts of `whole_row`.

        A layer names further numbers that are computed from the bins. `within` is one of these
        numbers, such as the node of a tree: every table is then (nodes, classes, size).
        """
        base = [(CLASS, len(self.labels))]
        if within is not None:
            base = [within, *base]
        shape = [size for _, size in base]
        ends = list(accumulate(prod(shape) * size for _, size in keys))
        answer = self.data.engine.run(self._query(keys, base, [0, *ends[:-1]], layer))
        cells, counts = (np.asarray(column, dtype=np.int64) for column in answer.columns)
        flat = np.zeros(ends[-1], dtype=np.int64)
        flat[cells] = counts
        tables = np.split(flat, ends[:-1])
        return [table.reshape(*shape, size) for table, (_, size) in zip(tables, keys, strict=True)]

    def _query(
        self, keys: Sequence[Key], base: Sequence[Key], starts: Sequence[int], layer: Layer | None
    ) -> exp.Select:
        """The query that counts the rows of each cell of all tables."""
        class_cell: exp.Expr = literal(0)
        for name, size in base:
            class_cell = exp.Paren(this=class_cell * literal(size) + exp.column(name))
        cells = [
            exp.cast(literal(start) + class_cell * literal(size) + exp.column(name), "BIGINT")
            for (name, size), start in zip(keys, starts, strict=True)
        ]
        weighed = self.data.unit.by_person
        weight = [exp.column(WEIGHT)] if weighed else []
        cell = exp.alias_(exp.Explode(this=exp.Array(expressions=cells)), _CELL, copy=False)
        rows = exp.select(*weight, cell).from_(
            self._rows(layer).subquery("sf_numbered", copy=False), copy=False
        )
        row_count = exp.Sum(this=exp.column(WEIGHT)) if weighed else exp.Count(this=exp.Star())
        return (
            exp.select(exp.column(_CELL), exp.alias_(exp.cast(row_count, "BIGINT"), _COUNT))
            .from_(rows.subquery("sf_counted", copy=False), copy=False)
            .group_by(exp.column(_CELL), copy=False)
        )

    def _rows(self, layer: Layer | None) -> exp.Query:
        """The rows that have a class, with their weight, bins and the numbers of the layer."""
        data = self.data
        expressions = self.space.space.expressions()
        named = [
            exp.alias_(expression, f"sf_x{number}", copy=False)
            for number, expression in enumerate(expressions)
        ]
        label = exp.alias_(self.labels.expression(), CLASS, copy=False)
        rows: exp.Select = exp.select(label, *named).from_(data.table.copy(), copy=False)
        if data.unit.by_person:
            assert data.unit.column is not None
            person = exp.alias_(exp.column(data.unit.column, quoted=True), PERSON)
            rows = rows.select(person, copy=False)
        # Before the weights: rows without a class must not use up a person's weight.
        rows = _select_all(data.engine.traits.once(rows), "sf_labelled").where(
            exp.column(CLASS) >= literal(0), copy=False
        )
        if data.unit.by_person:
            rows = weigh_rows(rows, data.unit)
        return layered(rows, [self.space.layer(), layer or {}], data.engine.traits.once)


def table_sensitivity(unit: Unit) -> Sensitivity:
    """The sensitivity of one table of counts by class to a person, in parts of `whole_row`."""
    rows, parts_per_row = count_sensitivity(unit, grouped=True), whole_row(unit)
    return Sensitivity(l1=rows.l1 * parts_per_row, l2_squared=rows.l2_squared * parts_per_row**2)


def _select_all(rows: exp.Query, name: str) -> exp.Select:
    return exp.select(exp.Star()).from_(rows.subquery(name, copy=False), copy=False)
