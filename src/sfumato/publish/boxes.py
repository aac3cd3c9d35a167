"""Range queries between values and codes: boxes with one inclusive range for every column."""

from __future__ import annotations

from datetime import date, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, cast

import numpy as np

from sfumato.axes import Grid
from sfumato.errors import ParameterError
from sfumato.publish.domain import points
from sfumato.schema.names import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from sfumato.axes import Axis, Listed


def to_codes(axes: Sequence[Axis], queries: ArrayLike) -> NDArray[np.int64]:
    """Ranges of values as ranges of codes; a range that holds no code ends before it begins.

    A value between two points of a grid belongs to the nearest, so a range holds the points that
    lie within it. Among listed values a range holds those from the first to the last in the
    declared order.
    """
    given = np.asarray(queries)
    if given.ndim != 3 or given.shape[1:] != (len(axes), 2):
        raise ParameterError(
            "ranges_shape",
            f"Ranges must come as an array of shape (queries, {len(axes)}, 2), lowest and highest "
            f"value of every column, but it has the shape {given.shape}.",
        )
    codes = np.empty(given.shape, dtype=np.int64)
    for place, axis in enumerate(axes):
        ends = given[:, place]
        codes[:, place] = (
            _on_grid(axis, ends) if isinstance(axis, Grid) else _among_listed(axis, ends)
        )
    return codes


def _on_grid(axis: Grid, ends: NDArray[np.generic]) -> NDArray[np.int64]:
    """The points at or above the lower and at or below the upper ends."""
    low, step = _number(axis.bounds.low), Fraction(axis.bounds.grid_step or 1)
    last = points(axis)
    at = {one: (_number(_plain(one)) - low) / step for one in set(ends.ravel().tolist())}
    above = {one: min(max(place.__ceil__(), 0), last) for one, place in at.items()}
    below = {one: min(max(place.__floor__(), -1), last - 1) for one, place in at.items()}
    lows, highs = ends.T.tolist()
    codes = [[above[one] for one in lows], [below[one] for one in highs]]
    return np.array(codes, dtype=np.int64).T


def _among_listed(axis: Listed, ends: NDArray[np.generic]) -> NDArray[np.int64]:
    order = {value: code for code, value in enumerate(axis.values.to_pylist()[: points(axis)])}
    found = np.array([order.get(_plain(one), -1) for one in ends.ravel().tolist()], dtype=np.int64)
    if (found < 0).any():
        raise ParameterError(
            "range_value_unknown",
            f"A range of column {quoted(axis.column)} begins or ends at a value that is not "
            "declared. Name declared values.",
        )
    return found.reshape(ends.shape)


def _plain(value: object) -> object:
    """A value as the schema writes it: NumPy's dates come as datetimes."""
    return value.date() if isinstance(value, datetime) else value


def _number(value: object) -> Fraction:
    """A value as an exact number, a date as its day."""
    if isinstance(value, date):
        return Fraction(value.toordinal())
    try:
        # The shortest decimal that reads as a float is what its writer meant.
        return Fraction(repr(value) if isinstance(value, float) else cast("str", value))
    except (TypeError, ValueError):
        raise ParameterError(
            "range_not_number", f"A range must begin and end at numbers or dates, not {value!r}."
        ) from None
