"""The axes of a table of counts: what the codes of one column stand for, and who knows it.

An axis is *declared* when its values come from the schema, which is public, and *observed* when
they come from the data, which is private: a differentially private method must pay for those.
A missing value (NULL) and, among reals, NaN have codes of their own behind all others.

Decision `integer-ranges`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.data.engines.kinds import STORED
from sfumato.data.schema.advice import DOMAIN, add_line
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.schema.column import Column

MOST_POINTS = 2**62
"""The most points of a declared grid: their numbers and those of NULL and NaN fit 64 bits."""

MOST_REALS = 2**53
"""The most of a grid of reals, whose numbers are found as doubles."""


@dataclass(frozen=True)
class Listed:
    """An axis whose values are written out, in code order; NULL, where it can occur, is last."""

    column: str
    values: pa.Array
    declared: bool

    @property
    def size(self) -> int:
        """How many codes there are."""
        return len(self.values)

    def decode(self, codes: NDArray[np.integer]) -> pa.Array:
        """The values that these codes stand for."""
        return self.values.take(pa.array(codes))

    def code(self) -> exp.Expr:
        """The SQL of the value itself, whose code is looked up when it comes.

        A database may hold days as timestamps.
        """
        value: exp.Expr = exp.column(self.column, quoted=True)
        return exp.cast(value, "DATE") if pa.types.is_date32(self.values.type) else value

    def holds(self, key: str) -> exp.Expr:
        """The SQL that says whether a value of `code` is on the axis."""
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

    A value is clamped into the bounds and goes to the nearest point, the upper one of two.
    """

    column: str
    kind: Kind
    bounds: Bounds
    nullable: bool

    declared = True

    @property
    def points(self) -> int:
        """How many points the grid has."""
        size = self.bounds.size
        assert size is not None
        return size

    @property
    def size(self) -> int:
        """How many codes there are, with those of NULL and NaN."""
        return self.points + self.nullable * (2 if self.kind is Kind.REAL else 1)

    def decode(self, codes: NDArray[np.integer]) -> pa.Array:
        """The values that these codes stand for, NULL and NaN included."""
        low, step = self.bounds.low, self.bounds.grid_step
        assert step is not None
        inside = np.minimum(codes.astype(np.int64), self.points - 1)
        if self.kind is Kind.REAL:
            points = self._reals(inside)
            points = np.where(codes == self.points + 1, np.nan, points)
            return pa.array(points, mask=codes == self.points)
        first = low.toordinal() - date(1970, 1, 1).toordinal() if isinstance(low, date) else low
        # Distances may need 64 bits without a sign; the points themselves fit 64 bits with one, so
        # arithmetic modulo 2^64 gives them exactly.
        distances = inside.astype(np.uint64) * np.uint64(int(step))
        integers = (distances + np.uint64(int(first) % 2**64)).view(np.int64)
        array = pa.array(integers, mask=codes >= self.points)
        return array.cast(pa.int32()).cast(pa.date32()) if self.kind is Kind.DATE else array

    def _reals(self, positions: IntArray) -> FloatArray:
        """Points as their declaration reads: 0.3 where low is 0 and step 0.1, not 3 times 0.1.

        One division of two whole numbers that floats hold exactly is rounded to the nearest float.
        """
        low, step = (Fraction(str(value)) for value in (self.bounds.low, self.bounds.grid_step))
        denominator = lcm(low.denominator, step.denominator)
        first, width = int(low * denominator), int(step * denominator)
        if max(abs(first) + self.points * width, denominator) < 1 << 53:
            return np.asarray((first + positions * width) / denominator)
        return np.asarray(float(low) + positions * float(step), dtype=np.float64)

    def code(self) -> exp.Expr:
        """The SQL that turns a value into its code; NULL where the axis has no place for it."""
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
        """The SQL that says whether a code of `code` is on the axis."""
        return exp.column(key).is_(exp.Null()).not_()

    def _nearest(self, value: exp.Expr) -> exp.Expr:
        """The nearest point of a value strictly inside the bounds."""
        low, step = self.bounds.low, self.bounds.grid_step or 1
        if self.kind is Kind.REAL:
            steps = exp.Paren(this=value - literal(low)) / literal(Decimal(step))
            nearest = exp.Floor(this=steps + exp.cast(exp.convert("0.5"), "DOUBLE"))
            # However doubles were rounded, codes end with the last point.
            last = exp.cast(exp.convert(self.points - 1), "DOUBLE")
            return exp.Least(this=nearest, expressions=[last], ignore_nulls=True)
        if self.kind is Kind.DATE:
            distance = exp.DateDiff(this=value, expression=literal(low), unit=exp.var("DAY"))
            return nearest_point(exp.cast(distance, "BIGINT"), 0, int(step))
        return nearest_point(exp.cast(value, "BIGINT"), int(low), int(step))  # type: ignore[arg-type]


def nearest_point(value: exp.Expr, low: int, step: int) -> exp.Expr:
    """The number of the point of low, low + step, ... nearest to a BIGINT, the upper one of two.

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
            return _moved(value, width, low_steps, case, offset)
        if least < step:
            reached = exp.GTE(this=remainder.copy(), expression=literal(least))
            case = case.when(reached, literal(offset))
    return _moved(value, width, low_steps, case, -2)


def _moved(
    value: exp.Expr, width: exp.Expr, low_steps: int, case: exp.Case, otherwise: int
) -> exp.Expr:
    """How many steps a value is from a multiple of the step, moved by what a case says."""
    moved: exp.Expr = case.else_(literal(otherwise)) if case.args.get("ifs") else literal(otherwise)
    steps = exp.Paren(this=exp.IntDiv(this=exp.Paren(this=value), expression=width))
    return exp.Paren(this=steps - literal(low_steps)) + moved


Axis = Listed | Grid


def declared(column: Column) -> Axis:
    """The axis of a column's public domain; reals without a step get a round one."""
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
                "domain_too_large",
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
    """A declared value in SQL, in the type that its column has."""
    if isinstance(value, date):
        return exp.cast(exp.convert(value.isoformat()), "DATE")
    if isinstance(value, Decimal):
        return exp.cast(exp.convert(str(value)), "DOUBLE")
    return exp.cast(exp.convert(value), "BIGINT")
