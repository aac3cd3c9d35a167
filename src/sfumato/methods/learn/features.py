"""Columns as coordinates: a space in which every declared range goes from -1 to 1.

In the engine a coordinate is a whole number from -GRID to GRID, never NULL. `FeatureSpace.encode`
computes the same coordinates of a table in memory, divided by GRID, so that a model predicts from
the coordinates that it was learnt from. Decision `learning`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from sfumato.data.counting.axes import Grid, declared, literal
from sfumato.data.engines.kinds import STORED
from sfumato.data.schema.column import Column, Kind, from_text
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.names import quoted
from sfumato.data.schema.toml_document import DOMAIN, add_line
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.data.schema.domain import Scalar


# One column as coordinates: whole numbers from -GRID to GRID, in SQL and in memory.
#
# A number or a day is clamped to its declared bounds, rounded to the nearest point of its declared
# grid, and then to the nearest of 2 GRID + 1 coordinates. A column of two values (or a boolean) is
# one coordinate: -GRID for the first value, GRID for the second. A column of more declared values
# has one coordinate for each: GRID where the row has that value, else 0. A missing or undeclared
# value is 0 in every coordinate, the middle of the range: a public convention, so that it reveals
# nothing. The bounds of a coordinate, and so the sensitivity of every sum, follow from the schema
# alone. Decision `learning`.

GRID = 1 << 10
"""The largest coordinate, which stands for 1: coordinates are in units of 1 / GRID."""

_FINEST = 1 << 48
"""Grids of more points are coarsened first, so that products with 4 GRID fit 64 bits."""


class FeatureEncoding(Protocol):
    """The coordinates of one column, in SQL and in memory."""

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each coordinate."""
        ...

    @property
    def half(self) -> float:
        """The distance between coordinates 0 and 1, in units of the column."""
        ...

    @property
    def middle(self) -> float:
        """The value of the column at coordinate 0; an indicator of a value is from 0 to 1."""
        ...

    def expressions(self) -> list[exp.Expr]:
        """The SQL of each coordinate: a BIGINT from -GRID to GRID, never NULL."""
        ...

    def encode(self, values: pa.Array) -> IntArray:
        """The same coordinates of values in memory, (rows, coordinates)."""
        ...


