"""What is to be published, from public facts alone, and what a method can say of ranges."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import numpy as np
import pyarrow as pa

from sfumato.arguments import shown
from sfumato.data.counting.axes import Grid
from sfumato.data.counting.frequencies import BoundedCounter
from sfumato.data.schema.column import Kind
from sfumato.data.schema.names import quoted
from sfumato.data.schema.unit import count_sensitivity
from sfumato.errors import ParameterError
from sfumato.methods.method import KindRequest
from sfumato.methods.publish.domain import points
from sfumato.methods.publish.rounding import readable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.counting.axes import Axis, Listed
    from sfumato.data.counting.frequencies import Counter
    from sfumato.data.schema.unit import Sensitivity, Unit
    from sfumato.methods.method import Dataset
    from sfumato.privacy.accounting.price import Price

    OverBoxes = Callable[[Mapping[str, pa.Table], IntArray], FloatArray]


def to_codes(axes: Sequence[Axis], queries: ArrayLike) -> IntArray:
    """Ranges of values as ranges of codes; a range that holds no code ends before it begins.

    A value between two points of a grid belongs to the nearest, so a range holds the points that
    lie within it. Among listed values a range holds those from the first to the last in the
    declared order.
    """
    # Lists keep what they hold: an array of them would make texts of booleans beside texts.
    ranges = queries if isinstance(queries, np.ndarray) else np.array(queries, dtype=object)
    if ranges.dtype.kind == "M":
        ranges = ranges.astype("datetime64[us]")  # finer ones come out as whole numbers
    if ranges.ndim != 3 or ranges.shape[1:] != (len(axes), 2):
        raise ParameterError(
            "array_invalid",
            f"Ranges must come as an array of shape (queries, {len(axes)}, 2), lowest and highest "
            f"value of every column, but it has the shape {ranges.shape}.",
        )
    codes = np.empty(ranges.shape, dtype=np.int64)
    for column, axis in enumerate(axes):
        ends = ranges[:, column]
        codes[:, column] = (
            _on_grid(axis, ends) if isinstance(axis, Grid) else _among_listed(axis, ends)
        )
    return codes


def _on_grid(axis: Grid, ends: NDArray[np.generic]) -> IntArray:
    """The points at or above the lower and at or below the upper ends."""
    low, step = _number(axis.bounds.low), Fraction(axis.bounds.grid_step or 1)
    last, dated = points(axis), axis.kind is Kind.DATE
    values = set(ends.ravel().tolist())
    at = {
        value: (_number(_plain(value, dated=dated), dated=dated) - low) / step for value in values
    }
    above = {value: min(max(point.__ceil__(), 0), last) for value, point in at.items()}
    below = {value: min(max(point.__floor__(), -1), last - 1) for value, point in at.items()}
    lows, highs = ends.T.tolist()
    codes = [[above[value] for value in lows], [below[value] for value in highs]]
    return np.array(codes, dtype=np.int64).T


def _among_listed(axis: Listed, ends: NDArray[np.generic]) -> IntArray:
    order = {value: code for code, value in enumerate(axis.values.to_pylist()[: points(axis)])}
    dated, values = pa.types.is_date(axis.values.type), ends.ravel().tolist()
    codes = np.array(
        [order.get(_plain(value, dated=dated), -1) for value in values], dtype=np.int64
    )
    if (codes < 0).any():
        raise ParameterError(
            "value_outside_domain",
            f"A range of column {quoted(axis.column)} begins or ends at a value that is not "
            "declared. Name declared values.",
        )
    return codes.reshape(ends.shape)


def _plain(value: object, *, dated: bool) -> object:
    """A value as the schema writes it: NumPy's dates come as datetimes, JSON's as texts."""
    if dated and isinstance(value, str):
        with suppress(ValueError):
            return date.fromisoformat(value)
    if isinstance(value, np.generic):
        value = (value.astype("datetime64[us]") if value.dtype.kind == "M" else value).item()
    return value.date() if isinstance(value, datetime) else value


def _number(value: object, *, dated: bool | None = None) -> Fraction:
    """A value as an exact number, a date as its day; of the sort that the column has, if said."""
    if isinstance(value, date):
        if dated is not False:
            return Fraction(value.toordinal())
    elif not dated:
        with suppress(TypeError, ValueError):
            # The shortest decimal that reads as a float is what its writer meant.
            return Fraction(repr(value) if isinstance(value, float) else cast("str", value))
    raise ParameterError(
        "workload_invalid",
        f"A range must begin and end at numbers, or for a column of dates at dates, not "
        f"{shown(value)}.",
    )


@dataclass(frozen=True, kw_only=True)
class Request(KindRequest):
    """A data set's columns with their declared axes, at a price. Nothing in it saw data."""

    dataset: str
    axes: tuple[Axis, ...]
    unit: Unit
    price: Price
    boxes: IntArray | None = None
    """The ranges that matter, (queries, columns, 2), as inclusive codes; None if nobody said."""
    groups: Mapping[str, Mapping[object, Sequence[str | None]]] = field(default_factory=dict)
    """For nominal columns that have a hierarchy: the groups of each value, the smallest first."""
    postprocess: tuple[str, ...] = ()
    """What is done to noisy counts afterwards, by name; nothing by default."""

    def __post_init__(self) -> None:
        _ = self.unit.by_person  # which refuses rows of two people, whatever the kind would ask

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(axis.column for axis in self.axes)

    @property
    def sensitivity(self) -> Sensitivity:
        """How far one person moves any histogram of rows, all cells together."""
        return count_sensitivity(self.unit, grouped=True)

    @property
    def subject(self) -> str:
        """The columns and the data set."""
        return f"{', '.join(self.columns)} in {self.dataset}"

    def record(self, method: object) -> dict[str, Any]:  # noqa: ARG002  # says nothing more
        """The columns with all that is declared of them, the price, the ranges and the unit."""
        return {
            "columns": list(self.columns),
            "domain": _digest(repr([_declared(axis, self.groups) for axis in self.axes])),
            "cost": self.price.to_record(),
            "workload": None if self.boxes is None else _digest(self.boxes.tobytes()),
            "postprocess": list(self.postprocess),
            "unit": self.unit.sentence(),
        }

    def open(self, datasets: Mapping[str, Dataset], salt: str) -> Counter:
        """A counter of cells, bounded by the unit."""
        data = datasets[self.dataset]
        return BoundedCounter(data.engine, data.table, self.axes, self.unit, salt)

    def rounded(
        self, tables: Mapping[str, pa.Table], error: Mapping[str, Any]
    ) -> Mapping[str, pa.Table]:
        """Figures on a decimal step far below their noise."""
        return readable(tables, error, self.columns)


