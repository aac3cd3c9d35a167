"""What every mechanism says of itself, its parameters, and the integers it works on.

Private integers come in NumPy arrays: int64 as long as results fit, Python integers beyond.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import ArrayLike, NDArray

    from sfumato.arrays import FloatArray
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.noise.entropy import Entropy


def integers(values: ArrayLike, name: str, *, dimensions: int | None = None) -> NDArray[Any]:
    """Read integers; the type decides alone, so a refusal says nothing about any value."""
    array = np.asarray(values)
    if array.dtype.kind == "u" or (array.size == 0 and array.dtype.kind == "f"):
        array = array.astype(object if array.dtype == np.uint64 else np.int64)
    if array.dtype.kind == "i":
        array = array.astype(np.int64, copy=False)
    elif array.dtype != object or not all(type(value) is int for value in array.flat):
        raise ParameterError(
            "array_invalid",
            f"{name} must be whole numbers on a declared grid, not an array of {array.dtype}. "
            "Round them onto the grid first.",
        )
    if dimensions is not None and array.ndim != dimensions:
        raise ParameterError(
            "array_invalid",
            f"{name} must be an array of {dimensions} dimensions, not of {array.ndim}.",
        )
    return array


def add(values: NDArray[Any], noise: NDArray[Any]) -> NDArray[Any]:
    """Add without wrapping; what type comes back depends on the sums alone, which may be seen."""
    if values.dtype == object or noise.dtype == object:
        return narrow(values.astype(object) + noise.astype(object))
    total = values + noise
    if (((values ^ total) & (noise ^ total)) < 0).any():
        return np.asarray(values.astype(object) + noise.astype(object))
    return np.asarray(total)


def widened(values: NDArray[Any], weight: int) -> NDArray[Any]:
    """Integers for sums of all of them, each times a whole weight of at most this magnitude.

    They stay int64 where no such sum can reach 2^62, and are Python's beyond, which never wrap. The
    type changes nothing about a result, so that how many rows there are is told by none.
    """
    if values.dtype == object:
        return values
    # The float may be off by one part in 2^40 or so: far less than the factor of 2 left to 2^63.
    reach = float(np.abs(values.astype(np.float64)).sum()) * float(max(weight, 1))
    return values if reach < 2.0**62 else values.astype(object)


def narrow(values: NDArray[Any]) -> NDArray[Any]:
    """Turn Python integers into int64 if all of them fit."""
    try:
        return values.astype(np.int64)
    except OverflowError:
        return values


def to_floats(steps: NDArray[Any], granule: Fraction) -> FloatArray:
    """Turn whole steps of a public granule into floats: the last step of a release."""
    if steps.dtype == object:
        flat = [float(int(step) * granule) for step in steps.flat]
        return np.array(flat, dtype=np.float64).reshape(steps.shape)
    return np.asarray(steps * float(granule.numerator) / float(granule.denominator))


class Mechanism(Protocol):
    """A step that turns private integers into something that may leave.

    Parameters are public facts, so the event (what it costs) and the error to expect (`bound`, with
    what else it needs to know) are known before any row is read.
    """

    @property
    def event(self) -> Event:
        """What one sample costs."""
        ...

    def sample(self, values: Any, entropy: Entropy) -> Any:
        """Release something about private values, with randomness that was paid for."""
        ...


class AdditiveNoise(Mechanism, Protocol):
    """A mechanism that adds the same integer noise to each of its inputs."""

    @property
    def variance(self) -> float:
        """The variance of one answer, never below the true one."""
        ...

    @property
    def stddev(self) -> float:
        """The standard deviation of one answer."""
        ...

    def bound(self, beta: float) -> float:
        """Give an error of one answer that is passed with probability at most beta."""
        ...

    def steps(self, values: ArrayLike, entropy: Entropy) -> NDArray[Any]:
        """Add noise to integers and give integers."""
        ...


def check_beta(beta: float) -> float:
    """Refuse what is no probability of failure."""
    if not (math.isfinite(beta) and 0 < beta < 1):
        raise ParameterError(
            "parameter_out_of_range", f"beta must lie between 0 and 1, both excluded, not {beta!r}."
        )
    return beta


def whole(value: object, name: str, *, least: int) -> int:
    """Read a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ParameterError(
            "parameter_out_of_range",
            f"{name} must be a whole number of at least {least}, not {value!r}.",
        )
    return value
