"""Amounts that people hold: numbers between declared bounds, as parts of the way between them.

How a value is brought between the bounds is its holder's affair and costs no privacy, whatever it
does: only what is drawn afterwards leaves the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.arguments import shown
from sfumato.errors import ParameterError
from sfumato.exact_numbers import bounds, decimal_of

if TYPE_CHECKING:
    from fractions import Fraction

    from sfumato.arrays import BoolArray, FloatArray
    from sfumato.privacy.noise.entropy import Entropy


FINE = 1 << 53
"""Parts of a whole that float64 can tell apart."""


@dataclass(frozen=True)
class Amounts:
    """Numbers from `low` to `high`, both declared and public."""

    low: Fraction
    high: Fraction

    @property
    def half(self) -> float:
        """Half of the way from the lower bound to the upper: the unit in which means are made."""
        return float(self.high - self.low) / 2

    def fractions(self, values: FloatArray) -> FloatArray:
        """Where values lie on the way, from 0 to 1; those outside the bounds at the nearer end."""
        low, high = float(self.low), float(self.high)
        return np.asarray((values - low) / (high - low)).clip(0.0, 1.0)

    def back(self, centred: FloatArray | float) -> Any:
        """Amounts from parts between -1 and 1."""
        return float(self.low) + self.half * (1 + np.asarray(centred))

    def centred(self, value: object) -> Fraction:
        """An amount as a part between -1 and 1."""
        from sfumato.exact_numbers import exact

        clamped = min(max(exact(value, "value"), self.low), self.high)
        return 2 * (clamped - self.low) / (self.high - self.low) - 1

    def to_json(self) -> list[str]:
        """Its ends, as they may be written again."""
        return [decimal_of(self.low), decimal_of(self.high)]


def amounts(declared: object) -> Amounts:
    """Read declared bounds: (0, 100), say."""
    if isinstance(declared, Amounts):
        return declared
    if not isinstance(declared, list | tuple) or len(declared) != 2:
        raise ParameterError(
            "parameter_type_wrong",
            f"bounds must be two numbers, as (0, 100), not {shown(declared)}.",
        )
    return Amounts(*bounds(*declared))


def numbers_of(values: object, columns: int) -> FloatArray:
    """People's numbers as float64, a row for each; one that is missing is refused, not quoted."""
    if isinstance(values, pa.Table):
        values = [column.to_pylist() for column in values.columns]
        values = list(zip(*values, strict=True))
    elif isinstance(values, pa.Array | pa.ChunkedArray):
        values = np.asarray(values)
    try:
        array = np.asarray(values, dtype=np.float64) if _numeric(values) else np.array([np.nan])
    except (TypeError, ValueError, OverflowError):
        array = np.full((1, columns), np.nan)
    rows = array.reshape(-1, 1) if array.ndim < 2 and columns == 1 else np.atleast_2d(array)
    if rows.ndim != 2 or rows.shape[1] != columns or not np.isfinite(rows).all():
        shape = "one for each person" if columns == 1 else f"a row of {columns} for each person"
        raise ParameterError(
            "parameter_type_wrong", f"values must be numbers, {shape}, and none of them missing."
        )
    return rows


def _numeric(values: object) -> bool:
    """Whether all of it are numbers: a text of digits or a truth value is none."""
    if isinstance(values, list | tuple):
        return all(map(_numeric, values))
    if hasattr(values, "__array__") and not isinstance(values, np.generic):
        array = np.asarray(values)
        return array.dtype.kind in "iuf" or (array.dtype.kind == "O" and _numeric(array.tolist()))
    return isinstance(values, Real | Decimal) and not isinstance(values, bool)


def occur(fractions: FloatArray, entropy: Entropy) -> BoolArray:
    """True with each of these probabilities, which are taken to the nearest of 2^53 parts."""
    drawn = entropy.words(fractions.size) >> np.uint64(11)
    return np.asarray(drawn.reshape(fractions.shape) < np.rint(fractions * FINE).astype(np.uint64))
