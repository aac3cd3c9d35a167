"""Interval widths: 23 > 20-24 > 20-29 > 20-39 > *."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING

from sfumato.errors import SchemaError
from sfumato.schema.column import Kind
from sfumato.schema.domain import EXACT, check_value
from sfumato.schema.hierarchy.base import Hierarchy, Taxonomy, part, spell

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sfumato.schema.domain import Scalar
    from sfumato.schema.hierarchy.base import Leaf


@dataclass(frozen=True)
class Widths(Hierarchy):
    """Intervals of growing width that begin at the multiples of the width.

    Integers wear labels such as 20-24 with both ends included (-5 to -1 below zero), reals wear
    [0.5, 1.0) with the upper end excluded. NaN and the infinities keep their own label below the
    root. Widths are all integers or all decimals, and each divides the next, so that intervals
    nest.
    """

    widths: tuple[int, ...] | tuple[Decimal, ...]

    def __post_init__(self) -> None:
        if not self.widths:
            raise SchemaError("widths_empty", "Widths must name at least one width, such as [5].")
        kinds = {type(width) for width in self.widths}
        if kinds not in ({int}, {Decimal}):
            raise SchemaError(
                "widths_not_numbers", "Widths must be all whole numbers or all decimal numbers."
            )
        for width in self.widths:
            check_value(width, "Width")
            if width <= (1 if kinds == {int} else 0):
                raise SchemaError(
                    "width_too_small",
                    f"Width {width} is not allowed: a width is above 1 for integers, above 0 for "
                    "reals.",
                )
        exact = [Decimal(width) for width in self.widths]
        for narrow, wide in pairwise(exact):
            if wide <= narrow or EXACT.remainder(wide, narrow):
                raise SchemaError(
                    "widths_not_nested",
                    f"Width {narrow} does not divide {wide}; each width must divide the next, "
                    "as in [5, 10, 20].",
                )

    @property
    def kinds(self) -> frozenset[Kind]:
        """Whole widths are for integers, decimal widths for reals."""
        return frozenset({Kind.INTEGER if isinstance(self.widths[0], int) else Kind.REAL})

    def grow(self, leaves: Iterable[Leaf]) -> Taxonomy:
        """Grow over these leaves, one level for each width."""
        least = self.widths[0]
        # Intervals are found once, at the least width; wider ones unite whole intervals.
        if isinstance(least, int):
            whole, missing = part(leaves, int)
            whole.sort()
            return self._over(whole, [value // least for value in whole], missing)
        reals, missing = part(leaves, Decimal)
        # NaN has no place in an order; it comes after all others.
        unordered = [value for value in reals if value.is_nan()]
        reals = sorted(value for value in reals if not value.is_nan()) + unordered
        places = [_floor(value, least) if value.is_finite() else None for value in reals]
        return self._over(reals, places, missing)

    def _over(
        self, values: Sequence[Scalar], places: Sequence[int | None], missing: bool
    ) -> Taxonomy:
        steps: list[list[str]] = []
        for width in self.widths:
            ratio = int(EXACT.divide(Decimal(width), Decimal(self.widths[0])))
            wider = [None if place is None else place // ratio for place in places]
            names = {place: _interval(place, width) for place in set(wider) if place is not None}
            steps.append(
                [
                    spell(value) if place is None else names[place]
                    for value, place in zip(values, wider, strict=True)
                ]
            )
        return Taxonomy.build(values, steps, missing=missing)


def _floor(value: Decimal, width: Decimal) -> int:
    quotient, rest = EXACT.divmod(value, width)
    # Decimal division truncates towards zero; an interval below zero begins one lower.
    return int(quotient) - (rest < 0)


def _interval(index: int, width: int | Decimal) -> str:
    if isinstance(width, Decimal):
        low, high = EXACT.multiply(Decimal(index), width), EXACT.multiply(Decimal(index + 1), width)
        return f"[{spell(low)}, {spell(high)})"
    low_end, high_end = index * width, (index + 1) * width - 1
    return f"{low_end}-{high_end}" if low_end >= 0 else f"{low_end} to {high_end}"
