"""Values that drawn rows are to have: read as their column has them, and found among its codes."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import arguments as read
from sfumato.data.counting.axes import Grid
from sfumato.data.schema.column import Kind
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError
from sfumato.methods.synth.encode.bins import Bins

if TYPE_CHECKING:
    from sfumato.data.counting.axes import Axis


def as_drawn(kind: Kind, value: object) -> object:
    """A value as rows have it: a whole number for a real column, a date as text; else as it is."""
    match kind, value:
        case (Kind.REAL | Kind.INTEGER, bool()) | (_, None):
            return value
        case Kind.REAL, int() | float() | Decimal():
            return float(value)
        case Kind.INTEGER, float() if value.is_integer():
            return int(value)
        case Kind.DATE, datetime():
            return value.date()
        case Kind.DATE, str():
            try:
                return date.fromisoformat(value)
            except ValueError:
                return value
    return value


def code_of(axis: Axis, value: object) -> int:
    """The code of a value; refused where its column has no such value."""
    grid = axis.fine if isinstance(axis, Bins) else axis
    try:
        if isinstance(grid, Grid):
            place = _point(grid, value)
        else:
            values = [(type(one), one) for one in grid.values.to_pylist()]  # True is not 1
            place = values.index((type(value), value))
    except (ValueError, TypeError, ArithmeticError):
        place = -1
    if place < 0:
        raise ParameterError(
            "value_outside_domain",
            f"No row has {read.shown(value)} in column {quoted(axis.column)}; {_allowed(axis)}",
        )
    if isinstance(axis, Bins):
        missing = place >= axis.fine.points
        return axis.points if missing else int(np.searchsorted(axis.starts, place, "right")) - 1
    return place


def _allowed(axis: Axis) -> str:
    if not isinstance(axis, Grid):
        return suggestion("", map(str, axis.values.drop_null().to_pylist()))
    low, high, step = map(_words, (axis.bounds.low, axis.bounds.high, axis.bounds.grid_step))
    days = " days" if axis.kind is Kind.DATE else ""
    return f"allowed: from {low} to {high} in steps of {step}{days}."


def _words(one: object) -> str:
    return f"{one.normalize():f}" if isinstance(one, Decimal) else repr(one)


def _point(grid: Grid, value: Any) -> int:
    """The number of a point of a grid; -1 if it is none."""
    if value is None:
        return grid.points if grid.nullable else -1
    if isinstance(value, bool):
        return -1
    low: Any = grid.bounds.low
    distance = value - (float(low) if isinstance(value, float) else low)
    steps = float(getattr(distance, "days", distance)) / float(grid.bounds.grid_step or 1)
    place = round(steps)
    return place if abs(steps - place) < 1e-6 and 0 <= place < grid.points else -1
