"""Columns as few numbers from 0: stretches of equal width between declared bounds, or values.

Everything that is counted by naive Bayes and by trees is counted over these numbers. They are made
of the coordinates of `features`, so that what bounds a stretch is the schema alone: a number that
is missing lies in the middle, and a declared column's missing or unknown value is one more value.

Decision `learn-tables`.
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
"""The most stretches that a column is cut into: whole numbers then tell the points of a grid."""

MOST_CLASSES = 64
"""The most classes that are told apart; noise is added to each of them."""


@dataclass(frozen=True)
class BinnedSpace:
    """Some columns, each as a number from 0 to its size less one, by what is declared alone."""

    space: FeatureSpace
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, columns: tuple[Column, ...], bins: int) -> BinnedSpace:
        """Cut columns into so many stretches, or fewer where fewer points or values are declared.

        A column of two values has a third number only where values may be missing; one of more
        values always has one more, for what is not declared.
        """
        space, sizes = FeatureSpace(columns), []
        for column, one in zip(columns, space.encodings, strict=True):
            if isinstance(one, OneHot):
                sizes.append(len(one.values) + 1)
            elif isinstance(one, Switch):
                sizes.append(3 if column.nullable else 2)
            else:
                sizes.append(min(bins, one.grid.points) if isinstance(one, Stepped) else bins)
        return cls(space, tuple(sizes))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(column.name for column in self.space.columns)

    @cached_property
    def nominal(self) -> tuple[bool, ...]:
        """Which columns have numbers without an order."""
        return tuple(isinstance(one, OneHot) for one in self.space.encodings)

    def layer(self) -> dict[str, exp.Expr]:
        """The SQL of every column's number, of its coordinates."""
        trees = {}
        for place, (block, size) in enumerate(zip(self.space.blocks, self.sizes, strict=True)):
            if self.nominal[place]:
                trees[f"sf_b{place}"] = _which(block, size - 1)
            else:
                found = exp.cast(coordinate(block[0]), "BIGINT")
                along = exp.Paren(this=found + literal(GRID)) * literal(size)
                whole = exp.IntDiv(this=exp.Paren(this=along), expression=literal(2 * GRID + 1))
                trees[f"sf_b{place}"] = exp.cast(whole, "BIGINT")
        return trees

    def encode(self, table: pa.Table) -> IntArray:
        """The same numbers of a table in memory, (rows, columns)."""
        places = np.rint(self.space.encode(table) * GRID).astype(np.int64)
        numbers = np.empty((table.num_rows, len(self.sizes)), dtype=np.int64)
        for column, (block, size) in enumerate(zip(self.space.blocks, self.sizes, strict=True)):
            some = places[:, block.start : block.stop]
            if self.nominal[column]:
                inside = some == GRID
                numbers[:, column] = np.where(inside.any(axis=1), inside.argmax(axis=1), size - 1)
            else:
                numbers[:, column] = (some[:, 0] + GRID) * size // (2 * GRID + 1)
        return numbers

    def question(self, column: int, cut: int) -> str:
        """What is asked of a column: whether it is a value, or lies behind so many stretches."""
        name, one = self.names[column], self.space.encodings[column]
        if isinstance(one, OneHot):
            return f"{one.names[cut]}?"
        if isinstance(one, Switch):
            return f"{name} = {one.values[1]}?" if self.sizes[column] == 2 else f"{name} > {cut}?"
        bounds = self.space.columns[column].public_domain
        assert isinstance(bounds, Bounds)
        along = Fraction((cut + 1) * (2 * GRID + 1), 2 * GRID * self.sizes[column])
        if isinstance(bounds.low, date) and isinstance(bounds.high, date):
            days = (bounds.high - bounds.low).days
            gone = timedelta(days=math.floor(min(along, Fraction(1)) * days))
            return f"{name} after {bounds.low + gone}?"
        return f"{name} > {float(bounds.low) + float(along) * float(bounds.span):.6g}?"  # type: ignore[arg-type]

    def facts(self) -> dict[str, Any]:
        """What a model must know of the columns, in JSON form."""
        return {**self.space.facts(), "sizes": list(self.sizes)}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> BinnedSpace:
        """The space that `facts` tells of; refused where no space tells that."""
        space, sizes = FeatureSpace.from_facts(facts), tuple(map(int, facts["sizes"]))
        found = cls(space, sizes)
        for nominal, block, size in zip(found.nominal, space.blocks, sizes, strict=True):
            if not (size == len(block) + 1 if nominal else 1 <= size <= MOST_BINS):
                raise ValueError("sizes that no space has")
        return found


