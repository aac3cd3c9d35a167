"""Axes of a table of counts: the values that the codes of one column stand for.

The values of a *declared* axis come from the schema, which is public. Those of an *observed* axis
come from the data, which is private: a differentially private method must pay for them. A missing
value (NULL) and, among reals, NaN have codes of their own after all others.

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
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.toml_document import DOMAIN, add_line
from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
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
        """How many codes there are."""
        return len(self.values)

    def decode(self, codes: NDArray[np.integer]) -> pa.Array:
        """The values that these codes stand for."""
        return self.values.take(pa.array(codes))

    def code(self) -> exp.Expr:
        """The SQL of the value itself; `encode` looks up its code."""
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
        """The values that these codes stand for, NULL and NaN included."""
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
        """The SQL of the code of a value; NULL for a value that is not on the axis."""
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
        """The SQL of the nearest point of a value strictly inside the bounds."""
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
    """The SQL of q - p + k of `nearest_point`; `case` chooses k, with `otherwise` as default."""
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
    """A declared value as an SQL literal of the type of its column."""
    if isinstance(value, date):
        return exp.cast(exp.convert(value.isoformat()), "DATE")
    if isinstance(value, Decimal):
        return exp.cast(exp.convert(str(value)), "DOUBLE")
    return exp.cast(exp.convert(value), "BIGINT")
