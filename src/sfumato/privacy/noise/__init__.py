"""Exact noise from the operating system's random bytes.

`discrete_laplace` and `discrete_gaussian` read no data, so they charge no ledger. A method that
adds noise to data draws with the entropy of its receipt instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["discrete_gaussian", "discrete_laplace"]


def discrete_laplace(scale: object, size: int = 1) -> NDArray[Any]:
    """Draw integers X with P(X = k) proportional to exp(-|k| / scale), exactly.

    The randomness is the operating system's. No floating-point rounding enters the distribution.

    Parameters
    ----------
    scale : number or text
        Above 0. Read exactly: 0.1 and "1/10" are one tenth.
    size : int
        The number of draws.

    Returns
    -------
    array
        int64, or Python integers where a draw does not fit 64 bits.

    Raises
    ------
    ParameterError
        If the scale is not a number above 0, or the size is not a whole number of at least 0.

    Example
    -------
    >>> discrete_laplace(scale=2, size=1000).shape
    (1000,)
    """
    from sfumato.exact_numbers import positive
    from sfumato.privacy.noise.discrete import discrete_laplace as draw
    from sfumato.privacy.noise.entropy import SystemEntropy

    return draw(positive(scale, "scale"), _checked(size), SystemEntropy())


def discrete_gaussian(stddev: object, size: int = 1) -> NDArray[Any]:
    """Draw integers X with P(X = k) proportional to exp(-k^2 / (2 stddev^2)), exactly.

    The randomness is the operating system's. No floating-point rounding enters the distribution.

    Parameters
    ----------
    stddev : number or text
        From 2^-500 to 2^500. Read exactly: 0.1 and "1/10" are one tenth.
    size : int
        The number of draws.

    Returns
    -------
    array
        int64, or Python integers where a draw does not fit 64 bits.

    Raises
    ------
    ParameterError
        If the stddev is out of range, or the size is not a whole number of at least 0.

    Example
    -------
    >>> discrete_gaussian(stddev=3, size=1000).shape
    (1000,)
    """
    from sfumato.exact_numbers import positive
    from sfumato.privacy.noise.discrete import discrete_gaussian as draw
    from sfumato.privacy.noise.entropy import SystemEntropy

    return draw(positive(stddev, "stddev") ** 2, _checked(size), SystemEntropy())


def _checked(size: object) -> int:
    from numbers import Integral

    from sfumato.arguments import shown
    from sfumato.errors import ParameterError

    if isinstance(size, bool) or not isinstance(size, Integral) or size < 0:
        raise ParameterError(
            "parameter_out_of_range",
            f"Noise cannot be drawn in size {shown(size)}: give a whole number of draws, "
            "at least 0.",
            parameter="size",
        )
    return int(size)
