"""Declared domains: the values that a column may hold. A declared domain is public."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Context, Decimal, DivisionByZero, Inexact, InvalidOperation, Overflow
from math import isfinite
from typing import Any

from sfumato import arguments
from sfumato.data.schema.names import quoted
from sfumato.errors import SchemaError

Scalar = int | Decimal | str | bool | date
"""A declared value. Reals are exact decimals, never floats."""

EXACT = Context(prec=1000, traps=[DivisionByZero, Inexact, InvalidOperation, Overflow])
"""A decimal context that is exact for every double and independent of the thread's context."""

# Integer columns hold 64 bits on every engine.
_INTEGER_LIMIT = 2**63

# Most digits of a declared decimal before and after the point.
_WHOLE_DIGITS, _DECIMALS = 15, 12

# Smallest number of steps into which `stepped` divides a continuum.
_FEWEST_STEPS = 100


def check_value(value: Scalar, title: str) -> None:
    """Refuse a declared value that no engine can hold exactly; `title` names it."""
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent if value.is_finite() else None
        small = value.is_finite() and value.adjusted() < _WHOLE_DIGITS
        fits = small and isinstance(exponent, int) and exponent >= -_DECIMALS
        allowed = f"at most {_WHOLE_DIGITS} digits before the point and {_DECIMALS} after it"
    elif isinstance(value, int):
        fits = -_INTEGER_LIMIT <= value < _INTEGER_LIMIT
        allowed = "a whole number of 64 bits"
    elif isinstance(value, str):
        # A lone surrogate has no UTF-8 form, so no engine could store the text.
        fits = value.isascii() or not any("\ud800" <= sign <= "\udfff" for sign in value)
        allowed = "text without halves of surrogate pairs"
    else:
        return
    if not fits:
        message = f"{title} {quoted(str(value))} cannot be held exactly; allowed is {allowed}."
        raise SchemaError("value_outside_domain", message)


def exact(value: object) -> Scalar:
    """Convert a declared value to an exact one; a float becomes its shortest decimal form."""
    kinds = (str, bool, int, Decimal, date)
    if isinstance(value, float) and isfinite(value):
        return Decimal(float.__repr__(value))
    allowed = "a number, a text, a date or a boolean"
    declared: Scalar = arguments.require(value, "A declared value", kinds, allowed)
    return declared


def _real(value: Scalar) -> Scalar:
    """Convert an integer to the `Decimal` of the same value."""
    return Decimal(value) if type(value) is int else value


@dataclass(frozen=True)
class Values:
    """A domain of listed values, in the declared order.

    Parameters
    ----------
    values : tuple
        At least one value; all different.

    Raises
    ------
    SchemaError
        If the list is empty, repeats a value or has one that engines cannot hold exactly.

    Example
    -------
    >>> import sfumato as sf
    >>> sf.Values(("never", "former", "current")).size
    3
    """

    values: tuple[Scalar, ...]

    def __post_init__(self) -> None:
        listed = arguments.require(self.values, "values", (tuple, list), "a list of values")
        object.__setattr__(self, "values", tuple(map(exact, listed)))
        if not self.values:
            raise SchemaError("domain_invalid", "A list of values must name at least one value.")
        for value in self.values:
            check_value(value, "Value")
        if len(set(self.values)) != len(self.values):
            twice = next(v for v in self.values if self.values.count(v) > 1)
            raise SchemaError(
                "domain_invalid", f"Value {quoted(str(twice))} is declared more than once."
            )

    @property
    def size(self) -> int:
        """The number of values."""
        return len(self.values)

    def reals(self) -> Values:
        """The same values as decimals, for a column of reals."""
        return Values(tuple(map(_real, self.values)))


@dataclass(frozen=True)
class Bounds:
    """A domain from `low` to `high`, both included; with a step, the grid low, low + step, ...

    Equal bounds declare a constant.

    Parameters
    ----------
    low, high : int, float, Decimal or date
        The ends, both of one kind.
    step : int, float or Decimal, optional
        The distance between neighbouring values, in days for dates; it divides the interval.
        Integers and dates have step 1 unless another is given; reals have none.

    Raises
    ------
    SchemaError
        If low is above high, or the step does not divide the interval evenly.

    Example
    -------
    >>> import sfumato as sf
    >>> sf.Bounds(0.0, 1.0, 0.25).size
    5
    """

    low: int | Decimal | date
    high: int | Decimal | date
    step: int | Decimal | None = None

    def __post_init__(self) -> None:
        names = ("low", "high") if self.step is None else ("low", "high", "step")
        ends = [getattr(self, name) for name in names]
        reals = any(isinstance(value, float) for value in ends)
        for name, value in zip(names, map(exact, ends), strict=True):
            object.__setattr__(self, name, _real(value) if reals else value)
        for name in ("low", "high"):
            arguments.require(getattr(self, name), name, (int, Decimal, date), "a number or a date")
        if type(self.low) is not type(self.high):
            raise SchemaError("bounds_invalid", "Both bounds must be of the same kind.")
        check_value(self.low, "Bound")
        check_value(self.high, "Bound")
        if self.step is not None:
            arguments.require(self.step, "step", (int, Decimal), "a number")
            check_value(self.step, "Step")
        if self.span < 0:
            raise SchemaError(
                "bounds_invalid",
                f"Bounds [{self.low}, {self.high}] are reversed: low is above high.",
            )
        if self.step is not None and (self.step <= 0 or _remainder(self.span, self.step)):
            raise SchemaError(
                "bounds_invalid",
                f"Step {self.step} must be positive and divide {self.low}..{self.high} evenly.",
            )

    def reals(self) -> Bounds:
        """The same bounds as decimals, for a column of reals."""
        ends: tuple[Any, ...] = (self.low, self.high, *([] if self.step is None else [self.step]))
        reals: list[Any] = [_real(value) for value in ends]
        return Bounds(*reals)

    @property
    def span(self) -> int | Decimal:
        """The distance between the ends, in days for dates."""
        if isinstance(self.low, date) and isinstance(self.high, date):
            return (self.high - self.low).days
        assert not isinstance(self.low, date)
        assert not isinstance(self.high, date)
        if isinstance(self.low, Decimal) and isinstance(self.high, Decimal):
            return EXACT.subtract(self.high, self.low)
        return self.high - self.low

    @property
    def grid_step(self) -> int | Decimal | None:
        """The step between grid points; None for a continuum without a declared step."""
        if self.step is None and not isinstance(self.low, Decimal):
            return 1
        return self.step

    def stepped(self) -> Bounds | None:
        """These bounds as a grid; a continuum gets the widest round step that makes 100 or more.

        None where no round step (1, 2 or 5 times a power of ten) divides it. Decision `schemas`.
        """
        if self.grid_step is not None or not self.span:
            return self if self.grid_step is not None else None
        first = Decimal(1).scaleb(Decimal(self.span).adjusted() - 1)
        widths = (first.scaleb(-power) * digit for power in range(5) for digit in (5, 2, 1))
        for width in widths:
            fine = width.adjusted() < -_DECIMALS
            if not fine and self.span >= _FEWEST_STEPS * width and not _remainder(self.span, width):
                return Bounds(self.low, self.high, width)
        return None

    @property
    def size(self) -> int | None:
        """How many grid points there are; None for a continuum."""
        step = self.grid_step
        if step is None:
            return None
        return int(EXACT.divide_int(Decimal(self.span), Decimal(step))) + 1


def _remainder(span: int | Decimal, step: int | Decimal) -> Decimal:
    return EXACT.remainder(Decimal(span), Decimal(step))


Domain = Values | Bounds
