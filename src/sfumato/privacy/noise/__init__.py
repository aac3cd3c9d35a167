"""Exact noise from the operating system's random bytes.

`discrete_laplace` and `discrete_gaussian` touch no one's data and stand outside the ledger; a
method that adds noise to data draws with the entropy of its receipt instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["discrete_gaussian", "discrete_laplace"]


def discrete_laplace(scale: object, size: int = 1) -> NDArray[Any]:
    """Draw integers X with P(X = k) proportional to exp(-|k| / scale): exact and secure."""
    from sfumato.exact_numbers import positive
    from sfumato.privacy.noise.discrete import discrete_laplace as draw
    from sfumato.privacy.noise.entropy import SystemEntropy

    return draw(positive(scale, "scale"), _checked(size), SystemEntropy())


def discrete_gaussian(stddev: object, size: int = 1) -> NDArray[Any]:
    """Draw integers X with P(X = k) proportional to exp(-k^2 / (2 stddev^2)): exact and secure."""
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
        )
    return int(size)
