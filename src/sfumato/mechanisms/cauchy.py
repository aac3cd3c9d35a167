"""Cauchy noise rounded to whole numbers, exactly.

If (X, Y) is uniform in the quarter disk, X / Y is the size of a Cauchy variable. X and Y are read
bit by bit: 53 bits of each decide nearly every draw in floating point, whose few roundings (each at
most 2^-53 of its result) and the unread bits are covered by the margins below; a draw that they
leave undecided keeps its bits and reads 64 more of each until whole-number arithmetic decides it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.noise.entropy import Entropy

_BLOCK = 1024
_ULP = 2.0**-53
_LARGEST_FLOAT = 2.0**52


def rounded_cauchy(scale: Fraction, size: int, entropy: Entropy) -> NDArray[Any]:
    """Draw scale * Z for standard Cauchy Z, rounded to the nearest whole number."""
    taken: list[NDArray[Any]] = []
    missing = size
    while missing > 0:
        # About pi / 4 of the points fall into the disk.
        block = max(_BLOCK, missing + missing // 2)
        words = entropy.words(3 * block).reshape(3, block)
        across, up = (words[:2] >> np.uint64(11)).astype(np.int64)
        inside = _inside(across, up, entropy)
        sizes = _floors(2 * scale, across[inside], up[inside], entropy)
        # round(v) = floor((floor(2 v) + 1) / 2), and the sign is drawn apart.
        magnitudes = (sizes + 1) // 2
        negative = (words[2][inside] & np.uint64(1)).astype(np.bool_)
        taken.append(np.where(negative, -magnitudes, magnitudes)[:missing])
        missing -= len(taken[-1])
    return np.concatenate(taken) if taken else np.zeros(0, dtype=np.int64)


def _inside(across: NDArray[np.int64], up: NDArray[np.int64], entropy: Entropy) -> NDArray[Any]:
    """Say which points lie in the unit disk; their coordinates begin with the given 53 bits."""
    square = (across * _ULP) ** 2 + (up * _ULP) ** 2
    inside = square < 1
    for at in np.flatnonzero(np.abs(square - 1) < 2.0**-48):
        inside[at] = _inside_exactly(int(across[at]), int(up[at]), entropy)
    return inside


def _inside_exactly(across: int, up: int, entropy: Entropy) -> bool:
    bits = 53
    while True:
        if (across + 1) ** 2 + (up + 1) ** 2 <= 1 << 2 * bits:
            return True
        if across**2 + up**2 >= 1 << 2 * bits:
            return False
        across, up, bits = _more(across, entropy), _more(up, entropy), bits + 64


def _floors(
    scale: Fraction, across: NDArray[np.int64], up: NDArray[np.int64], entropy: Entropy
) -> NDArray[Any]:
    """Give floor(scale X / Y) for the X and Y that begin with the given 53 bits."""
    factor = float(scale)
    low = factor * across / (up + 1) * (1 - 2.0**-48)
    high = factor * (across + 1) / np.maximum(up, 1) * (1 + 2.0**-48)
    decided = (np.floor(low) == np.floor(high)) & (high < _LARGEST_FLOAT) & (up > 0)
    floors = np.where(decided, low, 0).astype(np.int64)
    late = {
        int(at): _floor_exactly(scale, int(across[at]), int(up[at]), entropy)
        for at in np.flatnonzero(~decided)
    }
    if late and max(late.values()) >= 2**62:
        floors = floors.astype(object)
    for at, value in late.items():
        floors[at] = value
    return floors


def _floor_exactly(scale: Fraction, across: int, up: int, entropy: Entropy) -> int:
    while True:
        if up > 0:
            low = (scale * across / (up + 1)).__floor__()
            # The unread bits are below one unit with certainty, so the upper end is never reached.
            high = (scale * (across + 1) / up).__ceil__() - 1
            if low == high:
                return low
        across, up = _more(across, entropy), _more(up, entropy)


def _more(prefix: int, entropy: Entropy) -> int:
    return prefix << 64 | int(entropy.words(1)[0])
