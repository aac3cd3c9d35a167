"""Intervals for shares: Clopper and Pearson's, which never covers less often than it says.

The bounds are quantiles of beta distributions, found by Newton's steps, or halvings where a step
would leave the bracket, on the regularized incomplete beta function, which is a continued fraction
(Lentz's evaluation). Shares of people who are guessed
among several candidates are expectations; they lie between two whole numbers of people, and their
interval covers those of both.

*Reference*: Clopper and Pearson 1934; DLMF 8.17.22 for the fraction.
"""

from __future__ import annotations

from math import ceil, exp, floor, lgamma, log, log1p

ALPHA = 0.05
"""Intervals fail this often, on both sides together."""

_TINY = 1e-300
_MOST_TERMS = 100_000
_MOST_STEPS = 100
_ROUNDING = 1e-14


def clopper_pearson(right: float, tried: int, alpha: float = ALPHA) -> tuple[float, float]:
    """The interval of a share of `tried`; with nobody tried nothing is known."""
    if tried == 0:
        return 0.0, 1.0
    low, high = max(floor(right), 0), min(ceil(right), tried)
    lower = 0.0 if low == 0 else _quantile(alpha / 2, low, tried - low + 1)
    upper = 1.0 if high == tried else _quantile(1 - alpha / 2, high + 1, tried - high)
    return lower, upper


def _quantile(chance: float, a: float, b: float) -> float:
    """Where a beta distribution reaches a chance."""
    low, high, at = 0.0, 1.0, a / (a + b)
    for _ in range(_MOST_STEPS):
        over = _incomplete_beta(at, a, b) - chance
        low, high = (low, at) if over > 0 else (at, high)
        density = exp(_log_kernel(at, a, b) - log(at) - log1p(-at))
        before, at = at, at - over / density if density > 0 else low
        if not low < at < high:
            at = (low + high) / 2
        if abs(at - before) <= _ROUNDING * before:
            break
    return at


def _log_kernel(x: float, a: float, b: float) -> float:
    """The logarithm of x^a (1 - x)^b / B(a, b)."""
    return lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function I_x(a, b)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # where the fraction converges fast for the other side
        return 1 - _incomplete_beta(1 - x, b, a)
    return exp(_log_kernel(x, a, b)) * _fraction(x, a, b) / a


def _fraction(x: float, a: float, b: float) -> float:
    c, d = 1.0, 1 / _away(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _MOST_TERMS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _away(1 + term * d)
            c = _away(1 + term / c)
            value *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return value


def _away(number: float) -> float:
    return number if abs(number) > _TINY else _TINY
