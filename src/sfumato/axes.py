"""The axes of a table of counts: what the codes of one column stand for, and who knows it.

An axis is *declared* when its values come from the schema, which is public, and *observed* when
they come from the data, which is private: a differentially private method must pay for those.
A missing value (NULL) and, among reals, NaN have codes of their own behind all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.engines.kinds import STORED
from sfumato.errors import SchemaError
from sfumato.schema.column import Kind
from sfumato.schema.domain import Bounds, Values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.schema.column import Column


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
        inside = np.minimum(codes, self.points - 1)
        if self.kind is Kind.REAL:
            points = float(low) + inside * float(step)  # type: ignore[arg-type]  # a number here
            points = np.where(codes == self.points + 1, np.nan, points)
            return pa.array(points, mask=codes == self.points)
        first = low.toordinal() - date(1970, 1, 1).toordinal() if isinstance(low, date) else low
        whole = int(first) + inside * int(step)
        array = pa.array(whole.astype(np.int64), mask=codes >= self.points)
        return array.cast(pa.int32()).cast(pa.date32()) if self.kind is Kind.DATE else array

    def code(self) -> exp.Expr:
        """The SQL that turns a value into its code; NULL where the axis has no place for it."""
        value = exp.column(self.column, quoted=True)
        low, high = _literal(self.bounds.low), _literal(self.bounds.high)
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

    def _nearest(self, value: exp.Expr) -> exp.Expr:
        """The nearest point of a value strictly inside the bounds."""
        low, step = _literal(self.bounds.low), self.bounds.grid_step
        if self.kind is Kind.REAL:
            places = exp.Paren(this=value - low) / _literal(Decimal(step or 1))
            return exp.Floor(this=places + exp.cast(exp.convert("0.5"), "DOUBLE"))
        if self.kind is Kind.DATE:
            distance: exp.Expr = exp.DateDiff(this=value, expression=low, unit=exp.var("DAY"))
        else:
            distance = exp.Paren(this=value - low)
        doubled = exp.Paren(this=distance * 2 + exp.convert(int(step or 1)))
        return exp.IntDiv(this=doubled, expression=exp.convert(2 * int(step or 1)))


Axis = Listed | Grid


def declared(column: Column) -> Axis:
    """The axis of a column's declared domain."""
    match column.domain:
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
        case Bounds() as bounds if bounds.size is not None:
            return Grid(column.name, column.kind, bounds, column.nullable)
        case Bounds():
            needed = f"a step beside the bounds of column {column.name!r}, e.g. step = 0.5"
        case _ if column.kind is Kind.BOOLEAN:
            array = pa.array([False, True, None][: 2 + column.nullable])
            return Listed(column.name, array, declared=True)
        case _:
            needed = f"values = [...] or bounds = [low, high] for column {column.name!r}"
    raise SchemaError(
        "domain_missing", f"Column {column.name!r} has no finite declared domain. Declare {needed}."
    )


def _literal(value: int | Decimal | date) -> exp.Expr:
    if isinstance(value, date):
        return exp.cast(exp.convert(value.isoformat()), "DATE")
    if isinstance(value, Decimal):
        return exp.cast(exp.convert(str(value)), "DOUBLE")
    return exp.convert(value)