def _declared(axis: Axis, groups: Mapping[str, Any]) -> tuple[object, ...]:
    """All that is declared of an axis: another domain makes another publication."""
    if isinstance(axis, Grid):
        bounds = axis.bounds
        ends = (str(bounds.low), str(bounds.high), str(bounds.grid_step))
        return axis.column, str(axis.kind), ends, axis.nullable
    return axis.column, axis.values.to_pylist(), groups.get(axis.column)


def _digest(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


@runtime_checkable
class AnswersRanges(Protocol):
    """A method whose release answers how many rows lie in boxes of codes, ends included."""

    @property
    def ranges(self) -> OverBoxes:
        """Estimate the rows in each box from the released tables alone."""
        ...


@runtime_checkable
class PredictsVariance(Protocol):
    """A method that knows before anything is spent how far its ranges will be off."""

    def ranges_variance(self, boxes: IntArray) -> FloatArray:
        """The variance of each estimate, exact or, where `error` says so, a bound."""
        ...


@runtime_checkable
class BoundsUnevenness(Protocol):
    """A method whose release bounds what rows that lie unevenly within a count add to an error."""

    @property
    def ranges_unevenness(self) -> OverBoxes:
        """The most that each estimate is off besides its noise, given the released counts."""
        ...


@runtime_checkable
class EstimatesVariance(Protocol):
    """A method that knows from its release, better than before, how far its ranges are off."""

    @property
    def ranges_variance_of(self) -> OverBoxes:
        """The variance that noise gives each estimate, given the released tables."""
        ...
