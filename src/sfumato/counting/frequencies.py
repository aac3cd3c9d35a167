"""Frequencies: how often each combination of values occurs. The waist that every method passes.

Counting happens in the engine, by GROUP BY where the data lives; what comes here is one row per
combination that occurs, as integer codes and 64-bit counts. Memory is bounded by the number of
combinations, not of rows.

Decision 0001.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.counting.axes import Axis, Grid, encode
from sfumato.counting.contribution import COUNT, PERSON, bound
from sfumato.counting.grouping import group
from sfumato.errors import ParameterError, SourceError
from sfumato.privacy.units import Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.engines.base import Engine
    from sfumato.privacy.units import Unit

_DENSE_LIMIT = 1 << 28


@dataclass(frozen=True)
class Frequencies:
    """Combinations of codes, in lexicographic order, and how many rows have each."""

    axes: tuple[Axis, ...]
    codes: tuple[NDArray[np.integer], ...]
    counts: NDArray[np.int64]

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

    def marginal(self, columns: Sequence[str]) -> Frequencies:
        """Frequencies of some of the columns, in the order given, rolled up from these."""
        places = [self.columns.index(column) for column in columns]
        axes = tuple(self.axes[place] for place in places)
        codes = tuple(self.codes[place] for place in places)
        return _collect(axes, codes, self.counts)

    def people(self, columns: Sequence[str], person: str) -> Frequencies:
        """How many different people have each combination of some of the columns."""
        pairs = self.marginal([*columns, person])
        once = np.minimum(pairs.counts, 1)
        return Frequencies(pairs.axes, pairs.codes, once).marginal(columns)

    def dense(self) -> NDArray[np.int64]:
        """One cell for every combination of codes, those that do not occur included."""
        cells = prod(self.sizes)
        if cells > _DENSE_LIMIT:
            raise ParameterError(
                "too_many_cells",
                f"A dense table of {' x '.join(self.columns)} has {cells:,} cells; at most "
                f"{_DENSE_LIMIT:,} are possible. Take fewer columns or a coarser domain.",
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
    table: exp.Table,
    columns: Sequence[str | Axis],
    *,
    where: exp.Expr | None = None,
    weight: str | None = None,
    unit: Unit = Rows(),  # noqa: B008  # frozen
    salt: str | None = None,
    outside: Literal["refuse", "drop"] = "refuse",
) -> Frequencies:
    """Count combinations of values in the engine.

    A column given by name is observed; given as a declared axis it has exactly that axis's codes,
    and rows with a value outside it are refused, or dropped where no one may learn of them. With
    `weight`, an integer column is added up instead of rows. With an `Entity` as unit, each person's
    contribution is bounded under the secret `salt`.
    """
    keys = [f"sf_key_{place}" for place in range(len(columns))]
    selected = _rows(table, columns, keys, where)
    rows: exp.Query = selected
    if unit.column is not None:
        if salt is None or weight is not None:
            raise ParameterError(
                "unit_needs_salt",
                "Counting by person needs a secret salt and cannot be weighted. "
                "Give salt=... and no weight.",
            )
        with_person = selected.select(exp.alias_(exp.column(unit.column, quoted=True), PERSON))
        rows = bound(with_person, unit, keys, salt)
    elif weight is not None:
        rows = selected.select(exp.alias_(exp.column(weight, quoted=True), COUNT))
    counted = _counted(rows, keys, has_counts=unit.by_person or weight is not None)
    axes, codes, counts = encode(engine.stream(counted), columns)
    return _keep_inside(axes, codes, counts, outside)


def _rows(
    table: exp.Table,
    columns: Sequence[str | Axis],
    keys: Sequence[str],
    where: exp.Expr | None,
) -> exp.Select:
    """The rows to count, with their keys under names of our own."""
    values = [
        column.code()
        if isinstance(column, Grid)
        else exp.column(column if isinstance(column, str) else column.column, quoted=True)
        for column in columns
    ]
    named = [exp.alias_(value, key, copy=False) for value, key in zip(values, keys, strict=True)]
    # All at once: each further select() would copy those before it.
    query = exp.select(exp.alias_(exp.convert(1), "sf_row"), *named).from_(table.copy())
    return query if where is None else query.where(where)


def _counted(rows: exp.Query, keys: Sequence[str], *, has_counts: bool) -> exp.Query:
    names = [exp.column(key) for key in keys]
    how_many = exp.Sum(this=exp.column(COUNT)) if has_counts else exp.Count(this=exp.Star())
    query = exp.select(*names, exp.alias_(exp.cast(how_many, "BIGINT"), COUNT))
    query = query.from_(rows.subquery("sf_counted"))
    return query.group_by(*names) if names else query


def _collect(
    axes: tuple[Axis, ...], codes: Sequence[NDArray[np.integer]], counts: NDArray[np.int64]
) -> Frequencies:
    """Merge equal combinations and bring them into canonical order."""
    if not axes:
        return Frequencies((), (), counts.sum(keepdims=True))
    groups = group(codes, [axis.size for axis in axes], counts)
    merged = tuple(column[groups.representatives] for column in codes)
    return Frequencies(axes, merged, groups.counts)


def _keep_inside(
    axes: tuple[Axis, ...],
    codes: list[NDArray[np.integer]],
    counts: NDArray[np.int64],
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
                f"{int(counts[~fits].sum()):,} rows. Declare them, or mend the data.",
            )
        inside &= fits
    if not inside.all():
        codes = [column[inside] for column in codes]
        counts = counts[inside]
    return _collect(axes, codes, counts)
