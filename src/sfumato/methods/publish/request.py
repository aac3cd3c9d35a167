"""Requests for publications, made from public facts, and what methods answer about ranges.

A publication is of the columns of a table (`Request`), or of a table whose rows are edges, points
or items (`FormRequest`). Rows of such forms come from any engine; rows that lack a column of the
form are left out, and where the unit is a person they are bounded in the engine. Released figures
are rounded to a decimal step far below their noise, so that people can read them. Decisions
`counts-only` and `exact-noise`.
"""

from __future__ import annotations

import hashlib
import math
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast, runtime_checkable

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.arguments import shown
from sfumato.data.counting.axes import Grid
from sfumato.data.counting.contribution import COUNT, PERSON, bound
from sfumato.data.counting.frequencies import BoundedCounter
from sfumato.data.schema.column import Kind
from sfumato.data.schema.names import quoted
from sfumato.data.schema.unit import count_sensitivity
from sfumato.errors import ParameterError
from sfumato.methods.method import KindRequest, Method, SaltedData
from sfumato.methods.publish.domain import points

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.counting.axes import Axis, Listed
    from sfumato.data.counting.frequencies import Counter
    from sfumato.data.schema.schema import Form, Schema
    from sfumato.data.schema.unit import Sensitivity, Unit
    from sfumato.methods.method import Dataset
    from sfumato.privacy.accounting.price import Price

    OverBoxes = Callable[[Mapping[str, pa.Table], IntArray], FloatArray]


def to_codes(axes: Sequence[Axis], queries: ArrayLike) -> IntArray:
    """Convert ranges of values to ranges of codes; a range without codes ends before it begins.

    A range holds the points of a grid that lie within it. Among listed values it holds those from
    the first to the last in the declared order.
    """
    # Objects, because an array of mixed types would convert booleans beside texts to texts.
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
    """The first point at or above each lower end, and the last at or below each upper end."""
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
    """A value as the schema has it: NumPy's dates come as datetimes, JSON's as texts."""
    if dated and isinstance(value, str):
        with suppress(ValueError):
            return date.fromisoformat(value)
    if isinstance(value, np.generic):
        value = (value.astype("datetime64[us]") if value.dtype.kind == "M" else value).item()
    return value.date() if isinstance(value, datetime) else value


def _number(value: object, *, dated: bool | None = None) -> Fraction:
    """An exact number, or the ordinal of a date; `dated` requires or forbids dates."""
    if isinstance(value, date):
        if dated is not False:
            return Fraction(value.toordinal())
    elif not dated:
        with suppress(TypeError, ValueError):
            # The shortest decimal of a float is the number that its writer meant.
            return Fraction(repr(value) if isinstance(value, float) else cast("str", value))
    raise ParameterError(
        "workload_invalid",
        f"A range must begin and end at numbers, or for a column of dates at dates, not "
        f"{shown(value)}.",
    )


