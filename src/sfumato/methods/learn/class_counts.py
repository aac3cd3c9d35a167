"""Exact counts of rows by class and by several numbers, each by itself, in one pass.

All tables are laid one behind the other. A row lists its cell of each, and one query counts what is
listed, so that d tables cost one reading of the rows. Where rows belong to people they have weights
in whole parts of 2^-17 rows (`counting.contribution.weigh_rows`), which add up to at most
`max_rows` rows a person, wherever the rows fall. So a person moves each table by no more than
`max_rows` rows in L1 and in L2, and all of the tables that part the rows in the same way, such as
the nodes of a level, by as much together.

*Range*: a weight is at most 2^17; sums of 2^45 rows fit 64 bits. Decision `learn-tables`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from sqlglot import exp

from sfumato.data.counting.axes import literal
from sfumato.data.counting.contribution import PERSON, WEIGHT, weigh_rows
from sfumato.data.schema.unit import Sensitivity, count_sensitivity
from sfumato.methods.learn.moments import layered, whole_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import IntArray
    from sfumato.data.schema.unit import Unit
    from sfumato.methods.learn.bins import BinnedSpace, ClassLabels
    from sfumato.methods.learn.moments import Layer
    from sfumato.methods.method import Dataset

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