@dataclass(frozen=True)
class Stepped:
    """Numbers or days on a declared grid."""

    grid: Grid

    @property
    def names(self) -> tuple[str, ...]:
        """The column's own name."""
        return (self.grid.column,)

    @property
    def half(self) -> float:
        """Half the range of the bounds."""
        return float(self.grid.bounds.span) / 2

    @property
    def middle(self) -> float:
        """The middle of the bounds."""
        return float(_bound_number(self.grid.bounds.low)) + self.half

    @property
    def _coarse(self) -> tuple[int, int]:
        """How many grid points share a step, and the number of the last step."""
        last = self.grid.points - 1
        points_per_step = -(-last // _FINEST) or 1
        return points_per_step, last // points_per_step

    def expressions(self) -> list[exp.Expr]:
        """The coordinate of the nearest grid point: floor((4 GRID code + last) / (2 last))."""
        points_per_step, last = self._coarse
        if not last:
            return [literal(0)]
        code = self.grid.code()
        if points_per_step > 1:
            code = exp.IntDiv(this=exp.Paren(this=code), expression=literal(points_per_step))
        wide = exp.Paren(this=exp.Paren(this=code) * literal(4 * GRID) + literal(last))
        nearest = exp.IntDiv(this=wide, expression=literal(2 * last)) - literal(GRID)
        middle = exp.Coalesce(this=exp.Paren(this=nearest), expressions=[literal(0)])
        return [exp.cast(middle, "BIGINT")]

    def encode(self, values: pa.Array) -> IntArray:
        """The same in memory; integer division rounds as the engine does."""
        points_per_step, last = self._coarse
        if not last:
            return np.zeros((len(values), 1), dtype=np.int64)
        codes, missing = self._codes(values)
        coordinates = (codes // points_per_step * (4 * GRID) + last) // (2 * last) - GRID
        return np.where(missing, 0, coordinates).astype(np.int64)[:, None]

    def _codes(self, values: pa.Array) -> tuple[NDArray[Any], BoolArray]:
        """The numbers of the nearest grid points, and which rows have no value."""
        bounds = self.grid.bounds
        low, high = (_bound_number(end) for end in (bounds.low, bounds.high))
        step, last = bounds.grid_step or 1, self.grid.points - 1
        numbers, missing = numbers_of(values, self.grid.kind)
        if self.grid.kind is Kind.REAL:
            clamped = np.clip(numbers, float(low), float(high))
            codes = np.floor((clamped - float(low)) / float(step) + 0.5)
            return np.clip(codes.astype(np.int64), 0, last), missing
        # The difference of two 64-bit integers may need 65 bits, so Python integers compute it.
        clamped = np.clip(numbers.astype(object), int(low), int(high))
        return (2 * (clamped - int(low)) + int(step)) // (2 * int(step)), missing


@dataclass(frozen=True)
class Continuous:
    """Reals within declared bounds, without a declared step."""

    column: str
    bounds: Bounds

    @property
    def names(self) -> tuple[str, ...]:
        """The column's own name."""
        return (self.column,)

    @property
    def half(self) -> float:
        """Half the range of the bounds."""
        return float(self.bounds.span) / 2

    @property
    def middle(self) -> float:
        """The middle of the bounds."""
        return float(_bound_number(self.bounds.low)) + self.half

    @property
    def _scale(self) -> Decimal:
        """Coordinates per unit of the column."""
        # The digits of a float: engine and memory multiply by the same number.
        return Decimal(repr(2 * GRID / float(self.bounds.span)))

    def expressions(self) -> list[exp.Expr]:
        """The nearest coordinate."""
        if not self.bounds.span:
            return [literal(0)]
        value = exp.column(self.column, quoted=True)
        low, high = literal(self.bounds.low), literal(self.bounds.high)
        nan, half = (exp.cast(exp.convert(text), "DOUBLE") for text in ("NaN", "0.5"))
        scaled = exp.Paren(this=value - low) * literal(self._scale) + half
        end = exp.cast(exp.convert(2 * GRID), "DOUBLE")
        floored = exp.Least(this=exp.Floor(this=scaled), expressions=[end], ignore_nulls=True)
        case = exp.case().when(value.is_(exp.Null()), literal(0)).when(value.eq(nan), literal(0))
        # The ends are compared before any arithmetic, so that infinities never reach it.
        case = case.when(value <= low, literal(-GRID)).when(value >= high, literal(GRID))
        inside = exp.cast(floored, "BIGINT") - literal(GRID)
        return [exp.cast(case.else_(inside), "BIGINT")]

    def encode(self, values: pa.Array) -> IntArray:
        """The same in memory."""
        if not self.bounds.span:
            return np.zeros((len(values), 1), dtype=np.int64)
        numbers, missing = numbers_of(values, Kind.REAL)
        low, high = (float(_bound_number(end)) for end in (self.bounds.low, self.bounds.high))
        clamped = np.clip(numbers, low, high)
        coordinates = np.minimum(np.floor((clamped - low) * float(self._scale) + 0.5), 2 * GRID)
        coordinates = np.where(clamped >= high, 2 * GRID, coordinates) - GRID
        return np.where(missing, 0, coordinates).astype(np.int64)[:, None]


@dataclass(frozen=True)
class Switch:
    """A column of two values as one coordinate, from the first to the second."""

    column: Column
    values: tuple[Scalar, Scalar]

    half, middle = 0.5, 0.5

    @property
    def names(self) -> tuple[str, ...]:
        """The name of the second value, which has the coordinate GRID."""
        second = self.column.kind is Kind.BOOLEAN and self.values[1] is True
        return (self.column.name if second else f"{self.column.name}={value_text(self.values[1])}",)

    def expressions(self) -> list[exp.Expr]:
        """-GRID for the first value, GRID for the second, 0 for neither."""
        first, second = (_equals(self.column, value) for value in self.values)
        case = exp.case().when(first, literal(-GRID)).when(second, literal(GRID))
        return [exp.cast(case.else_(literal(0)), "BIGINT")]

    def encode(self, values: pa.Array) -> IntArray:
        """The same in memory."""
        codes = _codes_of(values, self.column.kind, self.values)
        return np.select([codes == 0, codes == 1], [-GRID, GRID], 0).astype(np.int64)[:, None]


@dataclass(frozen=True)
class OneHot:
    """A column of declared values as one coordinate for each value (one-hot encoding)."""

    column: Column
    values: tuple[Scalar, ...]

    half, middle = 1.0, 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """The column and the value, such as "city=Rome"."""
        return tuple(f"{self.column.name}={value_text(value)}" for value in self.values)

    def expressions(self) -> list[exp.Expr]:
        """GRID in the coordinate of the row's value, 0 in the others."""
        cases = [
            exp.case().when(_equals(self.column, value), literal(GRID)).else_(literal(0))
            for value in self.values
        ]
        return [exp.cast(case, "BIGINT") for case in cases]

    def encode(self, values: pa.Array) -> IntArray:
        """The same in memory."""
        codes = _codes_of(values, self.column.kind, self.values)
        return np.where(codes[:, None] == np.arange(len(self.values)), GRID, 0).astype(np.int64)


def encoding_of(column: Column) -> FeatureEncoding:
    """Return the encoding of a column, or refuse one whose values are not declared."""
    domain = column.public_domain
    if domain is None and column.kind is Kind.BOOLEAN:
        domain = Values((False, True))
    match domain:
        case Values(values=(first, second)):
            return Switch(column, (first, second))
        case Values(values=values):
            return OneHot(column, values)
        case Bounds() if column.kind is Kind.REAL and domain.step is None:
            return Continuous(column.name, domain)
        case Bounds():
            return _stepped(column)
    raise ParameterError(
        "domain_missing",
        f"Nothing is declared of the values of column {quoted(column.name)}, so that what one "
        f"person can change has no bound. {add_line(column.name, DOMAIN[column.kind])}",
    )


def _stepped(column: Column) -> Stepped:
    """The encoding on the declared grid; a missing value gets no point of its own."""
    grid = declared(column)
    assert isinstance(grid, Grid)
    # A missing value becomes coordinate 0 instead: a linear model has no further coordinate for it.
    return Stepped(Grid(grid.column, grid.kind, grid.bounds, nullable=False))


def numbers_of(values: pa.Array, kind: Kind) -> tuple[NDArray[Any], BoolArray]:
    """Values as numbers, days since 1970, and which are missing; missing ones become 0."""
    if kind is Kind.DATE:
        days = pc.cast(values, pa.date32()).cast(pa.int32()).cast(pa.int64())
        return days.fill_null(0).to_numpy(zero_copy_only=False), _absent(days)
    if pa.types.is_integer(values.type) and kind is Kind.INTEGER:
        integers = values.cast(pa.int64())
        return integers.fill_null(0).to_numpy(zero_copy_only=False), _absent(integers)
    # Whole numbers beyond 2^53 become the nearest real: Arrow's strict conversion refuses them.
    reals = values.cast(pa.float64(), safe=False)
    numbers = reals.fill_null(float("nan")).to_numpy(zero_copy_only=False)
    missing = np.isnan(numbers)
    numbers = np.where(missing, 0.0, numbers)
    # Numbers of a whole-number column may come as reals; beyond 2^62 all are beyond any grid.
    most = 2.0**62
    integers = np.floor(np.clip(numbers, -most, most) + 0.5).astype(np.int64)
    return (numbers if kind is Kind.REAL else integers), missing


def _absent(values: pa.Array) -> BoolArray:
    return np.asarray(values.is_null().to_numpy(zero_copy_only=False), dtype=bool)


def _codes_of(values: pa.Array, kind: Kind, listed: Sequence[Scalar]) -> IntArray:
    """The position of each value in `listed`; -1 for other values."""
    stored = STORED[kind]
    stored_values: Iterable[Any] = map(float, listed) if kind is Kind.REAL else listed  # type: ignore[arg-type]
    value_set = pa.array(list(stored_values), type=stored)
    codes = pc.index_in(values.cast(stored), value_set=value_set)
    return np.asarray(codes.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)


def _equals(column: Column, value: Scalar) -> exp.Expr:
    """The SQL condition that a column has a value; NULL for a missing one."""
    cell: exp.Expr = exp.column(column.name, quoted=True)
    if column.kind is Kind.DATE:
        cell = exp.cast(cell, "DATE")
    if isinstance(value, bool | str):
        return cell.eq(exp.convert(value))
    return cell.eq(literal(value))


def value_text(value: Scalar) -> str:
    """A declared value as text."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _bound_number(value: int | Decimal | date) -> int | Decimal:
    """A declared bound as a number; a day becomes days since 1970."""
    if isinstance(value, date):
        return value.toordinal() - date(1970, 1, 1).toordinal()
    return value


__all__ = ["GRID", "Continuous", "FeatureSpace", "OneHot", "Stepped", "Switch"]


@dataclass(frozen=True)
class FeatureSpace:
    """Columns as coordinates, from their declarations alone."""

    columns: tuple[Column, ...]

    @cached_property
    def encodings(self) -> tuple[FeatureEncoding, ...]:
        """The encoding of each column."""
        return tuple(map(encoding_of, self.columns))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The name of each coordinate: "age", or "city=Rome"."""
        return tuple(name for encoding in self.encodings for name in encoding.names)

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return len(self.names)

    @cached_property
    def halves(self) -> FloatArray:
        """The distance between coordinates 0 and 1, in units of the column, for each coordinate."""
        return np.array([encoding.half for encoding in self.encodings for _ in encoding.names])

    @cached_property
    def middles(self) -> FloatArray:
        """The value at coordinate 0, in units of the column, for each coordinate."""
        return np.array([encoding.middle for encoding in self.encodings for _ in encoding.names])

    @cached_property
    def blocks(self) -> tuple[range, ...]:
        """The positions of each column's coordinates; in a row at most one of them is not 0."""
        ends = list(accumulate(len(encoding.names) for encoding in self.encodings))
        return tuple(map(range, [0, *ends[:-1]], ends))

    def expressions(self) -> list[exp.Expr]:
        """The SQL of each coordinate: a BIGINT from -GRID to GRID, never NULL."""
        return [expression for encoding in self.encodings for expression in encoding.expressions()]

    def encode(self, table: pa.Table) -> FloatArray:
        """The coordinates of a table in memory, from -1 to 1; columns are matched by name."""
        absent = [
            encoding.name for encoding in self.columns if encoding.name not in table.column_names
        ]
        if absent:
            raise ParameterError(
                "column_unknown",
                f"The table has no column {quoted(absent[0])}, of which the model was made. "
                "Give a table with all of its features.",
            )
        blocks = [
            encoding.encode(_plain_array(table.column(column.name)))
            for column, encoding in zip(self.columns, self.encodings, strict=True)
        ]
        coordinates = np.concatenate(blocks, axis=1) if blocks else np.zeros((table.num_rows, 0))
        return np.asarray(coordinates / GRID, dtype=np.float64)

    def facts(self) -> dict[str, Any]:
        """The declarations that a model needs to read its features, in JSON form."""
        return {"columns": [_declared_facts(column) for column in self.columns]}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> FeatureSpace:
        """Rebuild the space from its `facts`."""
        return cls(tuple(map(_declared_column, facts["columns"])))


def _plain_array(values: pa.ChunkedArray) -> pa.Array:
    """A column as one array, without a dictionary."""
    array = values.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _declared_facts(column: Column) -> dict[str, Any]:
    """The declaration of a column, in JSON form."""
    facts: dict[str, Any] = {"name": column.name, "kind": str(column.kind)}
    match column.public_domain:
        case Values(values=values):
            facts["values"] = [value_text(value) for value in values]
        case Bounds(low=low, high=high, step=step):
            facts["bounds"] = [value_text(low), value_text(high)]
            if step is not None:
                facts["step"] = value_text(step)
    return facts


def _declared_column(facts: Mapping[str, Any]) -> Column:
    """Rebuild a column from its declaration."""
    kind = Kind(facts["kind"])
    domain: Values | Bounds | None = None
    if "values" in facts:
        domain = Values(tuple(from_text(text, kind) for text in facts["values"]))
    elif "bounds" in facts:
        low, high = (from_text(text, kind) for text in facts["bounds"])
        step = from_text(facts["step"], Kind.REAL) if "step" in facts else None
        if step is not None and kind is not Kind.REAL:
            step = int(step)  # type: ignore[arg-type]
        domain = Bounds(low, high, step)  # type: ignore[arg-type]
    return Column(facts["name"], kind, domain=domain)
