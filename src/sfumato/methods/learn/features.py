"""Columns as coordinates: a space in which every declared range is from -1 to 1.

In the engine a coordinate is a whole number from -GRID to GRID, never NULL (`encodings`); `encode`
gives the same for a table in memory, divided by GRID, so that a model is asked about what it was
made of. Decision `learn-features`.
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


# How one column becomes coordinates: whole numbers from -GRID to GRID, in SQL and in memory.
#
# A number or a day is clamped to its declared bounds, goes to the nearest point of its declared
# grid,
# and from there to the nearest of 2 GRID + 1 coordinates. A column of two values, a truth among
# them,
# is one coordinate: -GRID for the first, GRID for the second. A column of other declared values
# has
# one coordinate for each: GRID where it is that value, else 0. What is missing or not declared is
# 0
# everywhere, which is the middle; that is a convention that everybody knows, not a fact of the
# data.
# What bounds a coordinate is the schema alone. Decision `learn-features`.

GRID = 1 << 10
"""The largest coordinate: a coordinate of GRID stands for 1."""

_FINEST = 1 << 48
"""The most points of which coordinates are computed: products with GRID then fit 64 bits."""


class FeatureEncoding(Protocol):
    """How one column becomes coordinates."""

    @property
    def names(self) -> tuple[str, ...]:
        """What each coordinate is called."""
        ...

    @property
    def half(self) -> float:
        """What a coordinate of 1 is away from one of 0, in units of the column."""
        ...

    @property
    def middle(self) -> float:
        """What a coordinate of 0 is; a value is 1 where a row has it, else 0."""
        ...

    def expressions(self) -> list[exp.Expr]:
        """The SQL of each coordinate: a BIGINT from -GRID to GRID, never NULL."""
        ...

    def encode(self, values: pa.Array) -> IntArray:
        """The same coordinates of values in memory, one column of the array for each."""
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
        return float(_number(self.grid.bounds.low)) + self.half

    @property
    def _coarse(self) -> tuple[int, int]:
        """How many points count as one, and the number of the last such."""
        last = self.grid.points - 1
        together = -(-last // _FINEST) or 1
        return together, last // together

    def expressions(self) -> list[exp.Expr]:
        """The nearest coordinate of the nearest point."""
        together, last = self._coarse
        if not last:
            return [literal(0)]
        code = self.grid.code()
        if together > 1:
            code = exp.IntDiv(this=exp.Paren(this=code), expression=literal(together))
        wide = exp.Paren(this=exp.Paren(this=code) * literal(4 * GRID) + literal(last))
        place = exp.IntDiv(this=wide, expression=literal(2 * last)) - literal(GRID)
        middle = exp.Coalesce(this=exp.Paren(this=place), expressions=[literal(0)])
        return [exp.cast(middle, "BIGINT")]

    def encode(self, values: pa.Array) -> IntArray:
        """The same in memory."""
        together, last = self._coarse
        if not last:
            return np.zeros((len(values), 1), dtype=np.int64)
        codes, missing = self._codes(values)
        places = (codes // together * (4 * GRID) + last) // (2 * last) - GRID
        return np.where(missing, 0, places).astype(np.int64)[:, None]

    def _codes(self, values: pa.Array) -> tuple[NDArray[Any], BoolArray]:
        """The numbers of the nearest points, and which are of no value."""
        bounds = self.grid.bounds
        low, high = (_number(end) for end in (bounds.low, bounds.high))
        step, last = bounds.grid_step or 1, self.grid.points - 1
        numbers, missing = numbers_of(values, self.grid.kind)
        if self.grid.kind is Kind.REAL:
            inside = np.clip(numbers, float(low), float(high))
            codes = np.floor((inside - float(low)) / float(step) + 0.5)
            return np.clip(codes.astype(np.int64), 0, last), missing
        # Distances of 64-bit numbers need not fit 64 bits.
        inside = np.clip(numbers.astype(object), int(low), int(high))
        return (2 * (inside - int(low)) + int(step)) // (2 * int(step)), missing


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
        return float(_number(self.bounds.low)) + self.half

    @property
    def _scale(self) -> Decimal:
        """Coordinates per unit of the column."""
        return Decimal(repr(2 * GRID / float(self.bounds.span)))

    def expressions(self) -> list[exp.Expr]:
        """The nearest coordinate."""
        if not self.bounds.span:
            return [literal(0)]
        value = exp.column(self.column, quoted=True)
        low, high = literal(self.bounds.low), literal(self.bounds.high)
        nan, half = (exp.cast(exp.convert(one), "DOUBLE") for one in ("NaN", "0.5"))
        along = exp.Paren(this=value - low) * literal(self._scale) + half
        end = exp.cast(exp.convert(2 * GRID), "DOUBLE")
        place = exp.Least(this=exp.Floor(this=along), expressions=[end], ignore_nulls=True)
        case = exp.case().when(value.is_(exp.Null()), literal(0)).when(value.eq(nan), literal(0))
        case = case.when(value <= low, literal(-GRID)).when(value >= high, literal(GRID))
        inside = exp.cast(place, "BIGINT") - literal(GRID)
        return [exp.cast(case.else_(inside), "BIGINT")]

    def encode(self, values: pa.Array) -> IntArray:
        """The same in memory."""
        if not self.bounds.span:
            return np.zeros((len(values), 1), dtype=np.int64)
        numbers, missing = numbers_of(values, Kind.REAL)
        low, high = (float(_number(end)) for end in (self.bounds.low, self.bounds.high))
        inside = np.clip(numbers, low, high)
        places = np.minimum(np.floor((inside - low) * float(self._scale) + 0.5), 2 * GRID)
        places = np.where(inside >= high, 2 * GRID, places) - GRID
        return np.where(missing, 0, places).astype(np.int64)[:, None]


@dataclass(frozen=True)
class Switch:
    """A column of two values: one coordinate, from the first to the second."""

    column: Column
    values: tuple[Scalar, Scalar]

    half, middle = 0.5, 0.5

    @property
    def names(self) -> tuple[str, ...]:
        """The second value, which has the coordinate GRID."""
        second = self.column.kind is Kind.BOOLEAN and self.values[1] is True
        return (self.column.name if second else f"{self.column.name}={word(self.values[1])}",)

    def expressions(self) -> list[exp.Expr]:
        """-GRID, GRID, or 0 for neither."""
        first, second = (_is(self.column, value) for value in self.values)
        case = exp.case().when(first, literal(-GRID)).when(second, literal(GRID))
        return [exp.cast(case.else_(literal(0)), "BIGINT")]

    def encode(self, values: pa.Array) -> IntArray:
        """The same in memory."""
        found = _places(values, self.column.kind, self.values)
        return np.select([found == 0, found == 1], [-GRID, GRID], 0).astype(np.int64)[:, None]


@dataclass(frozen=True)
class OneHot:
    """A column of declared values: one coordinate for each."""

    column: Column
    values: tuple[Scalar, ...]

    half, middle = 1.0, 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """The column with each value."""
        return tuple(f"{self.column.name}={word(value)}" for value in self.values)

    def expressions(self) -> list[exp.Expr]:
        """GRID for the value that it is."""
        cases = [
            exp.case().when(_is(self.column, value), literal(GRID)).else_(literal(0))
            for value in self.values
        ]
        return [exp.cast(case, "BIGINT") for case in cases]

    def encode(self, values: pa.Array) -> IntArray:
        """The same in memory."""
        found = _places(values, self.column.kind, self.values)
        return np.where(found[:, None] == np.arange(len(self.values)), GRID, 0).astype(np.int64)


def encoding(column: Column) -> FeatureEncoding:
    """How a column becomes coordinates; refused where nothing is declared of its values."""
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
    """The declared grid, where a missing value has no point."""
    grid = declared(column)
    assert isinstance(grid, Grid)
    return Stepped(Grid(grid.column, grid.kind, grid.bounds, nullable=False))


def numbers_of(values: pa.Array, kind: Kind) -> tuple[NDArray[Any], BoolArray]:
    """Numbers, or days as numbers, and which of them are missing; those are 0."""
    if kind is Kind.DATE:
        days = pc.cast(values, pa.date32()).cast(pa.int32()).cast(pa.int64())
        return days.fill_null(0).to_numpy(zero_copy_only=False), _absent(days)
    if pa.types.is_integer(values.type) and kind is Kind.INTEGER:
        whole = values.cast(pa.int64())
        return whole.fill_null(0).to_numpy(zero_copy_only=False), _absent(whole)
    # Whole numbers beyond 2^53 become the nearest real: Arrow's strict conversion refuses them.
    reals = values.cast(pa.float64(), safe=False)
    plain = reals.fill_null(float("nan")).to_numpy(zero_copy_only=False)
    missing = np.isnan(plain)
    plain = np.where(missing, 0.0, plain)
    # Numbers of a whole-number column may come as reals; beyond 2^62 all are beyond any grid.
    most = 2.0**62
    whole = np.floor(np.clip(plain, -most, most) + 0.5).astype(np.int64)
    return (plain if kind is Kind.REAL else whole), missing


def _absent(values: pa.Array) -> BoolArray:
    return np.asarray(values.is_null().to_numpy(zero_copy_only=False), dtype=bool)


def _places(values: pa.Array, kind: Kind, listed: Sequence[Scalar]) -> IntArray:
    """The place of each value among those listed; -1 for others."""
    stored = STORED[kind]
    plain: Iterable[Any] = map(float, listed) if kind is Kind.REAL else listed  # type: ignore[arg-type]
    among = pa.array(list(plain), type=stored)
    found = pc.index_in(values.cast(stored), value_set=among)
    return np.asarray(found.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)


def _is(column: Column, value: Scalar) -> exp.Expr:
    """The SQL that says whether a column has a value; never of a missing one."""
    cell: exp.Expr = exp.column(column.name, quoted=True)
    if column.kind is Kind.DATE:
        cell = exp.cast(cell, "DATE")
    if isinstance(value, bool | str):
        return cell.eq(exp.convert(value))
    return cell.eq(literal(value))


def word(value: Scalar) -> str:
    """A declared value as people write it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _number(value: int | Decimal | date) -> int | Decimal:
    """A declared bound as a number, a day as days since 1970."""
    if isinstance(value, date):
        return value.toordinal() - date(1970, 1, 1).toordinal()
    return value


