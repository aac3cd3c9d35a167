"""Exact coins whose chance is an exponential."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.noise.blocks import CHUNK
from sfumato.noise.entropy import BLOCK
from sfumato.noise.exponential import exceed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.entropy import Entropy


def bernoulli_exp(gaps: NDArray[Any], *, rate: Fraction, entropy: Entropy) -> NDArray[np.bool_]:
    """True with probability exp(-rate * gap), for each of an array of whole numbers >= 0.

    *Guarantee*: the probability is exact. *Edges*: a gap of 0 is always true.
    *Reference*: P(E > z) = exp(-z) for an exponential E.
    """
    flat = gaps.ravel()
    kept = np.empty(len(flat), dtype=np.bool_)
    for start in range(0, len(flat), CHUNK):
        part = flat[start : start + CHUNK]
        levels = np.zeros(max(len(part), BLOCK))
        # Right within 2^-52 twice: the gap as a float, the rate as a float.
        levels[: len(part)] = part.astype(np.float64) * float(rate)

        def exact(place: int, part: NDArray[Any] = part) -> Fraction:
            return int(part[place]) * rate if place < len(part) else Fraction(0)

        kept[start : start + CHUNK] = exceed(levels, exact, entropy)[: len(part)]
    return kept.reshape(gaps.shape)
