"""Which of very many cells pass, each with the same small chance: by exact geometric skips.

The chance p of a cell is irrational. A rational scale s is taken for which the chance
p' = 1 - exp(-1/s) is p or a trifle more, so that the cells passed over between two that pass with
chance p' are a geometric variable of scale s, which is drawn exactly; a cell found in this way is
kept with chance p / p', by a coin that compares as many digits of a uniform number, and of the
chance, as it takes. Cells then pass independently with chance p' (p / p') = p, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.noise.entropy import BLOCK
from sfumato.noise.laplace import geometric
from sfumato.privacy.elementary import exp_down, exp_up, log_down, round_down

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.entropy import Entropy

Bounds = tuple[Fraction, Fraction]
Chance = Callable[[int], Bounds]
"""Bounds on a chance below 1 that close in on it as the number of bits grows."""

_BITS = 256
_WORD = 64
# So small a chance that among 2^60 cells none passes but once in 2^40; skips stay of ordinary size.
_SMALLEST = Fraction(1, 1 << 100)


def power(scale: Fraction, exponent: int, bits: int) -> Bounds:
    """Bound exp(-exponent / scale) within 2^-bits."""
    level = exponent / scale
    if level > bits:
        return Fraction(0), Fraction(1, 1 << bits)
    return exp_down(-level, bits), exp_up(-level, bits)


class Passing:
    """Cells of which each passes with the same chance, below 1.

    *Guarantee*: each passes independently with exactly this chance.
    *Edges*: no cells, or a chance too small for any, give no places; at most 2^60 cells.
    *Reference*: Cormode, Procopiuc, Srivastava & Tran 2012, section 4; the module's argument.
    """

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        highest = max(chance(_BITS)[1], _SMALLEST)
        self._scale = round_down(-1 / log_down(1 - highest, _BITS))
        # A word below this is surely below p / p'.
        self._sure = min((self._ratio(_BITS)[0] * (1 << _WORD)).__floor__(), (1 << _WORD) - 1)

    def places(self, cells: int, entropy: Entropy) -> NDArray[np.int64]:
        """Which of [0, cells) pass, in order."""
        found = self._found(cells, entropy)
        words = entropy.words(max(len(found), BLOCK))[: len(found)]
        kept = words < np.uint64(self._sure)
        for place in np.flatnonzero(~kept).tolist():
            kept[place] = below(self._ratio, int(words[place]), entropy)
        return found[kept]

    def _found(self, cells: int, entropy: Entropy) -> NDArray[np.int64]:
        """The places that pass with chance p'."""
        found = [np.empty(0, dtype=np.int64)]
        done = 0
        while done < cells:
            expected = (cells - done) * -math.expm1(-float(1 / self._scale))
            draws = int(expected + 6 * math.sqrt(expected)) + BLOCK
            skips = geometric(self._scale, draws, entropy)
            # A skip beyond the end ends it, however long. What wraps lies behind one that does.
            ends = done + np.cumsum(np.minimum(skips, cells).astype(np.int64) + 1)
            beyond = np.flatnonzero(ends > cells)
            found.append(ends[: beyond[0] if len(beyond) else None] - 1)
            done = cells if len(beyond) else int(ends[-1])
        return np.concatenate(found)

    def _ratio(self, bits: int) -> Bounds:
        """Bounds on p / p', the chance with which a place found is kept."""
        low, high = self._chance(bits)
        proposed_low = 1 - exp_up(-1 / self._scale, bits)
        proposed_high = 1 - exp_down(-1 / self._scale, bits)
        return low / proposed_high, high / proposed_low


def below(chance: Chance, prefix: int, entropy: Entropy) -> bool:
    """Whether the uniform number that begins with these 64 digits is below a chance."""
    digits = _WORD
    while True:
        low, high = chance(_BITS + digits)
        if prefix + 1 <= low * (1 << digits):
            return True
        if prefix >= high * (1 << digits):
            return False
        prefix = prefix << _WORD | int(entropy.words(1)[0])
        digits += _WORD
