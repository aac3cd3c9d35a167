"""Frequencies: how often each combination of values occurs. Every method reads rows through them.

The engine counts by GROUP BY where the data lies. The result has one row for each combination that
occurs, as integer codes and 64-bit counts, so memory grows with the number of combinations and not
of rows. Decision `counts-only`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.data.counting.axes import encode
from sfumato.data.counting.contribution import COUNT, PERSON, bound
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

# Most cells of a dense table: 2 GiB of 64-bit counts.
_DENSE_LIMIT = 1 << 28

DIFFERENT = -2
"""The value of a shared number where the rows of a combination differ in it."""


@dataclass(frozen=True)
class Frequencies:
    """Distinct combinations of codes, in lexicographic order, and the number of rows of each."""

    axes: tuple[Axis, ...]
    codes: tuple[NDArray[np.integer], ...]
    counts: IntArray

    @cached_property
    def total(self) -> int:
        """The number of counted rows."""
        return int(self.counts.sum())

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the axes."""
        return tuple(axis.column for axis in self.axes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of codes of each axis."""
        return tuple(axis.size for axis in self.axes)

    @property
    def declared(self) -> bool:
        """Whether every axis is public."""
        return all(axis.declared for axis in self.axes)

    def __len__(self) -> int:
        return len(self.counts)

    def axis(self, column: str) -> Axis:
        """Return the axis of a column."""
        return self.axes[self.columns.index(column)]

    def of(self, columns: Sequence[str]) -> Frequencies:
        """Count combinations of some columns, which makes this a `Counter`."""
        return self if tuple(columns) == self.columns else self.marginal(columns)

    def marginal(self, columns: Sequence[str]) -> Frequencies:
        """The frequencies of some of the columns, in the given order, summed up from these."""
        positions = [self.columns.index(column) for column in columns]
        axes = tuple(self.axes[position] for position in positions)
        codes = tuple(self.codes[position] for position in positions)
        return _collect(axes, codes, self.counts)

    def people(self, columns: Sequence[str], person: str) -> Frequencies:
        """The number of people, named by column `person`, with each combination of some columns."""
        pairs = self.marginal([*columns, person])
        once = np.minimum(pairs.counts, 1)
        return Frequencies(pairs.axes, pairs.codes, once).marginal(columns)

    def dense(self) -> IntArray:
        """An array with one cell for every combination of codes; 0 for those that do not occur."""
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
        """A table of the combinations as values, with their counts."""
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

    Parameters
    ----------
    engine, table
        Where to count.
    columns : sequence of str or Axis
        A name for an observed axis, or a declared axis whose codes are used.
    where : exp.Expr, optional
        Which rows to count.
    weight : str, optional
        An integer column to sum instead of counting rows.
    unit : Unit
        With an `Entity`, the contribution of each person is bounded first.
    salt : str, optional
        The secret by which `bound` draws rows; needed with an `Entity`.
    outside : "refuse" or "drop"
        What becomes of rows with a value that is not on a declared axis. "drop" is for methods
        whose caller must not learn that there are such rows.
    most : int, optional
        Refuse the result as soon as it has more combinations.
    shared : sequence of exp.Expr
        Numbers of rows, at least -1. For each, one more column has the number that all rows of a
        combination share, or `DIFFERENT`.

    Raises
    ------
    TooManyCombinationsError
        If there are more combinations than `most`.
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
                parameter="salt",
            )
        rows = _bound_rows(rows, unit, keys, salt)
    elif weight is not None:
        rows = rows.select(exp.alias_(exp.column(weight, quoted=True), COUNT))
    counted = _count_query(rows, keys, has_counts=unit.by_person or weight is not None)
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
    """Count combinations that memory can hold; else refuse and say how many cells they have."""
    most = most_combinations(len(columns))
    try:
        return count(engine, table, columns, weight=weight, most=most)
    except TooManyCombinationsError:
        cells = cells_of(engine, table, columns)
        raise TooManyCombinationsError.of(columns, cells) from None


class Counter(Protocol):
    """Counts as many tables of the same rows as a method asks for."""

    def of(self, columns: Sequence[str]) -> Frequencies:
        """Count combinations of some columns."""
        ...


@dataclass(frozen=True)
class BoundedCounter:
    """Counts tables of some declared columns in the engine, of rows that are bounded once.

    *Invariant*: all columns and one secret salt decide which rows of a person are kept, and which
    rows have an undeclared value and are left out, whichever columns are counted. So every table is
    a marginal of one table of all columns, which is never counted and may exceed any memory.

    *Sensitivity*: one person changes each table by no more than the unit states. Cells of a
    marginal are sums of disjoint cells of the full table, so the L1 norm of a difference cannot
    grow. The L2 norm can, up to that of all rows in one cell, which is the one the unit states. The
    cost of several tables follows by composition.
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
            rows = _bound_rows(rows, self.unit, keys, self.salt)
        holds_others = [
            axis.holds(key)
            for position, (axis, key) in enumerate(zip(self.axes, keys, strict=True))
            if position not in positions
        ]
        counted = _count_query(
            rows, [keys[position] for position in positions], has_counts=self.unit.by_person
        )
        asked = tuple(self.axes[position] for position in positions)
        answer = self.engine.stream(counted.where(*holds_others, copy=False))
        return _keep_inside(*encode(answer, asked), "drop")

    def held(self, most: int) -> Counter:
        """All columns counted in one passage, where the table has so many rows; else this counter.

        Every table is the same either way.
        """
        query = exp.select(exp.Count(this=exp.Star()).as_("n")).from_(self.table.copy())
        rows = int(self.engine.run(query).column(0)[0].as_py())
        return self.of([axis.column for axis in self.axes]) if rows <= most else self


def _keys(columns: Sequence[str | Axis]) -> list[str]:
    return [f"sf_key_{position}" for position in range(len(columns))]


def _bound_rows(rows: exp.Query, unit: Unit, keys: Sequence[str], salt: str) -> exp.Query:
    """Add the person to the rows and bound the rows of each person."""
    assert unit.column is not None
    person = exp.alias_(exp.column(unit.column, quoted=True), PERSON)
    return bound(rows.select(person), unit, keys, salt)


def _rows(
    table: exp.Table | exp.Subquery,
    columns: Sequence[str | Axis],
    keys: Sequence[str],
    where: exp.Expr | None,
) -> exp.Select:
    """Return the query of the rows to count, with their keys under names of our own."""
    values = [
        exp.column(column, quoted=True) if isinstance(column, str) else column.code()
        for column in columns
    ]
    named = [exp.alias_(value, key, copy=False) for value, key in zip(values, keys, strict=True)]
    # All at once: each further select() would copy those before it.
    query = exp.select(exp.alias_(exp.convert(1), "sf_row"), *named).from_(table.copy())
    return query if where is None else query.where(where)


def _count_query(rows: exp.Query, keys: Sequence[str], *, has_counts: bool) -> exp.Select:
    names = [exp.column(key) for key in keys]
    how_many = exp.Sum(this=exp.column(COUNT)) if has_counts else exp.Count(this=exp.Star())
    query = exp.select(*names, exp.alias_(exp.cast(how_many, "BIGINT"), COUNT))
    query = query.from_(rows.subquery("sf_counted"))
    return query.group_by(*names) if names else query


def _if_alike(name: str) -> exp.Expr:
    """Return the number that all rows of a group share, else `DIFFERENT`."""
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