@dataclass(frozen=True, kw_only=True)
class Request(KindRequest):
    """A request to publish columns with declared axes, at a price. It holds no private data."""

    dataset: str
    axes: tuple[Axis, ...]
    unit: Unit
    price: Price
    boxes: IntArray | None = None
    """The workload: (queries, columns, 2) inclusive codes; None where no ranges are given."""
    groups: Mapping[str, Mapping[object, Sequence[str | None]]] = field(default_factory=dict)
    """For nominal columns with a hierarchy: the groups of each value, the smallest first."""
    postprocess: tuple[str, ...] = ()
    """The names of the steps of post-processing; none by default."""

    def __post_init__(self) -> None:
        _ = self.unit.by_person  # raises for rows of two people, before any kind is prepared

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(axis.column for axis in self.axes)

    @property
    def sensitivity(self) -> Sensitivity:
        """The largest change of a histogram of rows by one person, all cells together."""
        return count_sensitivity(self.unit, grouped=True)

    @property
    def subject(self) -> str:
        """The columns and the data set."""
        return f"{', '.join(self.columns)} in {self.dataset}"

    def record(self, method: object) -> dict[str, Any]:  # noqa: ARG002  # needs no method
        """Return the columns with their declarations, the price, the ranges and the unit."""
        return {
            "columns": list(self.columns),
            "domain": _digest(repr([_axis_declarations(axis, self.groups) for axis in self.axes])),
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
        """Return the tables with figures rounded to a decimal step far below their noise."""
        return readable(tables, error, self.columns)


def _axis_declarations(axis: Axis, groups: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the declarations of an axis: another domain makes another publication."""
    if isinstance(axis, Grid):
        bounds = axis.bounds
        ends = (str(bounds.low), str(bounds.high), str(bounds.grid_step))
        return axis.column, str(axis.kind), ends, axis.nullable
    return axis.column, axis.values.to_pylist(), groups.get(axis.column)


def _digest(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


@runtime_checkable
class AnswersRanges(Protocol):
    """A method whose release estimates the rows in boxes of codes, ends included."""

    @property
    def ranges(self) -> OverBoxes:
        """Estimate the rows in each box from the released tables alone."""
        ...


@runtime_checkable
class PredictsVariance(Protocol):
    """A method that knows the variance of ranges in advance."""

    def ranges_variance(self, boxes: IntArray) -> FloatArray:
        """Return the variance of each estimate, exact or, where `error` says so, a bound."""
        ...


@runtime_checkable
class BoundsUnevenness(Protocol):
    """A method whose release bounds the error from uneven rows within a counted block."""

    @property
    def ranges_unevenness(self) -> OverBoxes:
        """A bound on the error of each estimate beyond noise, given the released counts."""
        ...


@runtime_checkable
class EstimatesVariance(Protocol):
    """A method that knows the variance of ranges better from its release than in advance."""

    @property
    def ranges_variance_of(self) -> OverBoxes:
        """The variance that noise gives each estimate, given the released tables."""
        ...


@dataclass(frozen=True, kw_only=True)
class FormRequest(KindRequest):
    """A request to publish a table of edges, points or items, at a price. It holds no data."""

    dataset: str
    schema: Schema
    form: Form
    unit: Unit
    price: Price
    linked: Mapping[str, Schema] = field(default_factory=dict)
    """Other private data sets of the same people, which an option may name.

    Their people are the same, so one charge pays for all data sets.
    """

    columns: ClassVar[tuple[str, ...]] = ()

    @property
    def subject(self) -> str:
        """The data set."""
        return self.dataset

    def record(self, method: object) -> dict[str, Any]:  # noqa: ARG002  # says nothing more
        """Return the form, the price and the unit."""
        return {
            "form": self.form.facts(),
            "cost": self.price.to_record(),
            "unit": self.unit.sentence(),
        }

    def open(self, datasets: Mapping[str, Dataset], salt: str) -> FormRows:
        """Return the rows of the form, and of other data sets that the method reads."""
        linked = {name: data for name, data in datasets.items() if name != self.dataset}
        return FormRows(datasets[self.dataset], salt, linked)

    def reads(self, method: FormMethod) -> tuple[str, ...]:
        """Return the data set of the form, and the others that the method reads."""
        return (self.dataset, *method.reads)

    def rounded(
        self, tables: Mapping[str, pa.Table], error: Mapping[str, Any]
    ) -> Mapping[str, pa.Table]:
        """Return the tables with figures rounded to a decimal step far below their noise."""
        return readable(tables, error, ())


class FormMethod(Method["FormRows"], Protocol):
    """A method for a form, which may read other data sets of the same people."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The other data sets that the method reads."""
        ...


@dataclass(frozen=True)
class FormRows(SaltedData):
    """The rows of a table of a form, as a method reads them after its cost was charged."""

    linked: Mapping[str, Dataset] = field(default_factory=dict)

    def read(
        self, columns: Sequence[str], *, groups: Sequence[str] = (), grids: Sequence[Grid] = ()
    ) -> pa.Table:
        """Read columns of the rows without missing values in them.

        Where the unit is a person, each person keeps at most `max_rows` rows of at most
        `max_groups` of the `groups`, such as paths; a keyed hash chooses both. A column of the
        `grids` is read as the index of its nearest point, computed by the engine, or NULL where a
        cell is not a number.
        """
        return _read(self.data, columns, groups, self.salt, grids)

    def of(self, name: str, columns: Sequence[str]) -> pa.Table:
        """Read columns of another data set, in the same way."""
        return _read(self.linked[name], columns, (), self.salt)


def _read(
    data: Dataset,
    columns: Sequence[str],
    groups: Sequence[str],
    salt: str,
    grids: Sequence[Grid] = (),
) -> pa.Table:
    names = list(dict.fromkeys(columns))
    complete = [exp.column(name, quoted=True).is_(exp.Null()).not_() for name in names]
    codes = {grid.column: exp.alias_(grid.code(), grid.column, quoted=True) for grid in grids}
    selected = [codes.get(name) or exp.column(name, quoted=True) for name in names]
    query = exp.select(*selected).from_(data.table.copy()).where(*complete)
    if len(data.unit.columns) != 1:  # every row is a person, or a projection bounds the rows
        return data.engine.run(query)
    [owner] = data.unit.columns
    person = exp.alias_(exp.column(owner, quoted=True), PERSON)
    other_columns = [name for name in names if name not in groups]
    bounded = bound(query.select(person), data.unit, list(groups), salt, other_columns)
    rows = data.engine.run(bounded)
    times = rows.column(COUNT).to_numpy()
    return rows.select(names).take(times.nonzero()[0].repeat(times[times > 0]))


def form_of(schema: Schema, form_name: str, subject: str) -> Form:
    """Return the form of a table; refuse a table of another form."""
    if schema.form is None or schema.form.name != form_name:
        has = "no form" if schema.form is None else f"the form {schema.form.name!r}"
        raise ParameterError(
            "form_invalid",
            f"{subject} needs a table of {form_name}, but {quoted(schema.table)} has {has}. Add to "
            f"its schema {_EXAMPLES[form_name]}.",
        )
    return schema.form


_EXAMPLES = {
    "edges": 'form = { edges = ["from", "to"] }',
    "points": 'form = { points = { path = "trip", time = "at", at = ["x", "y"] } }',
    "items": 'form = { items = { of = "basket", item = "product" } }',
}


# Rounding moves the sum of all figures of a table by less than half of the noise divided by this.
_FINER = 100
# The significant digits that every float has.
_DIGITS = 15
_SD_DIGITS = 6
_FIGURES = ("count", "running")


def readable(
    tables: Mapping[str, pa.Table], error: Mapping[str, Any], columns: tuple[str, ...]
) -> dict[str, pa.Table]:
    """Round estimated figures by public facts; whole numbers and the `columns` stay."""
    sd = min(_stddevs(error), default=0.0)
    return {name: _readable(table, sd, columns) for name, table in tables.items()}


def _readable(table: pa.Table, sd: float, columns: tuple[str, ...]) -> pa.Table:
    for position, name in enumerate(table.column_names):
        if name in columns or not pa.types.is_float64(table[name].type):
            continue
        exact = table[name].to_numpy()
        if name in _FIGURES:
            rounded = np.round(exact, _decimals(exact, sd))
        elif name == "sd":
            rounded = _significant(exact)
        else:
            continue
        figures = rounded + 0.0  # no negative zero
        column = pa.array(figures, mask=np.isnan(figures))
        table = table.set_column(position, table.schema.field(position), column)
    return table


def _decimals(figures: FloatArray, sd: float) -> int:
    """So many decimals that rounding moves the sum of any figures far less than their noise."""
    largest = float(np.nanmax(np.abs(figures), initial=1.0))
    most = _DIGITS - math.ceil(math.log10(largest))
    if sd <= 0:
        return most
    needed = math.ceil(math.log10(_FINER * max(len(figures), 1) / sd))
    return max(0, min(needed, most))


def _significant(values: FloatArray) -> FloatArray:
    """Round each value to a few significant digits."""
    return np.array([float(f"{value:.{_SD_DIGITS}g}") for value in values])


def _stddevs(error: object) -> Iterator[float]:
    """Yield every stated standard deviation."""
    if isinstance(error, dict):
        sd = error.get("sd")
        if isinstance(sd, int | float) and sd > 0:
            yield float(sd)
        for value in error.values():
            yield from _stddevs(value)
    elif isinstance(error, list | tuple):
        for value in error:
            yield from _stddevs(value)