@dataclass(frozen=True)
class ClassLabels:
    """The declared values of a target, numbered from 0; rows of no such value are left out."""

    column: Column

    @classmethod
    def of(cls, target: Column) -> ClassLabels:
        """The classes of a column; refused where they are not declared, or are too many."""
        domain = target.public_domain
        if domain is None and target.kind is Kind.BOOLEAN:
            domain = Values((False, True))
        if isinstance(domain, Bounds) and target.kind is Kind.INTEGER and (size := domain.size):
            first, step = int(domain.low), int(domain.grid_step or 1)  # type: ignore[arg-type]
            many = min(size, MOST_CLASSES + 1)
            domain = Values(tuple(first + step * one for one in range(many)))
        if not isinstance(domain, Values) or len(domain.values) > MOST_CLASSES:
            raise ParameterError(
                "column_unsuitable",
                f"Column {quoted(target.name)} does not declare from 1 to {MOST_CLASSES} values, "
                "so that it cannot be told as a class. Declare them as values = [...] in the "
                "schema, or learn a model of numbers.",
            )
        return cls(replace(target, domain=domain, nullable=False))

    @cached_property
    def values(self) -> pa.Array:
        """The classes in their order."""
        axis = declared(self.column)
        assert isinstance(axis, Listed)
        return axis.values

    def __len__(self) -> int:
        return len(self.values)

    def expression(self) -> exp.Expr:
        """The SQL of a row's class by number: -1 for none."""
        trees = FeatureSpace((self.column,)).expressions()
        marks = [(trees[0], -GRID), (trees[0], GRID)] if len(self) == 2 else []
        case = exp.case()
        for number, (tree, mark) in enumerate(marks or [(one, GRID) for one in trees]):
            case = case.when(tree.copy().eq(literal(mark)), literal(number))
        return exp.cast(case.else_(literal(-1)), "BIGINT")

    def facts(self) -> dict[str, Any]:
        """What a model must know of the classes, in JSON form."""
        told: dict[str, Any] = FeatureSpace((self.column,)).facts()["columns"][0]
        return told

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> ClassLabels:
        """The classes that `facts` tells of."""
        return cls.of(FeatureSpace.from_facts({"columns": [facts]}).columns[0])


def _which(block: range, otherwise: int) -> exp.Expr:
    """Which of a column's coordinates is the one that it has."""
    case = exp.case()
    for number, place in enumerate(block):
        case = case.when(coordinate(place).eq(literal(GRID)), literal(number))
    return exp.cast(case.else_(literal(otherwise)), "BIGINT")


# Exact counts of rows by class and by several numbers, each by itself, in one pass.
#
# All tables are laid one behind the other. A row lists its cell of each, and one query counts
# what is
# listed, so that d tables cost one reading of the rows. Where rows belong to people they have
# weights
# in whole parts of 2^-17 rows (`counting.contribution.weigh_rows`), which add up to at most
# `max_rows` rows a person, wherever the rows fall. So a person moves each table by no more than
# `max_rows` rows in L1 and in L2, and all of the tables that part the rows in the same way, such
# as
# the nodes of a level, by as much together.
#
# *Range*: a weight is at most 2^17; sums of 2^45 rows fit 64 bits. Decision `learn-tables`.

CLASS, _CELL, _COUNT = "sf_class", "sf_cell", "sf_rows_counted"

Key = tuple[str, int]
"""A number of a row by its name in a layer, and how many numbers there are."""


