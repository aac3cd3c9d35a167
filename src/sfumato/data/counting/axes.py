"""Axes of a table of counts: the values that the codes of one column stand for.

The values of a *declared* axis come from the schema, which is public. Those of an *observed* axis
come from the data, which is private: a differentially private method must pay for them. A missing
value (NULL) and, among reals, NaN have codes of their own after all others.

`encode` turns what an engine returns into codes. Decision `integer-ranges`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from math import lcm
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from sfumato.data.engines.kinds import STORED
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.toml_document import DOMAIN, add_line
from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.data.schema.column import Column


MOST_POINTS = 2**62
"""The most points of a declared grid; their codes and those of NULL and NaN fit 64 bits."""

MOST_REALS = 2**53
"""The most points of a grid of reals, whose codes are computed as doubles."""


@dataclass(frozen=True)
class Listed:
    """An axis with listed values in the order of their codes; NULL, where it can occur, is last."""

    column: str
    values: pa.Array
    declared: bool

    @property
    def size(self) -> int:
        """The number of codes."""
        return len(self.values)

    def decode(self, codes: NDArray[np.integer]) -> pa.Array:
        """Return the values that these codes stand for."""
        return self.values.take(pa.array(codes))

    def code(self) -> exp.Expr:
        """Return the SQL of the value itself; `encode` looks up its code."""
        # The cast is for databases that store dates as timestamps.
        value: exp.Expr = exp.column(self.column, quoted=True)
        return exp.cast(value, "DATE") if pa.types.is_date32(self.values.type) else value

    def holds(self, key: str) -> exp.Expr:
        """The SQL that tests whether a value of `code` is on the axis."""
        values = self.values.drop_null().to_pylist()
        literals = [
            exp.cast(exp.convert(repr(value)), "DOUBLE")
            if isinstance(value, float)
            else exp.convert(value)
            for value in values
        ]
        missing = exp.column(key).is_(exp.Null())
        if not literals:
            return missing if self.values.null_count else exp.false()
        listed = exp.column(key).isin(*literals)
        return exp.or_(listed, missing) if self.values.null_count else listed


@dataclass(frozen=True)
class Grid:
    """A declared axis of equally spaced points: low, low + step, ..., high.

    A value is clamped to the bounds and rounded to the nearest point, a tie to the upper one.
    """

    column: str
    kind: Kind
    bounds: Bounds
    nullable: bool

    declared = True

    @property
    def points(self) -> int:
        """The number of points."""
        size = self.bounds.size
        assert size is not None
        return size

    @property
    def size(self) -> int:
        """The number of codes, with those of NULL and NaN."""
        return self.points + self.nullable * (2 if self.kind is Kind.REAL else 1)

    def decode(self, codes: NDArray[np.integer]) -> pa.Array:
        """Return the values that these codes stand for, NULL and NaN included."""
        low, step = self.bounds.low, self.bounds.grid_step
        assert step is not None
        inside = np.minimum(codes.astype(np.int64), self.points - 1)
        if self.kind is Kind.REAL:
            points = self._reals(inside)
            points = np.where(codes == self.points + 1, np.nan, points)
            return pa.array(points, mask=codes == self.points)
        first = low.toordinal() - date(1970, 1, 1).toordinal() if isinstance(low, date) else low
        # A distance from low can exceed 2^63, a point cannot. So unsigned arithmetic modulo 2^64
        # gives every point exactly.
        distances = inside.astype(np.uint64) * np.uint64(int(step))
        integers = (distances + np.uint64(int(first) % 2**64)).view(np.int64)
        array = pa.array(integers, mask=codes >= self.points)
        return array.cast(pa.int32()).cast(pa.date32()) if self.kind is Kind.DATE else array

    def _reals(self, positions: IntArray) -> FloatArray:
        """The points as floats: 0.3 for low 0 and step 0.1, not 3 * 0.1 = 0.30000000000000004."""
        # Numerators over one denominator: where both are exact as floats (below 2^53), their
        # quotient is the float nearest to the declared decimal.
        low, step = (Fraction(str(value)) for value in (self.bounds.low, self.bounds.grid_step))
        denominator = lcm(low.denominator, step.denominator)
        first, width = int(low * denominator), int(step * denominator)
        if max(abs(first) + self.points * width, denominator) < 1 << 53:
            return np.asarray((first + positions * width) / denominator)
        return np.asarray(float(low) + positions * float(step), dtype=np.float64)

    def code(self) -> exp.Expr:
        """Return the SQL of the code of a value; NULL for a value that is not on the axis."""
        value = exp.column(self.column, quoted=True)
        low, high = literal(self.bounds.low), literal(self.bounds.high)
        case = exp.case()
        missing = exp.convert(self.points) if self.nullable else exp.Null()
        case = case.when(value.is_(exp.Null()), missing)
        if self.kind is Kind.REAL:
            nan = exp.cast(exp.convert("NaN"), "DOUBLE")
            beyond = exp.convert(self.points + 1) if self.nullable else exp.Null()
            case = case.when(value.eq(nan), beyond)
        case = case.when(value <= low, exp.convert(0))
        case = case.when(value >= high, exp.convert(self.points - 1))
        return exp.cast(case.else_(self._nearest(value)), "BIGINT")

    def holds(self, key: str) -> exp.Expr:
        """The SQL that tests whether a code of `code` is on the axis."""
        return exp.column(key).is_(exp.Null()).not_()

    def _nearest(self, value: exp.Expr) -> exp.Expr:
        """Return the SQL of the nearest point of a value strictly inside the bounds."""
        low, step = self.bounds.low, self.bounds.grid_step or 1
        if self.kind is Kind.REAL:
            steps = exp.Paren(this=value - literal(low)) / literal(Decimal(step))
            nearest = exp.Floor(this=steps + exp.cast(exp.convert("0.5"), "DOUBLE"))
            # Rounding of doubles must not give a code past the last point.
            last = exp.cast(exp.convert(self.points - 1), "DOUBLE")
            return exp.Least(this=nearest, expressions=[last], ignore_nulls=True)
        if self.kind is Kind.DATE:
            distance = exp.DateDiff(this=value, expression=literal(low), unit=exp.var("DAY"))
            return nearest_point(exp.cast(distance, "BIGINT"), 0, int(step))
        return nearest_point(exp.cast(value, "BIGINT"), int(low), int(step))  # type: ignore[arg-type]


def nearest_point(value: exp.Expr, low: int, step: int) -> exp.Expr:
    """Return the number of the point of low, low + step, ... nearest to a BIGINT; upper ties.

    *Range*: the value v lies from low to a bound of 64 bits, and the number is below 2^63. A step
    of 1 leaves v - low, the number itself. Else v = q step + r and low = p step + s with |r| < step
    and 0 <= s < step: the number is q - p + k, and k, one of -2, ..., 1, follows from comparing r
    with constants. q < 2^62 and p >= -2^62, so that nothing leaves 64 bits, though v - low and
    twice it might.
    """
    if step == 1:
        return exp.Paren(this=value - literal(low)) if low else value
    width = literal(step)
    low_steps, low_remainder = divmod(low, step)
    remainder = exp.Mod(this=value.copy(), expression=width.copy())
    case = exp.case()
    for offset in (1, 0, -1):
        # r - s >= (k - 1/2) step, in whole numbers.
        least = low_remainder - (1 - 2 * offset) * step // 2
        if least <= 1 - step:
            return _shift_sql(value, width, low_steps, case, offset)
        if least < step:
            reached = exp.GTE(this=remainder.copy(), expression=literal(least))
            case = case.when(reached, literal(offset))
    return _shift_sql(value, width, low_steps, case, -2)


def _shift_sql(
    value: exp.Expr, width: exp.Expr, low_steps: int, case: exp.Case, otherwise: int
) -> exp.Expr:
    """The SQL of q - p + k of `nearest_point`; `case` chooses k, with `otherwise` as default."""
    moved: exp.Expr = case.else_(literal(otherwise)) if case.args.get("ifs") else literal(otherwise)
    steps = exp.Paren(this=exp.IntDiv(this=exp.Paren(this=value), expression=width))
    return exp.Paren(this=steps - literal(low_steps)) + moved


Axis = Listed | Grid


def declared(column: Column) -> Axis:
    """Return the axis of a column's public domain; reals without a step get a round one."""
    match column.public_domain:
        case Values(values=values):
            array = (
                pa.array(values, type=STORED[column.kind])
                if column.kind is not Kind.REAL
                else (
                    pa.array([float(value) for value in values], type=pa.float64())  # type: ignore[arg-type]
                )
            )
            missing = pa.nulls(int(column.nullable), type=array.type)
            return Listed(column.name, pa.concat_arrays([array, missing]), declared=True)
        case Bounds() as given if (bounds := given.stepped()) is not None:
            most = MOST_REALS if column.kind is Kind.REAL else MOST_POINTS
            if (points := bounds.size or 0) <= most:
                return Grid(column.name, column.kind, bounds, column.nullable)
            raise SchemaError(
                "problem_too_large",
                f"Column {column.name!r} has {points:,} declared points; at most {most:,} can be "
                "numbered.",
                hint="Declare narrower bounds or a coarser step.",
            )
        case Bounds():
            needed = "a step that divides its bounds evenly, such as step = 0.5"
        case _ if column.kind is Kind.BOOLEAN:
            array = pa.array([False, True, None][: 2 + column.nullable])
            return Listed(column.name, array, declared=True)
        case _:
            needed = DOMAIN[column.kind]
    raise SchemaError(
        "domain_missing",
        f"Column {column.name!r} has no finite declared domain. {add_line(column.name, needed)}",
    )


