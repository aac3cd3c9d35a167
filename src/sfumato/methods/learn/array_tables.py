"""Arrays and tables in memory as tables with a schema: what is declared is given, never looked up.

Nothing here looks at a value: bounds and classes that are not declared are refused, whatever the
rows hold, and a class that is not declared is a missing one.
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
    """The features of a table in memory, each with what is declared of it."""

    names: tuple[str, ...]
    domains: tuple[Bounds | Values, ...]

    @classmethod
    def of(cls, rows: object, bounds: object) -> DeclaredTable:
        """The features of an array or a table, by its shape and names alone, with their bounds."""
        names = _names(rows)
        return cls(names, _domains(names, bounds))

    def read(self, rows: object) -> pa.Table:
        """The features of rows as a table; a value that is no number or text is a missing one."""
        arrays = _arrays(rows, self.names)
        read = (_read(one, domain) for one, domain in zip(arrays, self.domains, strict=True))
        return pa.table(list(read), names=list(self.names))

    def schema(self, target: Column | None, rows: int | None) -> Schema:
        """What is declared of all columns, and of their number of rows where that is public."""
        columns = [
            Column(name, Kind.TEXT if isinstance(domain, Values) else Kind.REAL, domain=domain)
            for name, domain in zip(self.names, self.domains, strict=True)
        ]
        declared = () if rows is None else (DeclaredRows(rows),)
        targets = () if target is None else (target,)
        return Schema(TABLE, (*columns, *targets), constraints=declared)

    @property
    def target(self) -> str:
        """A name for the target that no feature has."""
        name = _TARGET
        while name in self.names:
            name += "_"
        return name


def class_column(name: str, classes: ArrayLike | None) -> tuple[Column, tuple[Any, ...]]:
    """The column of a class, by numbers, and the classes in the order of their numbers: sorted."""
    listed = () if classes is None else tuple(np.sort(np.asarray(classes)).tolist())
    if not listed or len(set(listed)) < len(listed):
        raise ParameterError(
            "parameter_missing",
            "Which classes there are must be declared, not taken from the rows. Write "
            "classes=[0, 1], each class once.",
        )
    return Column(name, Kind.INTEGER, domain=Values(tuple(range(len(listed))))), listed


def class_numbers(y: object, classes: Sequence[Any]) -> pa.Array:
    """Each row's class by its number; one that is not declared is missing."""
    numbers = {one: place for place, one in enumerate(classes)}
    told = np.asarray(y).ravel().tolist()
    return pa.array([numbers.get(one) for one in told], pa.int64())


def number_column(name: str, bounds: object) -> Column:
    """The column of a number, by its declared bounds."""
    if bounds is None:
        raise ParameterError(
            "bounds_missing",
            "Between which bounds the target lies must be declared, not taken from the rows. Write "
            "target_bounds=(0, 100).",
        )
    domain = _domain(bounds, "target_bounds")
    if isinstance(domain, Values):
        raise _not_a_pair("target_bounds")
    return Column(name, Kind.REAL, domain=domain)


def numbers(y: object) -> pa.Array:
    """Each row's number; what is none is missing."""
    return _read(pa.array(np.asarray(y, dtype=np.float64).ravel()), Bounds(Decimal(0), Decimal(1)))


def _names(rows: object) -> tuple[str, ...]:
    """The names of features; those of an array are x0, x1, ..."""
    if _is_array(rows):
        shape = np.shape(np.asarray(rows))
        if len(shape) != 2 or not shape[1]:
            raise ParameterError(
                "array_invalid",
                f"Rows to learn from are an array of two dimensions, not of the shape {shape}. "
                "Write X.reshape(-1, 1) for a single feature.",
            )
        return tuple(f"x{place}" for place in range(shape[1]))
    return tuple(arrow_table(rows).column_names)


def _arrays(rows: object, names: Sequence[str]) -> list[Any]:
    if not _is_array(rows):
        table = arrow_table(rows)
        missing = [one for one in names if one not in table.column_names]
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


def _read(column: Any, domain: Bounds | Values) -> pa.Array:
    """A column of the declared kind; NaN, infinities and what cannot be read are missing."""
    if isinstance(domain, Values):
        return pc.cast(column, pa.string())
    told = pc.cast(column, pa.float64(), safe=False)
    return pc.if_else(pc.is_finite(told), told, pa.scalar(None, pa.float64()))


def _domains(names: Sequence[str], bounds: object) -> tuple[Bounds | Values, ...]:
    if bounds is None:
        raise ParameterError(
            "bounds_missing",
            "Between which bounds each feature lies must be declared, not taken from the rows: "
            f"bounds of the rows would tell of who is at the edge. {_WRITE}.",
        )
    if isinstance(bounds, Mapping):
        absent = [one for one in names if one not in bounds]
        if absent:
            raise ParameterError(
                "bounds_missing",
                f"There are no bounds of {quoted(absent[0])}. Name every feature in bounds.",
            )
        return tuple(_domain(bounds[one], f"bounds[{one!r}]") for one in names)
    listed = bounds.tolist() if isinstance(bounds, np.ndarray) else bounds
    if isinstance(listed, Bounds) or _is_pair(listed):
        return (_domain(listed, "bounds"),) * len(names)
    if not isinstance(listed, list | tuple) or len(listed) != len(names):
        raise ParameterError(
            "bounds_invalid",
            f"bounds must be one pair, or a pair for each of {len(names)} features. {_WRITE}.",
        )
    return tuple(_domain(one, f"bounds[{place}]") for place, one in enumerate(listed))


def _is_pair(value: object) -> bool:
    if not isinstance(value, list | tuple) or len(value) != 2:
        return False
    return all(isinstance(one, int | float | Decimal | np.number) for one in value)


def _domain(told: object, what: str) -> Bounds | Values:
    """What is declared of one feature: bounds, a pair of numbers, or texts that it may be."""
    if isinstance(told, Bounds):
        return _apart(told.reals(), what)
    if isinstance(told, Values):
        return told
    if isinstance(told, list | tuple) and told and all(isinstance(one, str) for one in told):
        return Values(tuple(told))
    if not _is_pair(told):
        raise _not_a_pair(what)
    assert isinstance(told, list | tuple)
    low, high = (Decimal(repr(float(one))) for one in told)
    return _apart(Bounds(low, high), what)


def _apart(bounds: Bounds, what: str) -> Bounds:
    """Bounds between which something lies; lows and highs given as two lists are such pairs too."""
    if not bounds.span:
        raise ParameterError(
            "bounds_invalid",
            f"{what} are {bounds.low} and {bounds.high}, between which nothing lies. {_WRITE}.",
        )
    return bounds


def _not_a_pair(what: str) -> ParameterError:
    return ParameterError(
        "bounds_invalid",
        f"{what} must be a pair of numbers, low and high, or a list of the texts that it may be.",
    )
