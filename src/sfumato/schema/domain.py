"""Declared domains: which values a column may hold, as public knowledge."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from sfumato.errors import SchemaError

Scalar = int | Decimal | str | bool | date
"""A declared value. Reals are exact decimals, never floats."""


@dataclass(frozen=True)
class Values:
    """A finite list of values, in the declared order."""

    values: tuple[Scalar, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise SchemaError("domain_empty", "A list of values must name at least one value.")
        if len(set(self.values)) != len(self.values):
            twice = next(v for v in self.values if self.values.count(v) > 1)
            raise SchemaError("domain_repeats", f"Value {twice!r} is declared more than once.")

    @property
    def size(self) -> int:
        """How many values there are."""
        return len(self.values)


@dataclass(frozen=True)
class Bounds:
    """An interval with both ends included; with a step, the grid low, low + step, ..., high.

    Dates count in days. Integers and dates have step 1 unless another is declared.
    """

    low: int | Decimal | date
    high: int | Decimal | date
    step: int | Decimal | None = None

    def __post_init__(self) -> None:
        if type(self.low) is not type(self.high):
            raise SchemaError("bounds_mixed", "Both bounds must be of the same kind.")
        if self.span < 0:
            raise SchemaError(
                "bounds_reversed",
                f"Bounds [{self.low}, {self.high}] are reversed: low is above high.",
            )
        if self.step is not None and (self.step <= 0 or self.span % self.step != 0):
            raise SchemaError(
                "step_uneven",
                f"Step {self.step} must be positive and divide {self.low}..{self.high} evenly.",
            )

    @property
    def span(self) -> int | Decimal:
        """Distance between the ends, in days for dates."""
        if isinstance(self.low, date) and isinstance(self.high, date):
            return (self.high - self.low).days
        assert not isinstance(self.low, date)
        assert not isinstance(self.high, date)
        return self.high - self.low

    @property
    def grid_step(self) -> int | Decimal | None:
        """The step between grid points; None for a continuum without a declared step."""
        if self.step is None and not isinstance(self.low, Decimal):
            return 1
        return self.step

    @property
    def size(self) -> int | None:
        """How many grid points there are; None for a continuum."""
        step = self.grid_step
        return None if step is None else int(self.span / step) + 1


Domain = Values | Bounds