def literal(value: int | Decimal | date) -> exp.Expr:
    """A declared value as an SQL literal of the type of its column."""
    if isinstance(value, date):
        return exp.cast(exp.convert(value.isoformat()), "DATE")
    if isinstance(value, Decimal):
        return exp.cast(exp.convert(str(value)), "DOUBLE")
    return exp.cast(exp.convert(value), "BIGINT")


# Integers, dates and booleans in a short range are looked up in a table as long as the range, which
# costs a fraction of hashing; texts and reals are hashed. No array held below is a view into a
# batch: it would keep all columns of the batch in memory. Decision `large-releases`.


OUTSIDE = -1
"""The code of a value that is not on a declared axis."""

# A lookup table of up to this many slots, or this many slots per value, is cheaper than hashing.
_SHORT_RANGE = 1 << 16
_RANGE_FACTOR = 4


def encode(
    reader: pa.RecordBatchReader, columns: Sequence[str | Axis]
) -> tuple[tuple[Axis, ...], list[NDArray[np.integer]], IntArray]:
    """Encode batches of (values of each column, count).

    Parameters
    ----------
    reader : pa.RecordBatchReader
        One column of values for each of `columns`, then a column of counts.
    columns : sequence of str or Axis
        A name for an observed axis, or a declared axis whose codes are used.

    Returns
    -------
    tuple
        The axes, an array of codes for each, and the counts.
    """
    # An empty first batch, so that a result without rows still has its types.
    empty = pa.RecordBatch.from_pylist([], schema=reader.schema)
    chunks: list[list[Any]] = [[] for _ in columns]
    counts: list[IntArray] = []
    for batch in chain([empty], reader):
        counted = batch.column(len(columns)).fill_null(0)
        counts.append(counted.to_numpy(zero_copy_only=False).astype(np.int64))
        for position, held in enumerate(chunks):
            held.append(_held(batch.column(position)))
    axes: list[Axis] = []
    codes: list[NDArray[np.integer]] = []
    for position, column in enumerate(columns):
        axis, coded = _code(chunks[position], column)
        chunks[position] = []
        axes.append(axis)
        codes.append(coded)
    return tuple(axes), codes, np.concatenate(counts)


