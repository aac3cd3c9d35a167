"""Proven rational bounds for square root, exponential and logarithm, each with its direction.

Every bound comes from integer arithmetic in which each step is rounded towards the stated side and
the tail of each series is added as a proven remainder, so a bound is right at any precision and
`bits` decides only how close it is. Square root and exponential are close relative to their value,
the logarithm is close absolutely.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import isqrt

# Default precision in binary digits. It decides only how tight a bound is, never whether it holds.
BITS = 128


def round_down(value: Fraction, bits: int = BITS) -> Fraction:
    """Cut a number to about `bits` significant binary digits, downwards."""
    numerator, denominator = value.numerator, value.denominator
    shift = bits - numerator.bit_length() + denominator.bit_length()
    if shift >= denominator.bit_length():
        return value
    scaled = numerator << max(shift, 0)
    return _scale(scaled // (denominator << max(-shift, 0)), shift)


def round_up(value: Fraction, bits: int = BITS) -> Fraction:
    """Cut a number to about `bits` significant binary digits, upwards."""
    return -round_down(-value, bits)


def sqrt_down(value: Fraction, bits: int = BITS) -> Fraction:
    """Bound a square root from below."""
    shift = _sqrt_shift(value, bits)
    # For an integer root r, r <= sqrt(y) exactly when r <= sqrt(floor(y)).
    return _scale(isqrt((value * 4**shift).__floor__()), shift)


def _sqrt_shift(value: Fraction, bits: int) -> int:
    return bits + max(0, value.denominator.bit_length() - value.numerator.bit_length())


def exp_down(value: Fraction, bits: int = BITS) -> Fraction:
    """Bound an exponential from below."""
    return round_down(_exp(value, bits)[0], bits)


def exp_up(value: Fraction, bits: int = BITS) -> Fraction:
    """Bound an exponential from above."""
    return round_up(_exp(value, bits)[1], bits)


def _exp(value: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Halve the argument until it is at most 1/2, sum the series, square as often as halved."""
    if value < 0:
        # exp(-x) = 1 / exp(x): the bounds change places.
        inverse_high, inverse_low = _exp(-value, bits)
        return 1 / inverse_low, 1 / inverse_high
    halvings = max(0, value.numerator.bit_length() - value.denominator.bit_length() + 2)
    # A squaring doubles the relative error, so each halving costs one digit.
    work = bits + halvings + 16
    scaled = value * Fraction(2) ** (work - halvings)
    low, high = _exp_series(scaled.__floor__(), scaled.__ceil__(), work)
    for _ in range(halvings):
        low, high = low * low >> work, -(-high * high >> work)
    return Fraction(low, 1 << work), Fraction(high, 1 << work)


def _exp_series(low: int, high: int, work: int) -> tuple[int, int]:
    sum_low = sum_high = term_low = term_high = 1 << work
    order = 0
    while term_high > 1:
        order += 1
        term_low = (term_low * low >> work) // order
        term_high = -((-term_high * high >> work) // order)
        sum_low += term_low
        sum_high += term_high
    # Each left-out term is at most half of the one before it, so they sum to at most the last.
    return sum_low, sum_high + term_high


def log_down(value: Fraction, bits: int = BITS) -> Fraction:
    """Bound a natural logarithm from below."""
    return _log(value, bits)[0]


def log_up(value: Fraction, bits: int = BITS) -> Fraction:
    """Bound a natural logarithm from above."""
    return _log(value, bits)[1]


def _log(value: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Write the argument as m 2^k with m in [2/3, 4/3]; log m = 2 artanh((m - 1) / (m + 1))."""
    power = value.numerator.bit_length() - value.denominator.bit_length()
    mantissa = value / Fraction(2) ** power
    if mantissa > Fraction(4, 3):
        power, mantissa = power + 1, mantissa / 2
    elif mantissa < Fraction(2, 3):
        power, mantissa = power - 1, mantissa * 2
    # k log 2 multiplies the error of log 2 by k: as many extra digits as k has.
    work = bits + 16 + power.bit_length()
    low, high = _artanh((mantissa - 1) / (mantissa + 1), work)
    two_low, two_high = _log_two(work)
    if power < 0:
        two_low, two_high = two_high, two_low
    return _scale(2 * low + power * two_low, work), _scale(2 * high + power * two_high, work)


@lru_cache(maxsize=32)
def _log_two(work: int) -> tuple[int, int]:
    low, high = _artanh(Fraction(1, 3), work)
    return 2 * low, 2 * high


def _artanh(value: Fraction, work: int) -> tuple[int, int]:
    """Enclose artanh(t) 2^work = (t + t^3 / 3 + t^5 / 5 + ...) 2^work for |t| <= 1/3."""
    if value < 0:
        low, high = _artanh(-value, work)
        return -high, -low
    if value == 0:
        return 0, 0
    low, high = (value * 2**work).__floor__(), (value * 2**work).__ceil__()
    square_low, square_high = low * low >> work, -(-high * high >> work)
    sum_low, sum_high, order = low, high, 1
    while high > 1:
        order += 2
        low, high = low * square_low >> work, -(-high * square_high >> work)
        sum_low += low // order
        sum_high -= -high // order
    # Each left-out power is at most 1/9 of the one before it, so they sum to less than the last.
    return sum_low, sum_high + high


def _scale(value: int, shift: int) -> Fraction:
    return Fraction(value, 1 << shift) if shift >= 0 else Fraction(value << -shift)


def cos_sin(turns: Fraction, bits: int = BITS) -> tuple[tuple[Fraction, Fraction], ...]:
    """Enclose cosine and sine of a part of a full turn, from 0 to a quarter: (low, high) each."""
    work = bits + 16
    pi_low, pi_high = _pi(work)
    low = (2 * turns * pi_low).__floor__()
    high = (2 * turns * pi_high).__ceil__()
    slack = _scale(high - low, work)  # neither function moves faster than its argument
    (cosine, error), (sine, _) = (_alternating(low, first, work) for first in (1, 2))
    reach = _scale(error, work) + slack
    return tuple(
        (_scale(value, work) - reach, _scale(value, work) + reach) for value in (cosine, sine)
    )


def _alternating(value: int, first: int, work: int) -> tuple[int, int]:
    """1 - x^2 / 2 + x^4 / 24 ... or, for `first` 2, x - x^3 / 6 ..., and a bound on its error.

    For x up to 1.6 every term after the second is below a quarter of the one before it, so each is
    off by less than 8 units of the last digit, and the terms left out by less than the last.
    """
    square = value * value >> work
    term = 1 << work if first == 1 else value
    total, order, terms = 0, first, 0
    while abs(term) > 1:
        total += term
        term = -(term * square >> work) // (order * (order + 1))
        order, terms = order + 2, terms + 1
    return total, 8 * (terms + 2)


@lru_cache(maxsize=32)
def _pi(work: int) -> tuple[int, int]:
    """Enclose pi 2^work by Machin's formula, 16 arctan(1/5) - 4 arctan(1/239)."""
    guarded = work + 16
    total = terms = 0
    for factor, inverse in ((16, 5), (-4, 239)):
        power, order = (1 << guarded) // inverse, 1
        while power:
            total += factor * (power // order if order % 4 == 1 else -(power // order))
            power, order, terms = power // inverse**2, order + 2, terms + 1
    # Each term is cut twice, and the terms left out sum to less than one unit.
    error = 32 * (terms + 2)
    return (total - error) >> 16, -((-total - error) >> 16)
