"""Hierarchies by rule: calendars, masked characters, intervals of growing width, all or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import EXACT, check_value, exact
from sfumato.data.schema.hierarchy.base import (
    ROOT,
    Hierarchy,
    Taxonomy,
    quote_label,
    spell,
    split_missing,
)
from sfumato.data.schema.names import count
from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sfumato.data.schema.domain import Scalar
    from sfumato.data.schema.hierarchy.base import Leaf


class Step(StrEnum):
    """A stretch of the calendar above the day, from fine to coarse."""

    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"
    DECADE = "decade"

    def label(self, day: date) -> str:
        """Name the stretch that a day lies in."""
        year = f"{day.year:04}"
        if self is Step.MONTH:
            return f"{year}-{day.month:02}"
        if self is Step.QUARTER:
            return f"{year}-Q{(day.month + 2) // 3}"
        return year if self is Step.YEAR else f"{year[:3]}x"


@dataclass(frozen=True)
class Calendar(Hierarchy):
    """Days united into the chosen stretches of the calendar, all four unless told."""

    steps: tuple[Step, ...] = tuple(Step)

    def __post_init__(self) -> None:
        for step in arguments.require(
            self.steps, "steps", (tuple, list), "a list of calendar steps"
        ):
            arguments.one_of(step, "A calendar step", tuple(Step))
        object.__setattr__(self, "steps", tuple(map(Step, self.steps)))
        if not self.steps or self.steps != tuple(step for step in Step if step in self.steps):
            raise SchemaError(
                "hierarchy_invalid",
                f"Calendar steps [{', '.join(self.steps)}] are not allowed: name at least one of "
                f"{', '.join(Step)}, each once, in this order.",
            )

    @property
    def kinds(self) -> frozenset[Kind]:
        """Calendars are for dates."""
        return frozenset({Kind.DATE})

    def grow(self, leaves: Iterable[Leaf]) -> Taxonomy:
        """Grow over these days, one level for each step."""
        days, missing = split_missing(leaves, date)
        days.sort()
        # No step is finer than a month, so one day stands for all of its month.
        months = [day.replace(day=1) for day in days]
        labels = []
        for step in self.steps:
            names = {month: step.label(month) for month in set(months)}
            labels.append([names[month] for month in months])
        return Taxonomy.build(days, labels, missing=missing)


class Side(StrEnum):
    """Where masking begins."""

    RIGHT = "right"
    LEFT = "left"


@dataclass(frozen=True)
class Mask(Hierarchy):
    """Hide one more character at each level, from the right or from the left.

    Values of uneven length are aligned on the other side, as if filled up to the longest: level j
    hides the last j of its places, so a shorter value keeps all its characters until the mask
    reaches them. With 53715 and 53715-1234 both, level 5 is 53715***** for either.
    """

    side: Side = Side.RIGHT

    def __post_init__(self) -> None:
        arguments.one_of(self.side, "side", tuple(Side))
        object.__setattr__(self, "side", Side(self.side))

    @property
    def kinds(self) -> frozenset[Kind]:
        """Masks hide characters, so they are for text."""
        return frozenset({Kind.TEXT})

    def grow(self, leaves: Iterable[Leaf]) -> Taxonomy:
        """Grow over these leaves, as high as the longest has characters."""
        values, missing = split_missing(leaves, str)
        starred = sum(ROOT in value for value in values)
        if starred:
            raise SchemaError(
                "cell_malformed",
                f"{count(starred, 'value')} of the data cannot be masked: a mask writes {ROOT!r} "
                f"for what it hides, and they hold {ROOT!r} themselves. Replace it in the data, or "
                "declare a hierarchy file.",
            )
        right = self.side is Side.RIGHT
        # Sorted from the side that stays visible, values that share a label lie together.
        texts = sorted(values, key=None if right else lambda text: text[::-1])
        longest = max(map(len, texts), default=0)
        steps = []
        for hidden in range(1, longest):
            shown, stars = longest - hidden, ROOT * hidden
            masked = [text[:shown] + stars if right else stars + text[-shown:] for text in texts]
            # Of an empty text one star is left, which is not the root.
            steps.append([quote_label(label) if label == ROOT else label for label in masked])
        return Taxonomy.build(texts, steps, missing=missing)


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
        listed = arguments.require(
            self.widths, "widths", (tuple, list), "a list such as [5, 10, 20]"
        )
        object.__setattr__(self, "widths", tuple(map(exact, listed)))
        if not self.widths:
            raise SchemaError(
                "hierarchy_invalid", "Widths must name at least one width, such as [5]."
            )
        kinds = {type(width) for width in self.widths}
        if kinds not in ({int}, {Decimal}):
            raise SchemaError(
                "hierarchy_invalid", "Widths must be all whole numbers or all decimal numbers."
            )
        for width in self.widths:
            check_value(width, "Width")
            if width <= (1 if kinds == {int} else 0):
                raise SchemaError(
                    "hierarchy_invalid",
                    f"Width {width} is not allowed: a width is above 1 for integers, above 0 for "
                    "reals.",
                )
        for narrow, wide in pairwise(map(Decimal, self.widths)):
            if wide <= narrow or EXACT.remainder(wide, narrow):
                raise SchemaError(
                    "hierarchy_invalid",
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
            integers, missing = split_missing(leaves, int)
            integers.sort()
            return self._over(integers, [value // least for value in integers], missing)
        reals, missing = split_missing(leaves, Decimal)
        # NaN has no place in an order; it comes after all others.
        unordered = [value for value in reals if value.is_nan()]
        reals = sorted(value for value in reals if not value.is_nan()) + unordered
        indexes = [_floor(value, least) if value.is_finite() else None for value in reals]
        return self._over(reals, indexes, missing)

    def _over(
        self, values: Sequence[Scalar], indexes: Sequence[int | None], missing: bool
    ) -> Taxonomy:
        steps: list[list[str]] = []
        for width in self.widths:
            ratio = int(EXACT.divide(Decimal(width), Decimal(self.widths[0])))
            wider_indexes = [None if index is None else index // ratio for index in indexes]
            names = {
                index: _interval(index, width) for index in set(wider_indexes) if index is not None
            }
            steps.append(
                [
                    spell(value) if index is None else names[index]
                    for value, index in zip(values, wider_indexes, strict=True)
                ]
            )
        return Taxonomy.build(values, steps, missing=missing)


@dataclass(frozen=True)
class Removal(Hierarchy):
    """Keep a value or remove it: nothing lies between it and the root."""

    @property
    def kinds(self) -> frozenset[Kind]:
        """Whatever it is, it can be removed."""
        return frozenset(Kind)

    def grow(self, leaves: Iterable[Leaf]) -> Taxonomy:
        """Grow over these leaves, none of which is like another."""
        originals = list(leaves)
        kinds: list[Any] = [type(leaf) for leaf in originals if leaf is not None]
        values, missing = split_missing(
            originals, Decimal if float in kinds else next(iter(kinds), str)
        )
        # NaN has no place in an order; it comes after all others.
        values.sort(key=lambda value: (value != value, 0 if value != value else value))
        return Taxonomy.build(values, [], missing=missing)


def _floor(value: Decimal, width: Decimal) -> int:
    quotient, remainder = EXACT.divmod(value, width)
    # Decimal division truncates towards zero; an interval below zero begins one lower.
    return int(quotient) - (remainder < 0)


def _interval(index: int, width: int | Decimal) -> str:
    if isinstance(width, Decimal):
        low, high = EXACT.multiply(Decimal(index), width), EXACT.multiply(Decimal(index + 1), width)
        return f"[{spell(low)}, {spell(high)})"
    low_end, high_end = index * width, (index + 1) * width - 1
    return f"{low_end}-{high_end}" if low_end >= 0 else f"{low_end} to {high_end}"