@dataclass(frozen=True)
class _Integers:
    """Values of one batch that are stored as integers, and which of them are NULL."""

    kind: pa.DataType
    numbers: NDArray[np.integer]
    missing: BoolArray | None


def _held(values: pa.Array) -> pa.Array | _Integers:
    """Copy a column of a batch; text types become one, and -0.0 becomes 0.0, which it equals."""
    kind = values.type
    if pa.types.is_date32(kind):
        return _integers(values.cast(pa.int32()), kind)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return _integers(values.cast(pa.int64()), kind if pa.types.is_boolean(kind) else pa.int64())
    if pa.types.is_floating(kind):
        return pc.add(values.cast(pa.float64()), 0.0).dictionary_encode()  # -0.0 + 0.0 is 0.0
    return values.cast(pa.string()).dictionary_encode()


def _integers(values: pa.Array, kind: pa.DataType) -> _Integers:
    """Copy integers, as 32 bits where they fit, which halves the memory."""
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    ends = np.array([numbers.min(initial=0), numbers.max(initial=0)])
    narrow = np.array_equal(ends.astype(np.int32), ends)
    missing = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return _Integers(kind, numbers.astype(np.int32 if narrow else np.int64), missing)


def _code(chunks: list[Any], column: str | Axis) -> tuple[Axis, NDArray[np.integer]]:
    """Return the axis and the codes of one column."""
    if isinstance(column, Grid):
        numbers, missing = _join_chunks(chunks)
        if missing is not None:
            numbers[missing] = OUTSIDE
        return column, _narrow(numbers, column.size)
    numbered = _unify_integers if isinstance(chunks[0], _Integers) else _unify_values
    dictionary, indices = numbered(chunks)
    if isinstance(column, str):
        order = pc.sort_indices(dictionary)
        has_missing = len(indices) > 0 and indices.max() == len(dictionary)
        missing_value = pa.nulls(int(has_missing), type=dictionary.type)
        values = pa.concat_arrays([dictionary.take(order), missing_value])
        axis: Axis = Listed(column, values, declared=False)
        code_of = np.empty(len(dictionary) + 1, dtype=np.int64)
        code_of[order.to_numpy()] = np.arange(len(dictionary))
        code_of[-1] = len(dictionary)
    else:
        axis = column
        with_missing = pa.concat_arrays([dictionary, pa.nulls(1, type=dictionary.type)])
        codes = pc.index_in(with_missing.cast(column.values.type), value_set=column.values)
        code_of = codes.fill_null(OUTSIDE).to_numpy()
    return axis, _narrow(code_of, axis.size)[indices]