__all__ = ["GRID", "Continuous", "FeatureSpace", "OneHot", "Stepped", "Switch"]


@dataclass(frozen=True)
class FeatureSpace:
    """Some columns as coordinates, from what is declared of them alone."""

    columns: tuple[Column, ...]

    @cached_property
    def encodings(self) -> tuple[FeatureEncoding, ...]:
        """How each column becomes coordinates."""
        return tuple(map(encoding, self.columns))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What each coordinate is called: "age", or "city=Rome"."""
        return tuple(name for one in self.encodings for name in one.names)

    @property
    def size(self) -> int:
        """How many coordinates there are."""
        return len(self.names)

    @cached_property
    def halves(self) -> FloatArray:
        """What a coordinate of 1 is away from one of 0, for each, in units of its column."""
        return np.array([one.half for one in self.encodings for _ in one.names])

    @cached_property
    def middles(self) -> FloatArray:
        """What a coordinate of 0 is, for each, in units of its column."""
        return np.array([one.middle for one in self.encodings for _ in one.names])

    @cached_property
    def blocks(self) -> tuple[range, ...]:
        """The places of each column's coordinates; at most one of a block is not 0."""
        ends = list(accumulate(len(one.names) for one in self.encodings))
        return tuple(map(range, [0, *ends[:-1]], ends))

    def expressions(self) -> list[exp.Expr]:
        """The SQL of each coordinate: a BIGINT from -GRID to GRID, never NULL."""
        return [tree for one in self.encodings for tree in one.expressions()]

    def encode(self, table: pa.Table) -> FloatArray:
        """The coordinates of a table in memory, from -1 to 1; columns are found by name."""
        absent = [one.name for one in self.columns if one.name not in table.column_names]
        if absent:
            raise ParameterError(
                "column_unknown",
                f"The table has no column {quoted(absent[0])}, of which the model was made. "
                "Give a table with all of its features.",
            )
        parts = [
            one.encode(_whole(table.column(column.name)))
            for column, one in zip(self.columns, self.encodings, strict=True)
        ]
        whole = np.concatenate(parts, axis=1) if parts else np.zeros((table.num_rows, 0))
        return np.asarray(whole / GRID, dtype=np.float64)

    def facts(self) -> dict[str, Any]:
        """What a model must know of its features, in JSON form."""
        return {"columns": [_declared_facts(column) for column in self.columns]}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> FeatureSpace:
        """The space that `facts` tells of."""
        return cls(tuple(map(_declared_column, facts["columns"])))


