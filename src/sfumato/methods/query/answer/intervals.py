"""Intervals of outputs that are computed from released figures: shares, ratios, sums, differences.

All figures of an output are within their margins of the truth with probability 95 % together. Over
that box, interval arithmetic finds two ends between which the true output lies. If the range of a
quotient is known, such as 0 to 1 for a share, the ends are clamped to it. Everything here is
post-processing of released figures. Decision `answer-error-bars`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sfumato.arrays import FloatArray


class UnknownBarError(Exception):
    """No bar follows for an expression; never leaves this package."""


@dataclass(frozen=True)
class Span:
    """A value, the ends between which the truth is, and its slope in every figure it is made of."""

    value: FloatArray
    low: FloatArray
    high: FloatArray
    slopes: Mapping[str, FloatArray] = field(default_factory=dict)


@dataclass(frozen=True)
class Figure:
    """A released figure, row by row: its sd and a margin, and the range of what it can be.

    The `remainder` is the sum of the figure over all other rows, for outputs that use a total.
    """

    value: FloatArray
    stddev: FloatArray
    margin: FloatArray
    ends: tuple[float, float] = (-np.inf, np.inf)
    remainder: FloatArray | None = None
    remainder_stddev: FloatArray | None = None
    remainder_margin: FloatArray | None = None

    def span(self, name: str) -> Span:
        """The figure itself."""
        low, high = _interval(self.value, self.margin, self.ends)
        return Span(self.value, low, high, {name: np.ones_like(self.value)})

    def remainder_span(self, name: str) -> Span:
        """The sum over all other rows, as a figure of its own."""
        assert self.remainder is not None
        assert self.remainder_margin is not None
        low, high = _interval(self.remainder, self.remainder_margin, _sum_range(self.ends))
        return Span(
            self.remainder, low, high, {_remainder_name(name): np.ones_like(self.remainder)}
        )


def _remainder_name(name: str) -> str:
    return f"{name} elsewhere"


def _interval(
    value: FloatArray, margin: FloatArray, ends: tuple[float, float]
) -> tuple[FloatArray, FloatArray]:
    return np.clip(value - margin, *ends), np.clip(value + margin, *ends)


def _sum_range(ends: tuple[float, float]) -> tuple[float, float]:
    """The range of a sum of any number of such figures."""
    return (0.0 if ends[0] >= 0 else -np.inf), (0.0 if ends[1] <= 0 else np.inf)


@dataclass(frozen=True)
class Spans:
    """Finds the span of an output of `finish`. `possible` gives the range of a known quotient."""

    figures: Mapping[str, Figure]
    possible: Callable[[str, str], tuple[float, float] | None]
    rows: int

    def of(self, node: exp.Expr) -> Span:
        """The span of an expression, or `UnknownBarError`."""
        match node:
            case exp.Paren() | exp.Nullif():
                return self.of(node.this)
            case exp.Cast():
                return self._cast(node)
            case exp.Literal():
                return self._constant(float(node.name))
            case exp.Column():
                return self._figure(node).span(node.name)
            case exp.Window():
                return self._total(node)
            case exp.Neg():
                inner = self.of(node.this)
                slopes = {name: -slope for name, slope in inner.slopes.items()}
                return Span(-inner.value, -inner.high, -inner.low, slopes)
            case exp.Add() | exp.Sub() | exp.Mul():
                return _combine(type(node), self.of(node.this), self.of(node.expression))
            case exp.Div():
                return self._quotient(node)
            case exp.Floor() | exp.Ceil():
                return _round(node, self.of(node.this))
        raise UnknownBarError

    def stddev(self, span: Span) -> FloatArray:
        """The sd of an output by linear propagation."""
        noises = {name: figure.stddev for name, figure in self.figures.items()}
        noises |= {
            _remainder_name(name): figure.remainder_stddev
            for name, figure in self.figures.items()
            if figure.remainder_stddev is not None
        }
        # Noises of different figures are independent, so their variances add up.
        terms = [(slope * noises[name]) ** 2 for name, slope in span.slopes.items()]
        return np.sqrt(np.sum(terms, axis=0)) if terms else np.zeros(self.rows)

    def _figure(self, node: exp.Expr) -> Figure:
        if node.name not in self.figures:
            raise UnknownBarError
        return self.figures[node.name]

    def _cast(self, node: exp.Cast) -> Span:
        if isinstance(node.this, exp.Literal):
            return self._constant(float(node.this.name))
        if not node.is_type(exp.DType.DOUBLE):
            raise UnknownBarError
        return self.of(node.this)

    def _constant(self, number: float) -> Span:
        value = np.full(self.rows, number)
        return Span(value, value, value)

    def _total(self, node: exp.Window) -> Span:
        name = _total_of(node)
        figure = self.figures[name]
        return _combine(exp.Add, figure.span(name), figure.remainder_span(name))

    def _quotient(self, node: exp.Div) -> Span:
        """A quotient; that of two plain figures or totals is clamped to its possible range."""
        numerator, denominator = _factor(node.this), _factor(node.expression)
        if numerator is None or denominator is None:
            return _divide(self.of(node.this), self.of(node.expression))
        (factor, upper), (divisor, lower) = numerator, denominator
        if not isinstance(upper, exp.Column) or lower is None or not divisor:
            return _divide(self.of(node.this), self.of(node.expression))
        figure = self._figure(upper)
        denominator_name = _total_of(lower) if isinstance(lower, exp.Window) else lower.name
        if isinstance(lower, exp.Window) and denominator_name == upper.name and figure.ends[0] >= 0:
            # x / (x + y) as a whole has a narrower interval than x over the interval of x + y,
            # which would count the noise of x twice.
            quotient = _share(figure.span(upper.name), figure.remainder_span(upper.name))
        else:
            quotient = _divide(self.of(upper), self.of(lower))
            ends = self.possible(upper.name, denominator_name)
            if ends is not None:
                # Post-processing: the truth lies in the possible range, so the interval may be cut
                # to it.
                low, high = np.clip(quotient.low, *ends), np.clip(quotient.high, *ends)
                quotient = Span(quotient.value, low, high, quotient.slopes)
        return _combine(exp.Mul, quotient, self._constant(factor / divisor))


def _total_of(node: exp.Window) -> str:
    column = node.this.find(exp.Column)
    assert column is not None
    return str(column.name)


def _factor(node: exp.Expr) -> tuple[float, exp.Column | exp.Window | None] | None:
    """A node as a constant times one bare figure or total; None where it is more than that."""
    match node:
        case exp.Paren() | exp.Nullif():
            return _factor(node.this)
        case exp.Cast():
            return _factor(node.this)
        case exp.Literal():
            return float(node.name), None
        case exp.Column() | exp.Window():
            return 1.0, node
        case exp.Mul():
            factors = _factor(node.this), _factor(node.expression)
            if factors[0] is None or factors[1] is None or (factors[0][1] and factors[1][1]):
                return None
            return factors[0][0] * factors[1][0], factors[0][1] or factors[1][1]
    return None


def _combine(operation: type[exp.Expr], left: Span, right: Span) -> Span:
    """x + y, x - y or x * y."""
    if operation is exp.Mul:
        with np.errstate(invalid="ignore"):
            # 0 times infinity is 0 here: a factor that is exactly 0 makes the product 0.
            corners = np.nan_to_num(
                [a * b for a in (left.low, left.high) for b in (right.low, right.high)],
                nan=0.0, posinf=np.inf, neginf=-np.inf,
            )  # fmt: skip
        slopes = _combine_slopes(left.slopes, right.value, right.slopes, left.value)
        return Span(left.value * right.value, corners.min(axis=0), corners.max(axis=0), slopes)
    if operation is exp.Add:
        slopes = _combine_slopes(left.slopes, 1.0, right.slopes, 1.0)
        low, high = left.low + right.low, left.high + right.high
        return Span(left.value + right.value, low, high, slopes)
    slopes = _combine_slopes(left.slopes, 1.0, right.slopes, -1.0)
    return Span(left.value - right.value, left.low - right.high, left.high - right.low, slopes)


def _divide(left: Span, right: Span) -> Span:
    """x / y: anything where y may be zero with either sign, or nothing is known of it."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        value = left.value / np.where(right.value == 0, np.nan, right.value)
        slopes = _combine_slopes(left.slopes, 1 / right.value, right.slopes, -value / right.value)
        corners = np.array([a / b for a in (left.low, left.high) for b in (right.low, right.high)])
    # Without zero in it, 1 / y is monotone, so the ends of the quotient are among the four
    # corners.
    apart = (right.low > 0) | (right.high < 0)
    low = np.where(apart, corners.min(axis=0), -np.inf)
    high = np.where(apart, corners.max(axis=0), np.inf)
    touching = (right.low >= 0) & ~apart  # y from 0 on: the sign of x is that of the quotient
    low = np.where(touching & (left.low >= 0), 0.0, low)
    high = np.where(touching & (left.high <= 0), 0.0, high)
    return Span(value, low, high, slopes)