def _unify_values(chunks: list[pa.Array]) -> tuple[pa.Array, NDArray[np.integer]]:
    """The distinct values, and for each value its position among them; past the end for NULL."""
    unified = pa.chunked_array(chunks).unify_dictionaries()
    dictionary = unified.chunk(0).dictionary
    positions = [chunk.indices.fill_null(len(dictionary)).to_numpy() for chunk in unified.chunks]
    return dictionary, np.concatenate(positions)


def _unify_integers(chunks: list[_Integers]) -> tuple[pa.Array, NDArray[np.integer]]:
    """The same as `_unify_values` for integers."""
    kind = chunks[0].kind
    numbers, missing = _join_chunks(chunks)
    present = numbers if missing is None else numbers[~missing]
    low, high = (int(present.min()), int(present.max())) if len(present) else (0, -1)
    if high - low >= max(_SHORT_RANGE, _RANGE_FACTOR * len(numbers)):
        coded = pa.array(numbers, mask=missing).dictionary_encode()
        distinct = coded.dictionary
        positions = coded.indices.fill_null(len(distinct)).to_numpy()
    else:
        used = np.zeros(high - low + 2, dtype=bool)
        used[present - low] = True
        distinct = pa.array(np.flatnonzero(used) + low)
        position_of = np.cumsum(used, dtype=np.int32) - 1
        # The slot after that of the highest number stands for NULL.
        position_of[-1] = len(distinct)
        slots = numbers - low
        if missing is not None:
            slots = np.where(missing, len(used) - 1, slots)
        positions = position_of[slots]
    return _restore_kind(distinct, kind), positions


def _restore_kind(distinct: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert integers back to dates or booleans."""
    if pa.types.is_date32(kind):
        distinct = distinct.cast(pa.int32())
    return distinct.cast(kind)


def _join_chunks(chunks: Sequence[_Integers]) -> tuple[NDArray[np.integer], BoolArray | None]:
    """Return all numbers, and a mask of NULL where there is any."""
    numbers = np.concatenate([chunk.numbers for chunk in chunks])
    if all(chunk.missing is None for chunk in chunks):
        return numbers, None
    masks = [
        np.zeros(len(chunk.numbers), dtype=bool) if chunk.missing is None else chunk.missing
        for chunk in chunks
    ]
    return numbers, np.concatenate(masks)


def _narrow(codes: NDArray[np.integer], size: int) -> NDArray[np.integer]:
    return codes.astype(np.int32 if size < 1 << 31 else np.int64)