def _whole(values: pa.ChunkedArray) -> pa.Array:
    """A column in one piece, without a dictionary."""
    plain = values.combine_chunks()
    if isinstance(plain, pa.ChunkedArray):
        plain = pa.concat_arrays(plain.chunks) if plain.num_chunks else pa.array([], plain.type)
    return plain.dictionary_decode() if pa.types.is_dictionary(plain.type) else plain


def _declared_facts(column: Column) -> dict[str, Any]:
    """What is declared of a column, in JSON form."""
    facts: dict[str, Any] = {"name": column.name, "kind": str(column.kind)}
    match column.public_domain:
        case Values(values=values):
            facts["values"] = [word(value) for value in values]
        case Bounds(low=low, high=high, step=step):
            facts["bounds"] = [word(low), word(high)]
            if step is not None:
                facts["step"] = word(step)
    return facts


def _declared_column(facts: Mapping[str, Any]) -> Column:
    """The column of which these are the facts."""
    kind = Kind(facts["kind"])
    domain: Values | Bounds | None = None
    if "values" in facts:
        domain = Values(tuple(from_text(one, kind) for one in facts["values"]))
    elif "bounds" in facts:
        low, high = (from_text(one, kind) for one in facts["bounds"])
        step = from_text(facts["step"], Kind.REAL) if "step" in facts else None
        if step is not None and kind is not Kind.REAL:
            step = int(step)  # type: ignore[arg-type]
        domain = Bounds(low, high, step)  # type: ignore[arg-type]
    return Column(facts["name"], kind, domain=domain)
