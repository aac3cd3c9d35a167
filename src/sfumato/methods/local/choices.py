"""What a person can answer: declared values, public, coded 0, 1, 2, ..."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.arguments import shown
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import IntArray

LARGEST_DOMAIN = 1 << 26
"""A sketch has a 64-bit number for each value; beyond, find heavy hitters by prefixes instead."""


@dataclass(frozen=True)
class Choices:
    """A domain of `size` values: the given ones, or 0, ..., size - 1."""

    size: int
    values: tuple[Any, ...] | None = None

    def codes(self, values: object) -> IntArray:
        """The codes of people's values; one that is not declared is refused, and not quoted."""
        codes = self._looked_up(values) if self.values is not None else _integers(values)
        if len(codes) and (int(codes.min()) < 0 or int(codes.max()) >= self.size):
            raise ParameterError(
                "value_outside_domain",
                f"At least one value is none of the {self.size:,} that are declared"
                + ("." if self.values is not None else f": whole numbers 0 to {self.size - 1}.")
                + " Map such values to a declared one first, 'other', say.",
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
            ) from None
        return np.asarray(pc.fill_null(pc.index_in(array, value_set=declared), -1)).astype(np.int64)

    def array(self) -> pa.Array:
        """The values, in the order of their codes."""
        if self.values is None:
            return pa.array(np.arange(self.size))
        return pa.array(self.values)

    def to_json(self) -> int | list[Any]:
        """As it was declared."""
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
        )
    if isinstance(domain, int | np.integer):
        return Choices(_sized(int(domain)))
    return _listed(domain)


def _sized(size: int) -> int:
    if not 2 <= size <= LARGEST_DOMAIN:
        raise ParameterError(
            "parameter_out_of_range",
            f"domain must have at least 2 values and at most {LARGEST_DOMAIN:,}, not {size:,}.",
        )
    return size


def _listed(values: Sequence[Any]) -> Choices:
    kinds = {type(value) for value in values}
    if not (len(kinds) == 1 and kinds <= {str, int, bool}):
        raise ParameterError(
            "parameter_type_wrong",
            "domain must be a list of texts, of whole numbers or of truth values, of one kind.",
        )
    if len(set(values)) < len(values):
        raise ParameterError("round_invalid", "domain names a value twice: name every value once.")
    return Choices(_sized(len(values)), tuple(values))


def _arrow(values: object) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    if isinstance(values, str) or not hasattr(values, "__len__"):
        values = [values]
    return values if isinstance(values, pa.Array) else pa.array(values)


def _integers(values: object) -> IntArray:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        values = values.to_numpy() if not values.null_count else None
    array = np.atleast_1d(np.asarray(values))
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise ParameterError(
            "parameter_type_wrong",
            "values must be whole numbers, one for each person: a list, an array or a column.",
        )
    if array.dtype == np.uint64 and int(array.max()) >= 1 << 63:
        return np.full(len(array), -1, dtype=np.int64)  # outside any domain
    return array.astype(np.int64, copy=False)
