"""Frequencies: how often each combination of values occurs. The waist that every method passes.

Counting happens in the engine, by GROUP BY where the data lives; what comes here is one row per
combination that occurs, as integer codes and 64-bit counts. Memory is bounded by the number of
combinations, not of rows.

Decision `counts-only`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.data.counting.contribution import COUNT, PERSON, bound
from sfumato.data.counting.encoding import encode
from sfumato.data.counting.grouping import merge
from sfumato.data.counting.memory_limit import (
    TooManyCombinationsError,
    bounded,
    cells_of,
    most_combinations,
)
from sfumato.data.schema.unit import Rows
from sfumato.errors import ParameterError, SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import IntArray
    from sfumato.data.counting.axes import Axis
    from sfumato.data.engines.base import Engine
    from sfumato.data.schema.unit import Unit

_DENSE_LIMIT = 1 << 28

DIFFERENT = -2
"""What stands for numbers of rows that are not all the same."""


@dataclass(frozen=True)
class Frequencies:
    """Combinations of codes, in lexicographic order, and how many rows have each."""

    axes: tuple[Axis, ...]
    codes: tuple[NDArray[np.integer], ...]
    counts: IntArray

    @cached_property
    def total(self) -> int:
        """How many rows were counted."""
        return int(self.counts.sum())

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the axes."""
        return tuple(axis.column for axis in self.axes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many codes each axis has."""
        return tuple(axis.size for axis in self.axes)

    @property
    def declared(self) -> bool:
        """Whether every axis is public."""
        return all(axis.declared for axis in self.axes)

    def __len__(self) -> int:
        return len(self.counts)

    def axis(self, column: str) -> Axis:
        """The axis of a column."""
        return self.axes[self.columns.index(column)]

    def of(self, columns: Sequence[str]) -> Frequencies:
        """Count some of the columns: what is in memory already is its own counter."""
        return self if tuple(columns) == self.columns else self.marginal(columns)

    def marginal(self, columns: Sequence[str]) -> Frequencies:
        """Frequencies of some of the columns, in the order given, rolled up from these."""
        positions = [self.columns.index(column) for column in columns]
        axes = tuple(self.axes[position] for position in positions)
        codes = tuple(self.codes[position] for position in positions)
        return _collect(axes, codes, self.counts)

    def people(self, columns: Sequence[str], person: str) -> Frequencies:
        """How many different people have each combination of some of the columns."""
        pairs = self.marginal([*columns, person])
        once = np.minimum(pairs.counts, 1)
        return Frequencies(pairs.axes, pairs.codes, once).marginal(columns)

    def dense(self) -> IntArray:
        """One cell for every combination of codes, those that do not occur included."""
        cells = prod(self.sizes)
        if cells > _DENSE_LIMIT:
            raise ParameterError(
                "problem_too_large",
                f"A dense table of {' x '.join(self.columns)} has {cells:,} cells; at most "
                f"{_DENSE_LIMIT:,} are possible.",
                hint="Take fewer columns or a coarser domain.",
            )
        table = np.zeros(self.sizes, dtype=np.int64)
        table[self.codes] = self.counts
        return table

    def table(self) -> pa.Table:
        """The combinations as values, with their counts."""
        names = [*self.columns, "count"]
        values = [axis.decode(codes) for axis, codes in zip(self.axes, self.codes, strict=True)]
        return pa.Table.from_arrays([*values, pa.array(self.counts)], names=names)


def count(
    engine: Engine,
    table: exp.Table | exp.Subquery,
    columns: Sequence[str | Axis],
    *,
    where: exp.Expr | None = None,
    weight: str | None = None,
    unit: Unit = Rows(),  # noqa: B008  # frozen
    salt: str | None = None,
    outside: Literal["refuse", "drop"] = "refuse",
    most: int | None = None,
    shared: Sequence[exp.Expr] = (),
) -> Frequencies:
    """Count combinations of values in the engine.

    A column given by name is observed; given as a declared axis it has exactly that axis's codes,
    and rows with a value outside it are refused, or dropped where no one may learn of them. With
    `weight`, an integer column is added up instead of rows. With an `Entity` as unit, each person's
    contribution is bounded under the secret `salt`. More combinations than `most` are refused as
    soon as they are met. For each of the `shared`, numbers of rows that are not negative or -1, one
    more column tells which all rows of a combination share, or that they are `DIFFERENT`.
    """
    keys, numbers = _keys(columns), [f"sf_shared_{position}" for position in range(len(shared))]
    rows: exp.Query = _rows(table, columns, keys, where)
    named = (exp.alias_(tree, name) for tree, name in zip(shared, numbers, strict=True))
    rows = rows.select(*named)
    if unit.by_person:
        if salt is None or weight is not None:
            raise ParameterError(
                "parameter_missing",
                "Counting by person needs a secret salt and cannot be weighted.",
                hint="Give salt=... and no weight.",
            )
        rows = _bounded(rows, unit, keys, salt)
    elif weight is not None:
        rows = rows.select(exp.alias_(exp.column(weight, quoted=True), COUNT))
    counted = _counted(rows, keys, has_counts=unit.by_person or weight is not None)
    for position, name in enumerate(numbers, start=len(keys)):
        counted.selects.insert(position, _if_alike(name))
    reader = engine.stream(counted)
    if most is not None:
        names = [column if isinstance(column, str) else column.column for column in columns]
        reader = bounded(reader, names, most)
    axes, codes, counts = encode(reader, [*columns, *numbers])
    return _keep_inside(axes, codes, counts, outside)


def count_held(
    engine: Engine, table: exp.Table, columns: Sequence[str], *, weight: str | None = None
) -> Frequencies:
    """Count combinations in the engine, or refuse with what it takes to hold them."""
    most = most_combinations(len(columns))
    try:
        return count(engine, table, columns, weight=weight, most=most)
    except TooManyCombinationsError:
        cells = cells_of(engine, table, columns)
        raise TooManyCombinationsError.of(columns, cells) from None


class Counter(Protocol):
    """What a method counts with: as many tables as it asks for, all of the same rows."""

    def of(self, columns: Sequence[str]) -> Frequencies:
        """Count combinations of some columns."""
        ...


@dataclass(frozen=True)
class BoundedCounter:
    """Counts any of some declared columns where the data lies, of rows bounded by person once.

    Which rows of a person are kept, and which rows have a value that is not declared and are left
    out, is decided by all the columns and one secret salt, whatever is asked for. So every table is
    a marginal of the one table of all columns, which itself need not be counted and may be larger
    than any memory. One person moves each table by no more than the unit says: its cells are sums
    of disjoint cells of that table, so that no norm of a difference grows but the L2 norm, up to
    that of all rows in one cell, which is the one that the unit states. What several tables cost
    together follows by composition, table by table, and needs nothing of how they were counted.
    """

    engine: Engine
    table: exp.Table
    axes: tuple[Axis, ...]
    unit: Unit
    salt: str

    def of(self, columns: Sequence[str]) -> Frequencies:
        """Count combinations of some of the columns."""
        names = [axis.column for axis in self.axes]
        if list(columns) == names:
            return count(
                self.engine,
                self.table,
                self.axes,
                unit=self.unit,
                salt=self.salt,
                outside="drop",
            )
        if not columns:
            return self.of(names[:1]).marginal(())
        keys, positions = _keys(self.axes), [names.index(column) for column in columns]
        rows: exp.Query = _rows(self.table, self.axes, keys, None)
        if self.unit.by_person:
            rows = _bounded(rows, self.unit, keys, self.salt)
        holds_others = [
            axis.holds(key)
            for position, (axis, key) in enumerate(zip(self.axes, keys, strict=True))
            if position not in positions
        ]
        counted = _counted(
            rows, [keys[position] for position in positions], has_counts=self.unit.by_person
        )
        asked = tuple(self.axes[position] for position in positions)
        answer = self.engine.stream(counted.where(*holds_others, copy=False))
        return _keep_inside(*encode(answer, asked), "drop")


def _keys(columns: Sequence[str | Axis]) -> list[str]:
    return [f"sf_key_{position}" for position in range(len(columns))]


def _bounded(rows: exp.Query, unit: Unit, keys: Sequence[str], salt: str) -> exp.Query:
    """Rows with their person, of whom no more is kept than the unit allows."""
    assert unit.column is not None
    person = exp.alias_(exp.column(unit.column, quoted=True), PERSON)
    return bound(rows.select(person), unit, keys, salt)


def _rows(
    table: exp.Table | exp.Subquery,
    columns: Sequence[str | Axis],
    keys: Sequence[str],
    where: exp.Expr | None,
) -> exp.Select:
    """The rows to count, with their keys under names of our own."""
    values = [
        exp.column(column, quoted=True) if isinstance(column, str) else column.code()
        for column in columns
    ]
    named = [exp.alias_(value, key, copy=False) for value, key in zip(values, keys, strict=True)]
    # All at once: each further select() would copy those before it.
    query = exp.select(exp.alias_(exp.convert(1), "sf_row"), *named).from_(table.copy())
    return query if where is None else query.where(where)


def _counted(rows: exp.Query, keys: Sequence[str], *, has_counts: bool) -> exp.Select:
    names = [exp.column(key) for key in keys]
    how_many = exp.Sum(this=exp.column(COUNT)) if has_counts else exp.Count(this=exp.Star())
    query = exp.select(*names, exp.alias_(exp.cast(how_many, "BIGINT"), COUNT))
    query = query.from_(rows.subquery("sf_counted"))
    return query.group_by(*names) if names else query


def _if_alike(name: str) -> exp.Expr:
    """The number that all rows of a group have."""
    least, most = exp.Min(this=exp.column(name)), exp.Max(this=exp.column(name))
    case = exp.case().when(exp.EQ(this=least, expression=most), least.copy())
    return exp.alias_(case.else_(exp.convert(DIFFERENT)), name)


def _collect(
    axes: tuple[Axis, ...], codes: Sequence[NDArray[np.integer]], counts: IntArray
) -> Frequencies:
    """Merge equal combinations and bring them into canonical order."""
    if not axes:
        return Frequencies((), (), counts.sum(keepdims=True))
    return Frequencies(axes, *merge(codes, [axis.size for axis in axes], counts))


def _keep_inside(
    axes: tuple[Axis, ...],
    codes: list[NDArray[np.integer]],
    counts: IntArray,
    outside: str,
) -> Frequencies:
    """Refuse or drop combinations with a value that a declared axis does not have."""
    inside = np.ones(len(counts), dtype=bool)
    for axis, column in zip(axes, codes, strict=True):
        fits = column >= 0
        if outside == "refuse" and not fits.all():
            raise SourceError(
                "value_outside_domain",
                f"Column {axis.column!r} holds values outside its declared domain in "
                f"{int(counts[~fits].sum()):,} rows.",
                hint="Declare them, or mend the data.",
            )
        inside &= fits
    if not inside.all():
        codes = [column[inside] for column in codes]
        counts = counts[inside]
    return _collect(axes, codes, counts)
