"""The memory limit: how many cells of a table our process may hold, and figures beyond it.

A cell is one column of one combination that occurs. Where there are too many combinations, the
engine computes how many there are and their sizes. Decision `optimal-search`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.errors import ParameterError, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sfumato.arrays import IntArray
    from sfumato.data.engines.base import Engine

SETTING = "SFUMATO_MOST_CELLS"

# The default limit, about 2 GiB: a search needs some forty bytes per cell.
_MOST_CELLS = 50_000_000

CELLS_PER_VALUE = 25
"""The memory of one value of a hierarchy with its labels, in cells."""

_CLASS, _SIZE, _CROWD, _PERSON, _COUNT = "sf_class", "sf_size", "sf_crowd", "sf_person", "sf_many"


def most_cells() -> int:
    """The number of cells that our process may hold: the environment's setting or the default."""
    setting = os.environ.get(SETTING, str(_MOST_CELLS)).replace("_", "")
    if not setting.isdecimal() or not int(setting):
        raise ParameterError(
            "parameter_out_of_range",
            f"The environment sets {SETTING} to {setting!r}; it must be a whole number above 0, "
            f"such as {_MOST_CELLS}.",
            hint="Correct it, or unset it.",
        )
    return int(setting)


def most_combinations(columns: int) -> int:
    """Return the number of combinations of so many columns that our process may hold."""
    return most_cells() // max(columns, 1)


def most_values() -> int:
    """Return the number of values of one hierarchy that our process may hold."""
    return most_cells() // CELLS_PER_VALUE


class TooManyCombinationsError(SourceError):
    """More combinations than our process may hold."""

    columns: tuple[str, ...] = ()

    @classmethod
    def of(cls, columns: Sequence[str], cells: int | None = None) -> TooManyCombinationsError:
        """The error for these columns; `cells` is the number needed to hold them, if known."""
        higher = "a higher number" if cells is None else f"{cells} or more"
        error = cls(
            "too_many_combinations",
            f"The columns {', '.join(columns)} have more than {most_combinations(len(columns)):,} "
            "combinations of values, which is what memory is kept for. Take fewer or coarser "
            f"columns, or set {SETTING} to {higher} in the environment if there is memory for it.",
        )
        error.columns = tuple(columns)
        return error


def bounded(
    reader: pa.RecordBatchReader, columns: Sequence[str], most: int
) -> pa.RecordBatchReader:
    """Return a reader of a result that raises once it has more than `most` rows."""

    def batches() -> Iterator[pa.RecordBatch]:
        read = 0
        for batch in reader:
            read += batch.num_rows
            if read > most:
                raise TooManyCombinationsError.of(columns)
            yield batch

    return pa.RecordBatchReader.from_batches(reader.schema, batches())


@dataclass(frozen=True, eq=False)
class SizeCounts:
    """The number of classes of each size that occurs, in order of size."""

    sizes: IntArray
    classes: IntArray

    @classmethod
    def of(cls, sizes: IntArray) -> SizeCounts:
        """Count classes by their sizes."""
        return cls(*np.unique(sizes, return_counts=True))

    @property
    def rows(self) -> IntArray:
        """The number of rows in classes of each size."""
        return self.sizes * self.classes

    def __len__(self) -> int:
        return int(self.classes.sum())

    @property
    def squares(self) -> int:
        """The sum of the squares of all sizes."""
        return sum(int(size) * int(rows) for size, rows in zip(self.sizes, self.rows, strict=True))


def combinations(engine: Engine, table: exp.Table | exp.Subquery, columns: Sequence[str]) -> int:
    """Return the number of combinations of some columns that occur, counted in the engine."""
    grouped = _group_columns(table, columns).select(exp.alias_(exp.convert(1), _CLASS))
    counted = exp.select(exp.alias_(exp.cast(exp.Count(this=exp.Star()), "BIGINT"), _COUNT))
    return int(engine.run(counted.from_(grouped.subquery("sf_classes")))[_COUNT][0].as_py())


def cells_of(engine: Engine, table: exp.Table | exp.Subquery, columns: Sequence[str]) -> int:
    """Return the number of cells of the combinations of some columns."""
    return combinations(engine, table, columns) * len(columns)


def class_sizes(engine: Engine, table: exp.Table, columns: Sequence[str]) -> SizeCounts:
    """Return the sizes of the classes of some columns, counted in the engine."""
    sizes = _group_columns(table, columns).select(_count_as(exp.Star(), _SIZE))
    return _size_counts(engine, sizes, _SIZE)


def smallest_crowds(
    engine: Engine, table: exp.Table, columns: Sequence[str], person: str
) -> SizeCounts:
    """Return for each size the number of people whose smallest class has this size."""
    keys = [exp.alias_(exp.column(name, quoted=True), _key(i)) for i, name in enumerate(columns)]
    person_column = exp.alias_(exp.column(person, quoted=True), _PERSON)
    pairs = exp.select(*keys, person_column).distinct().from_(table.copy())
    names = [exp.column(_key(position)) for position in range(len(columns))]
    window = exp.Window(this=exp.Count(this=exp.Star()), partition_by=names)
    crowds = exp.select(_PERSON, exp.alias_(window, _CROWD)).from_(pairs.subquery("sf_pairs"))
    least = exp.select(
        _PERSON, exp.alias_(exp.cast(exp.Min(this=exp.column(_CROWD)), "BIGINT"), _SIZE)
    )
    least = least.from_(crowds.subquery("sf_crowds")).group_by(_PERSON)
    return _size_counts(engine, least, _SIZE)


def _group_columns(table: exp.Table | exp.Subquery, columns: Sequence[str]) -> exp.Select:
    named = [exp.column(name, quoted=True) for name in columns]
    rows = exp.Select().from_(table.copy())
    return rows.group_by(*named) if named else rows


def _count_as(counted: exp.Expr, name: str) -> exp.Expr:
    return exp.alias_(exp.cast(exp.Count(this=counted), "BIGINT"), name)


def _size_counts(engine: Engine, sizes: exp.Select, name: str) -> SizeCounts:
    counted = exp.select(name, _count_as(exp.Star(), _COUNT)).from_(sizes.subquery("sf_sized"))
    result = engine.run(counted.group_by(name).order_by(name))
    arrays = [result[column].to_numpy().astype(np.int64) for column in (name, _COUNT)]
    return SizeCounts(*arrays)


def _key(position: int) -> str:
    return f"sf_key_{position}"
