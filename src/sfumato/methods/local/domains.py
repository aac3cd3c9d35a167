"""Declared domains: a list of values, or numbers between bounds.

Domains are public. A device maps a person's value into the domain before it randomizes; that costs
no privacy, because only the randomized report leaves the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.arguments import shown
from sfumato.errors import ParameterError
from sfumato.exact_numbers import bounds, decimal_of, exact

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from sfumato.arrays import FloatArray, IntArray

LARGEST_DOMAIN = 1 << 26
"""A sketch has a 64-bit number for each value; larger domains are for heavy hitters."""


@dataclass(frozen=True)
class Choices:
    """A domain of `size` values, coded 0, 1, 2, ...: listed values, or the codes themselves."""

    size: int
    values: tuple[Any, ...] | None = None

    def codes(self, values: object) -> IntArray:
        """The codes of people's values; an undeclared value is refused, and the error hides it."""
        codes = self._looked_up(values) if self.values is not None else _integers(values)
        if len(codes) and (int(codes.min()) < 0 or int(codes.max()) >= self.size):
            raise ParameterError(
                "value_outside_domain",
                f"At least one value is not among the {self.size:,} declared values"
                + ("." if self.values is not None else f": whole numbers 0 to {self.size - 1}.")
                + " Map such values to a declared one first, such as 'other'.",
            )
        return codes

    def _looked_up(self, values: object) -> IntArray:
        declared = self.array()
        try:
            array = _arrow(values)
            if pa.types.is_boolean(declared.type) and not pa.types.is_boolean(array.type):
                raise pa.ArrowTypeError("a number is no truth value")
            array = array.cast(declared.type)
        except pa.ArrowException as error:
            raise ParameterError(
                "parameter_type_wrong",
                f"values must be of the kind that is declared ({declared.type}), one for each "
                "person: a list, an array or a column.",
                detail=str(error),
                parameter="values",
            ) from None
        return np.asarray(pc.fill_null(pc.index_in(array, value_set=declared), -1)).astype(np.int64)

    def array(self) -> pa.Array:
        """The values, in the order of their codes."""
        return pa.array(np.arange(self.size) if self.values is None else self.values)

    def to_json(self) -> int | list[Any]:
        """The domain as it was declared."""
        return self.size if self.values is None else list(self.values)


def choices(domain: object) -> Choices:
    """Read a domain: a number of values, or a list of them."""
    if isinstance(domain, Choices):
        return domain
    if isinstance(domain, bool) or not isinstance(domain, int | np.integer | list | tuple | range):
        raise ParameterError(
            "parameter_type_wrong",
            "domain must be a number of values or the list of them, as ['yes', 'no'], "
            f"not {shown(domain)}.",
            parameter="domain",
            given=shown(domain),
        )
    if isinstance(domain, int | np.integer):
        return Choices(_check_size(int(domain)))
    return _list_choices(domain)


def _check_size(size: int) -> int:
    if not 2 <= size <= LARGEST_DOMAIN:
        raise ParameterError(
            "parameter_out_of_range",
            f"domain must have at least 2 values and at most {LARGEST_DOMAIN:,}, not {size:,}.",
            parameter="domain",
            given=size,
        )
    return size


def _list_choices(values: Sequence[Any]) -> Choices:
    kinds = {type(value) for value in values}
    if not (len(kinds) == 1 and kinds <= {str, int, bool}):
        raise ParameterError(
            "parameter_type_wrong",
            "domain must be a list of texts, of whole numbers or of truth values, of one kind.",
            parameter="domain",
        )
    if len(set(values)) < len(values):
        raise ParameterError("round_invalid", "domain names a value twice: name every value once.")
    return Choices(_check_size(len(values)), tuple(values))


def _arrow(values: object) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    if isinstance(values, str) or not hasattr(values, "__len__"):
        values = [values]
    return values if isinstance(values, pa.Array) else pa.array(values)


def _integers(values: object) -> IntArray:
    """Read people's values for a domain that is a number: one integer for each person."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        values = values.to_numpy() if not values.null_count else None
    array = np.atleast_1d(np.asarray(values))
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise ParameterError(
            "parameter_type_wrong",
            "values must be whole numbers, one for each person: a list, an array or a column.",
            parameter="values",
        )
    if array.dtype == np.uint64 and int(array.max()) >= 1 << 63:
        # Beyond int64: -1 lies outside any domain and is refused there.
        return np.full(len(array), -1, dtype=np.int64)
    return array.astype(np.int64, copy=False)


@dataclass(frozen=True)
class Amounts:
    """Numbers from `low` to `high`."""

    low: Fraction
    high: Fraction

    @property
    def half(self) -> float:
        """Half the distance of the bounds: the unit of amounts centred to [-1, 1]."""
        return float(self.high - self.low) / 2

    def fractions(self, values: FloatArray) -> FloatArray:
        """The relative positions of values between the bounds, clipped to [0, 1]."""
        low, high = float(self.low), float(self.high)
        return np.asarray((values - low) / (high - low)).clip(0.0, 1.0)

    def back(self, centred: FloatArray | float) -> Any:
        """The amounts of numbers centred to [-1, 1]."""
        return float(self.low) + self.half * (1 + np.asarray(centred))

    def centred(self, value: object) -> Fraction:
        """An amount clipped to the bounds and centred to [-1, 1], exactly."""
        clamped = min(max(exact(value, "value"), self.low), self.high)
        return 2 * (clamped - self.low) / (self.high - self.low) - 1

    def to_json(self) -> list[str]:
        """The bounds, as exact decimals."""
        return [decimal_of(self.low), decimal_of(self.high)]


def amounts(declared: object) -> Amounts:
    """Read declared bounds, such as (0, 100)."""
    if isinstance(declared, Amounts):
        return declared
    if not isinstance(declared, list | tuple) or len(declared) != 2:
        raise ParameterError(
            "parameter_type_wrong",
            f"bounds must be two numbers, as (0, 100), not {shown(declared)}.",
            parameter="bounds",
            given=shown(declared),
        )
    return Amounts(*bounds(*declared))


def read_numbers(values: object, columns: int) -> FloatArray:
    """People's numbers as float64, one row for each person.

    A missing number is refused; the error does not quote any value.
    """
    if isinstance(values, pa.Table):
        values = [column.to_pylist() for column in values.columns]
        values = list(zip(*values, strict=True))
    elif isinstance(values, pa.Array | pa.ChunkedArray):
        values = np.asarray(values)
    try:
        array = np.asarray(values, dtype=np.float64) if _is_numeric(values) else np.array([np.nan])
    except (TypeError, ValueError, OverflowError):
        array = np.full((1, columns), np.nan)
    rows = array.reshape(-1, 1) if array.ndim < 2 and columns == 1 else np.atleast_2d(array)
    if rows.ndim != 2 or rows.shape[1] != columns or not np.isfinite(rows).all():
        shape = "one for each person" if columns == 1 else f"a row of {columns} for each person"
        raise ParameterError(
            "parameter_type_wrong",
            f"values must be numbers, {shape}, and none of them missing.",
            parameter="values",
        )
    return rows


def _is_numeric(values: object) -> bool:
    """Whether all values are numbers; texts of digits and truth values are not."""
    if isinstance(values, list | tuple):
        return all(map(_is_numeric, values))
    if hasattr(values, "__array__") and not isinstance(values, np.generic):
        array = np.asarray(values)
        return array.dtype.kind in "iuf" or (
            array.dtype.kind == "O" and _is_numeric(array.tolist())
        )
    return isinstance(values, Real | Decimal) and not isinstance(values, bool)