def _share(share: Span, remainder: Span) -> Span:
    """x / (x + y) where neither is negative: it grows with x and shrinks with y."""
    total = _combine(exp.Add, share, remainder)
    with np.errstate(divide="ignore", invalid="ignore"):
        low = share.low / (share.low + remainder.high)
        high = share.high / (share.high + remainder.low)
    # 0 / 0 where both may be zero: any share from 0 to 1 is possible.
    low, high = np.nan_to_num(low, nan=0.0), np.nan_to_num(high, nan=1.0)
    return Span((divided := _divide(share, total)).value, low, high, divided.slopes)


def _round(node: exp.Floor | exp.Ceil, inner: Span) -> Span:
    """FLOOR and CEIL keep the order of what they round."""
    round_values = np.floor if isinstance(node, exp.Floor) else np.ceil
    return Span(
        round_values(inner.value), round_values(inner.low), round_values(inner.high), inner.slopes
    )


def _combine_slopes(
    first: Mapping[str, FloatArray],
    by_first: FloatArray | float,
    second: Mapping[str, FloatArray],
    by_second: FloatArray | float,
) -> dict[str, FloatArray]:
    """The slopes of a combination."""
    slopes = {name: slope * by_first for name, slope in first.items()}
    for name, slope in second.items():
        # One figure on both sides: its noise is the same, so slopes are added before they are
        # squared.
        slopes[name] = slopes.get(name, 0.0) + slope * by_second
    return slopes