@dataclass(frozen=True)
class ClassCounter:
    """Counts the rows of a data set that have a class, by class and by numbers of theirs."""

    data: Dataset
    space: BinnedSpace
    labels: ClassLabels

    @property
    def bins(self) -> list[Key]:
        """The number of every column."""
        return [(f"sf_b{place}", size) for place, size in enumerate(self.space.sizes)]

    def tables(
        self, keys: Sequence[Key], *, within: Key | None = None, layer: Layer | None = None
    ) -> list[IntArray]:
        """For every key its table, (classes, size), in parts of `whole_row`.

        A layer names further numbers, made of the columns' numbers. `within` is one of them, by
        which every table is parted: then (parts, classes, size).
        """
        base = [(CLASS, len(self.labels))]
        if within is not None:
            base = [within, *base]
        parts = [many for _, many in base]
        ends = list(accumulate(prod(parts) * size for _, size in keys))
        answer = self.data.engine.run(self._query(keys, base, [0, *ends[:-1]], layer))
        cells, counts = (np.asarray(one, dtype=np.int64) for one in answer.columns)
        flat = np.zeros(ends[-1], dtype=np.int64)
        flat[cells] = counts
        tables = np.split(flat, ends[:-1])
        return [one.reshape(*parts, size) for one, (_, size) in zip(tables, keys, strict=True)]

    def _query(
        self, keys: Sequence[Key], base: Sequence[Key], starts: Sequence[int], layer: Layer | None
    ) -> exp.Select:
        """How many rows each cell of the tables has, laid one behind the other."""
        part: exp.Expr = literal(0)
        for name, size in base:
            part = exp.Paren(this=part * literal(size) + exp.column(name))
        cells = [
            exp.cast(literal(start) + part * literal(size) + exp.column(name), "BIGINT")
            for (name, size), start in zip(keys, starts, strict=True)
        ]
        weighed = self.data.unit.by_person
        kept = [exp.column(WEIGHT)] if weighed else []
        each = exp.alias_(exp.Explode(this=exp.Array(expressions=cells)), _CELL, copy=False)
        rows = exp.select(*kept, each).from_(
            self._rows(layer).subquery("sf_numbered", copy=False), copy=False
        )
        held = exp.Sum(this=exp.column(WEIGHT)) if weighed else exp.Count(this=exp.Star())
        return (
            exp.select(exp.column(_CELL), exp.alias_(exp.cast(held, "BIGINT"), _COUNT))
            .from_(rows.subquery("sf_counted", copy=False), copy=False)
            .group_by(exp.column(_CELL), copy=False)
        )

    def _rows(self, layer: Layer | None) -> exp.Query:
        """The rows that have a class, with their weight, numbers, and what the layer adds."""
        data = self.data
        trees = self.space.space.expressions()
        named = [exp.alias_(tree, f"sf_x{place}", copy=False) for place, tree in enumerate(trees)]
        label = exp.alias_(self.labels.expression(), CLASS, copy=False)
        rows: exp.Select = exp.select(label, *named).from_(data.table.copy(), copy=False)
        if data.unit.by_person:
            assert data.unit.column is not None
            person = exp.alias_(exp.column(data.unit.column, quoted=True), PERSON)
            rows = rows.select(person, copy=False)
        rows = _over(data.engine.traits.once(rows), "sf_labelled").where(
            exp.column(CLASS) >= literal(0), copy=False
        )
        if data.unit.by_person:
            rows = weigh_rows(rows, data.unit)
        return layered(rows, [self.space.layer(), layer or {}], data.engine.traits.once)


def table_sensitivity(unit: Unit) -> Sensitivity:
    """How far a person moves one table of counts by class, in parts of `whole_row`."""
    rows, part = count_sensitivity(unit, grouped=True), whole_row(unit)
    return Sensitivity(l1=rows.l1 * part, l2_squared=rows.l2_squared * part**2)


def _over(rows: exp.Query, name: str) -> exp.Select:
    return exp.select(exp.Star()).from_(rows.subquery(name, copy=False), copy=False)
