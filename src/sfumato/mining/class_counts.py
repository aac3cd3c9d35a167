"""Exact counts of rows by class and by several numbers, each by itself, in one pass.

One query groups by every number beside the class (GROUPING SETS), so that d tables of counts cost
one reading of the rows. Where rows belong to people they have weights in whole parts of 2^-17 rows
(`counting.contribution.weigh_rows`), which add up to at most `max_rows` rows a person, wherever the
rows fall. So a person moves each table by no more than `max_rows` rows in L1 and in L2, and all of
the tables that part the rows in the same way, such as the nodes of a level, by as much together.

*Range*: a weight is at most 2^17; sums of 2^45 rows fit 64 bits. Decision 0460.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sqlglot import exp

from sfumato.counting.axes import literal
from sfumato.counting.contribution import PERSON, WEIGHT, weigh_rows
from sfumato.mining.moments import whole_row
from sfumato.privacy.units import Sensitivity, count_sensitivity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.method import Dataset
    from sfumato.mining.bins import BinnedSpace, ClassLabels
    from sfumato.mining.moments import Layer
    from sfumato.privacy.units import Unit

CLASS, _COUNT = "sf_class", "sf_rows_counted"

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
    ) -> list[NDArray[np.int64]]:
        """For every key its table, (classes, size), in parts of `whole_row`.

        A layer names further numbers, made of the columns' numbers. `within` is one of them, by
        which every table is parted: then (parts, classes, size).
        """
        base = (
            [(CLASS, len(self.labels))] if within is None else [within, (CLASS, len(self.labels))]
        )
        answer = self.data.engine.run(self._query(keys, [name for name, _ in base], layer))
        columns = [one.to_numpy(zero_copy_only=False) for one in answer.columns]
        counts, found = columns[-1].astype(np.int64), []
        groups = [column.astype(np.int64) for column in columns[: len(base)]]
        for (_, size), column in zip(keys, columns[len(base) : -1], strict=True):
            table = np.zeros((*(many for _, many in base), size), dtype=np.int64)
            # Of the rows of another set this number is NULL, which comes as NaN or None.
            mine = ~_missing(column)
            places = (*(one[mine] for one in groups), column[mine].astype(np.int64))
            np.add.at(table, places, counts[mine])
            found.append(table)
        return found

    def _query(self, keys: Sequence[Key], base: Sequence[str], layer: Layer | None) -> exp.Select:
        names = [name for name, _ in keys]
        sets = [exp.Tuple(expressions=[exp.column(one) for one in (*base, name)]) for name in names]
        weight = (
            exp.Sum(this=exp.column(WEIGHT))
            if self.data.unit.by_person
            else exp.Count(this=exp.Star())
        )
        query = exp.select(
            *(exp.alias_(exp.cast(exp.column(one), "BIGINT"), one) for one in (*base, *names)),
            exp.alias_(exp.cast(weight, "BIGINT"), _COUNT),
        ).from_(self._rows(layer).subquery("sf_counted", copy=False), copy=False)
        query.set("group", exp.Group(grouping_sets=[exp.GroupingSets(expressions=sets)]))
        return query

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
        rows = _over(rows, "sf_labelled").where(exp.column(CLASS) >= literal(0), copy=False)
        if data.unit.by_person:
            rows = weigh_rows(rows, data.unit)
        for place, one in enumerate([self.space.layer(), layer or {}]):
            added = [exp.alias_(tree, name, copy=False) for name, tree in one.items()]
            rows = _over(rows, f"sf_layer_{place}").select(*added, copy=False)
        return rows


def table_sensitivity(unit: Unit) -> Sensitivity:
    """How far a person moves one table of counts by class, in parts of `whole_row`."""
    rows, part = count_sensitivity(unit, grouped=True), whole_row(unit)
    return Sensitivity(l1=rows.l1 * part, l2_squared=rows.l2_squared * part**2)


def _over(rows: exp.Query, name: str) -> exp.Select:
    return exp.select(exp.Star()).from_(rows.subquery(name, copy=False), copy=False)


def _missing(column: NDArray[np.generic]) -> NDArray[np.bool_]:
    if column.dtype.kind == "f":
        return np.isnan(column.astype(np.float64))
    if column.dtype == object:
        return np.array([one is None for one in column], dtype=bool)
    return np.zeros(len(column), dtype=bool)
