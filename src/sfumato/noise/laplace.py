"""Exact geometric and discrete Laplace variables.

A geometric variable of scale s has P(G = k) = (1 - a) a^k with a = exp(-1/s); it is floor(s E) for
an exponential E. For s > 2^24, where float64 could not hold the product, G = 2^j H + R with
independent parts: H is geometric of scale s / 2^j, and R in [0, 2^j) has P(R = r) proportional to
exp(-r/s): a uniform r kept with probability exp(-r/s), which is above 1 - 2^-23.

A discrete Laplace variable has P(X = k) proportional to a^|k|, so P(|X| >= k) = 2 a^k / (1 + a) for
k >= 1. With d = log(2 / (1 + a)) this is P(E > k/s - d), hence |X| = floor(s (E + d)), and the sign
is a fair coin. Above 2^24 it is a geometric variable with a random sign, where the zero that both
signs share, which hardly ever comes, is kept with one of them only.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.noise.blocks import Draws, collect
from sfumato.noise.exponential import Exponentials, Revealed, floors
from sfumato.privacy.elementary import exp_down, exp_up, log_down, log_up

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.entropy import Entropy
    from sfumato.noise.exponential import Bounds

_DIRECT = 1 << 24
_LOW_BITS, _SURE_BITS = 40, 23  # parts of one word


def geometric(scale: Fraction, size: int, entropy: Entropy) -> NDArray[Any]:
    """Draw geometric variables: int64, or Python integers where one of them needs more.

    *Guarantee*: P(G = k) = (1 - a) a^k exactly, a = exp(-1 / scale).
    *Error*: mean 1 / (exp(1/scale) - 1).
    *Edges*: any positive scale.
    *Reference*: the module's argument; Devroye, Non-uniform random variate generation, 1986, X.2.
    """
    return collect(size, 1.0, lambda count: _signed_geometric(scale, count, entropy)[0])


def discrete_laplace(scale: Fraction, size: int, entropy: Entropy) -> NDArray[Any]:
    """Draw discrete Laplace variables: int64, or Python integers where one of them needs more.

    *Guarantee*: P(X = k) = (1 - a) / (1 + a) a^|k| exactly, a = exp(-1 / scale).
    *Error*: variance 1 / (2 sinh^2(1 / (2 scale))).
    *Edges*: any positive scale.
    *Reference*: Ghosh, Roughgarden and Sundararajan 2009; the module's argument.
    """
    return collect(size, 1.0, lambda count: laplace_trials(scale, count, entropy))


def laplace_trials(scale: Fraction, count: int, entropy: Entropy) -> Draws:
    """Up to `count` discrete Laplace variables: those of `count` trials that are kept."""
    if scale <= _DIRECT:
        drawn = Exponentials(count, entropy)
        return Draws(floors(scale, drawn, partial(_zero_shift, scale))).signed(drawn.spare)
    magnitudes, negative = _signed_geometric(scale, count, entropy)
    signed = magnitudes.signed(negative)
    second_zeros = negative & (magnitudes.values == 0)
    return signed.kept(~second_zeros) if second_zeros.any() else signed


@lru_cache(maxsize=64)
def _zero_shift(scale: Fraction, bits: int) -> Bounds:
    """Bounds on d = log(2 / (1 + a)), a = exp(-1 / scale)."""
    work = bits + 8
    low, high = Fraction(0), Fraction(1, 1 << work)
    if scale * work > 1:  # otherwise a < exp(-work), within the bounds above
        low, high = exp_down(-1 / scale, work), exp_up(-1 / scale, work)
    return log_down(2 / (1 + high), work), log_up(2 / (1 + low), work)


def _signed_geometric(
    scale: Fraction, count: int, entropy: Entropy
) -> tuple[Draws, NDArray[np.bool_]]:
    """Geometric variables and, beside each, a random bit that is independent of it."""
    if scale <= _DIRECT:
        drawn = Exponentials(count, entropy)
        return Draws(floors(scale, drawn)), drawn.spare
    shift = min(_LOW_BITS, scale.__floor__().bit_length() - _SURE_BITS - 1)
    high, spare = _signed_geometric(scale / (1 << shift), count, entropy)
    low = _low_part(scale, shift, count, entropy)
    large = {*np.flatnonzero(high.values >= 1 << (63 - shift)).tolist(), *high.wide}
    wide = {place: (high.exact(place) << shift) + int(low[place]) for place in large}
    # A wide value's 64-bit stand-in is odd, so that nobody takes it for zero.
    values = (high.values << shift) + low
    values[list(wide)] = 1
    return Draws(values, wide), spare


def _low_part(scale: Fraction, shift: int, count: int, entropy: Entropy) -> NDArray[np.int64]:
    """R in [0, 2^shift) with P(R = r) proportional to exp(-r / scale); 2^shift / scale <= 2^-23.

    One word holds the uniform r and the first digits of the U that r is kept with, U < exp(-r/s).
    Unless those digits are all ones, U < 1 - 2^-23 <= 1 - r/s < exp(-r/s) and r is kept.
    """
    words = entropy.words(count)
    low = (words & np.uint64((1 << shift) - 1)).view(np.int64)
    first = words >> np.uint64(64 - _SURE_BITS)
    ones = (1 << _SURE_BITS) - 1
    for place in np.flatnonzero(first == ones).tolist():
        kept = int(low[place])
        uniform = Revealed(ones, _SURE_BITS, entropy)
        while not uniform.exceeds(kept / scale):
            kept = int(entropy.words(1)[0]) & ((1 << shift) - 1)
            uniform = Revealed(0, 0, entropy)
        low[place] = kept
    return low
