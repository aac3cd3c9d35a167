"""Arrays and tables in memory as tables with a schema, for the scikit-learn estimators.

Bounds and classes come from the caller and are never taken from the rows: undeclared ones are
refused, whatever the rows hold, and an undeclared class counts as missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.data.engines.sources import arrow_table
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.constraints import DeclaredRows
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.names import quoted
from sfumato.data.schema.schema import Schema
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

TABLE = "rows"
_TARGET = "target"
_WRITE = "Write bounds=(0, 100) for all of them, or bounds=[(0, 100), (1, 5)], one pair each"


@dataclass(frozen=True)
class DeclaredTable:
    """The features of a table in memory, each with its declared domain."""

    names: tuple[str, ...]
    domains: tuple[Bounds | Values, ...]

    @classmethod
    def of(cls, rows: object, bounds: object) -> DeclaredTable:
        """Read names and shape of an array or a table, and match them with declared bounds."""
        names = _names(rows)
        return cls(names, _domains(names, bounds))

    def read(self, rows: object) -> pa.Table:
        """The features of rows as a table; unreadable values become missing."""
        arrays = _arrays(rows, self.names)
        columns = list(map(_read_column, arrays, self.domains))
        return pa.table(columns, names=list(self.names))

    def schema(self, target: Column | None, rows: int | None) -> Schema:
        """The schema of features and target; `rows` is the number of rows, if that is public."""
        columns = [
            Column(name, Kind.TEXT if isinstance(domain, Values) else Kind.REAL, domain=domain)
            for name, domain in zip(self.names, self.domains, strict=True)
        ]
        declared = () if rows is None else (DeclaredRows(rows),)
        targets = () if target is None else (target,)
        return Schema(TABLE, (*columns, *targets), constraints=declared)

    @property
    def target(self) -> str:
        """A name for the target that differs from every feature."""
        name = _TARGET
        while name in self.names:
            name += "_"
        return name


def class_column(name: str, classes: ArrayLike | None) -> tuple[Column, tuple[Any, ...]]:
    """The column of class numbers, and the sorted classes that these numbers stand for."""
    listed = () if classes is None else tuple(np.sort(np.asarray(classes)).tolist())
    if not listed or len(set(listed)) < len(listed):
        raise ParameterError(
            "parameter_missing",
            "Which classes there are must be declared, not taken from the rows. Write "
            "classes=[0, 1], each class once.",
            parameter="classes",
        )
    return Column(name, Kind.INTEGER, domain=Values(tuple(range(len(listed))))), listed


def class_numbers(y: object, classes: Sequence[Any]) -> pa.Array:
    """The class number of each row; missing for an undeclared class."""
    numbers = {value: number for number, value in enumerate(classes)}
    values = np.asarray(y).ravel().tolist()
    return pa.array([numbers.get(value) for value in values], pa.int64())


def number_column(name: str, bounds: object) -> Column:
    """The column of a numeric target with declared bounds."""
    if bounds is None:
        raise ParameterError(
            "bounds_missing",
            "Between which bounds the target lies must be declared, not taken from the rows. Write "
            "target_bounds=(0, 100).",
        )
    # Bounds from the data would reveal the largest and smallest target.
    domain = _domain(bounds, "target_bounds")
    if isinstance(domain, Values):
        raise _not_a_pair("target_bounds")
    return Column(name, Kind.REAL, domain=domain)


def numbers(y: object) -> pa.Array:
    """The number of each row; missing if it is NaN or infinite."""
    return _read_column(
        pa.array(np.asarray(y, dtype=np.float64).ravel()), Bounds(Decimal(0), Decimal(1))
    )


def _names(rows: object) -> tuple[str, ...]:
    """The names of the features; those of an array are x0, x1, ..."""
    if _is_array(rows):
        shape = np.shape(np.asarray(rows))
        if len(shape) != 2 or not shape[1]:
            raise ParameterError(
                "array_invalid",
                f"Rows to learn from are an array of two dimensions, not of the shape {shape}. "
                "Write X.reshape(-1, 1) for a single feature.",
            )
        return tuple(f"x{index}" for index in range(shape[1]))
    return tuple(arrow_table(rows).column_names)


def _arrays(rows: object, names: Sequence[str]) -> list[Any]:
    if not _is_array(rows):
        table = arrow_table(rows)
        missing = [name for name in names if name not in table.column_names]
        if missing:
            raise ParameterError(
                "column_unknown",
                f"The table has no column {quoted(missing[0])}, which is one of the features.",
            )
        return [table.column(name).combine_chunks() for name in names]
    values = np.asarray(rows)
    if values.ndim != 2 or values.shape[1] != len(names):
        raise ParameterError(
            "array_invalid",
            f"X has {values.shape[-1] if values.ndim else 0} features, but the model expects "
            f"{len(names)} features as input, in an array of two dimensions.",
        )
    return [pa.array(column.tolist()) for column in values.T]


def _is_array(rows: object) -> bool:
    if isinstance(rows, list | tuple):
        return not (rows and isinstance(rows[0], Mapping))
    return not hasattr(rows, "__arrow_c_stream__") and not isinstance(rows, Mapping)


def _read_column(column: Any, domain: Bounds | Values) -> pa.Array:
    """A column as texts or numbers; NaN and infinities become missing."""
    if isinstance(domain, Values):
        return pc.cast(column, pa.string())
    reals = pc.cast(column, pa.float64(), safe=False)
    return pc.if_else(pc.is_finite(reals), reals, pa.scalar(None, pa.float64()))


def _domains(names: Sequence[str], bounds: object) -> tuple[Bounds | Values, ...]:
    if bounds is None:
        raise ParameterError(
            "bounds_missing",
            "Between which bounds each feature lies must be declared, not taken from the rows: "
            f"bounds taken from the rows would reveal the rows at the edges. {_WRITE}.",
        )
    if isinstance(bounds, Mapping):
        missing = [name for name in names if name not in bounds]
        if missing:
            raise ParameterError(
                "bounds_missing",
                f"There are no bounds of {quoted(missing[0])}. Name every feature in bounds.",
            )
        return tuple(_domain(bounds[name], f"bounds[{name!r}]") for name in names)
    listed = bounds.tolist() if isinstance(bounds, np.ndarray) else bounds
    if isinstance(listed, Bounds) or _is_pair(listed):
        return (_domain(listed, "bounds"),) * len(names)
    if not isinstance(listed, list | tuple) or len(listed) != len(names):
        raise ParameterError(
            "bounds_invalid",
            f"bounds must be one pair, or a pair for each of {len(names)} features. {_WRITE}.",
        )
    return tuple(_domain(pair, f"bounds[{index}]") for index, pair in enumerate(listed))


def _is_pair(value: object) -> bool:
    if not isinstance(value, list | tuple) or len(value) != 2:
        return False
    return all(isinstance(end, int | float | Decimal | np.number) for end in value)


def _domain(declared: object, parameter: str) -> Bounds | Values:
    """The domain of one feature from bounds, a pair of numbers, or a list of texts."""
    if isinstance(declared, Bounds):
        return _require_width(declared.reals(), parameter)
    if isinstance(declared, Values):
        return declared
    if (
        isinstance(declared, list | tuple)
        and declared
        and all(isinstance(value, str) for value in declared)
    ):
        return Values(tuple(declared))
    if not _is_pair(declared):
        raise _not_a_pair(parameter)
    assert isinstance(declared, list | tuple)
    low, high = (Decimal(repr(float(value))) for value in declared)
    return _require_width(Bounds(low, high), parameter)


def _require_width(bounds: Bounds, parameter: str) -> Bounds:
    """Return bounds of positive width; a list of lows and a list of highs often has none."""
    if not bounds.span:
        raise ParameterError(
            "bounds_invalid",
            f"{parameter} are {bounds.low} and {bounds.high}, an empty range. {_WRITE}.",
        )
    return bounds


def _not_a_pair(parameter: str) -> ParameterError:
    return ParameterError(
        "bounds_invalid",
        f"{parameter} must be a pair of numbers, low and high, or a list of the possible texts.",
    )
