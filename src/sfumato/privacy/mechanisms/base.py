"""The interface of mechanisms, and exact integer arithmetic for their inputs and outputs.

Private integers come in NumPy arrays: int64 as long as results fit, Python integers beyond. A sum
that wrapped around at 2^63 would break both the sensitivity and the answer.
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
    """Read an array of integers; unsigned and empty arrays are converted.

    Only the dtype and the shape decide about a refusal, so that an error reveals no private value.

    Raises
    ------
    ParameterError
        If the entries are not integers, or the number of dimensions is not `dimensions`.
    """
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
    """Add noise without wrapping around.

    The returned dtype depends on the noisy sums alone, which are public; a dtype that depended on
    `values` would leak.
    """
    if values.dtype == object or noise.dtype == object:
        return narrow(values.astype(object) + noise.astype(object))
    total = values + noise
    # Two's complement: an addition wrapped where the sum's sign differs from that of both summands.
    if (((values ^ total) & (noise ^ total)) < 0).any():
        return np.asarray(values.astype(object) + noise.astype(object))
    return np.asarray(total)


def widened(values: NDArray[Any], weight: int) -> NDArray[Any]:
    """Convert integers so that no sum of them, each times a weight of at most `weight`, wraps.

    They stay int64 where no such sum can reach 2^62, and become Python integers otherwise. The
    dtype does not affect the result, so it reveals nothing about the number of rows.
    """
    if values.dtype == object:
        return values
    # The float may be off by one part in 2^40 or so: far less than the factor of 2 left to 2^63.
    reach = float(np.abs(values.astype(np.float64)).sum()) * float(max(weight, 1))
    return values if reach < 2.0**62 else values.astype(object)


def narrow(values: NDArray[Any]) -> NDArray[Any]:
    """Convert Python integers to int64 if all of them fit."""
    try:
        return values.astype(np.int64)
    except OverflowError:
        return values


def to_floats(steps: NDArray[Any], granule: Fraction) -> FloatArray:
    """Convert noisy steps of a public granule to floats: the last operation of a release.

    The bits of the float depend on the noisy integer alone. Adding noise to floats instead would
    leak the input through their rounding (Mironov 2012).
    """
    if steps.dtype == object:
        flat = [float(int(step) * granule) for step in steps.flat]
        return np.array(flat, dtype=np.float64).reshape(steps.shape)
    return np.asarray(steps * float(granule.numerator) / float(granule.denominator))


class Mechanism(Protocol):
    """A randomised function of private integers whose output may be released.

    All parameters are public, so the cost (`event`) and the expected error (`bound`) are known
    before any row is read.
    """

    @property
    def event(self) -> Event:
        """The cost of one sample."""
        ...

    def sample(self, values: Any, entropy: Entropy) -> Any:
        """Release an answer about private values; `entropy` comes from the receipt of a charge."""
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
        """Give an error that one answer exceeds with probability at most beta."""
        ...

    def steps(self, values: ArrayLike, entropy: Entropy) -> NDArray[Any]:
        """Add noise to integers and return integers."""
        ...


def check_beta(beta: float) -> float:
    """Check a failure probability: a float strictly between 0 and 1."""
    if not (math.isfinite(beta) and 0 < beta < 1):
        raise ParameterError(
            "parameter_out_of_range",
            f"beta must lie between 0 and 1, both excluded, not {beta!r}.",
            parameter="beta",
        )
    return beta
