"""Hierarchies by rule: calendar steps, masked characters, intervals of growing width, removal."""

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
    """A calendar period that is coarser than a day, from fine to coarse."""

    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"
    DECADE = "decade"

    def label(self, day: date) -> str:
        """The label of the period of a day: 2024-05, 2024-Q2, 2024 or 202x."""
        year = f"{day.year:04}"
        if self is Step.MONTH:
            return f"{year}-{day.month:02}"
        if self is Step.QUARTER:
            return f"{year}-Q{(day.month + 2) // 3}"
        return year if self is Step.YEAR else f"{year[:3]}x"


@dataclass(frozen=True)
class Calendar(Hierarchy):
    """Dates become months, quarters, years and decades.

    Parameters
    ----------
    steps : tuple of Step or str
        The periods to use, from fine to coarse; all four unless given.

    Raises
    ------
    SchemaError
        Where there is no step, or steps are not in order.

    Example
    -------
    >>> import sfumato as sf
    >>> sf.Calendar(("month", "year")).steps
    (<Step.MONTH: 'month'>, <Step.YEAR: 'year'>)
    """

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
        """Build the taxonomy of these days, one level for each step."""
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
    """The end of a text at which masking begins."""

    RIGHT = "right"
    LEFT = "left"


@dataclass(frozen=True)
class Mask(Hierarchy):
    """Texts lose one more character at each level, from the right or from the left.

    Values of different length are aligned at the other end, as if filled up to the longest: a
    shorter value keeps its characters until the mask reaches them. With 53715 and 53715-1234, the
    label at level 5 is 53715***** for both.

    Parameters
    ----------
    side : Side or str
        Where masking begins, "right" or "left".

    Example
    -------
    >>> import sfumato as sf
    >>> [labels[0] for labels in sf.Mask().grow(["53715", "53710"]).labels[1:3]]
    ['5371*', '537**']
    """

    side: Side = Side.RIGHT

    def __post_init__(self) -> None:
        arguments.one_of(self.side, "side", tuple(Side))
        object.__setattr__(self, "side", Side(self.side))

    @property
    def kinds(self) -> frozenset[Kind]:
        """Masks are for texts."""
        return frozenset({Kind.TEXT})

    def grow(self, leaves: Iterable[Leaf]) -> Taxonomy:
        """Build the taxonomy of these texts; its height is the length of the longest."""
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
            # An empty text masks to a single star. It is quoted, because it is not the root.
            steps.append([quote_label(label) if label == ROOT else label for label in masked])
        return Taxonomy.build(texts, steps, missing=missing)


@dataclass(frozen=True)
class Widths(Hierarchy):
    """Numbers become intervals of growing width, which begin at multiples of the width.

    Labels of integers are such as 20-24 with both ends included (-5 to -1 below zero), labels of
    reals such as [0.5, 1.0) with the upper end excluded. NaN and the infinities keep their own
    label below the root.

    Parameters
    ----------
    widths : tuple of int or of Decimal
        Growing widths, all integers or all decimals. Each divides the next, so that intervals nest.

    Raises
    ------
    SchemaError
        Where a width is too small or does not divide the next.

    Example
    -------
    >>> import sfumato as sf
    >>> sf.Widths((5, 10)).grow([21, 28]).labels[1:3]
    (('20-24', '25-29'), ('20-29',))
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
        """Integer widths are for integer columns, decimal widths for real columns."""
        return frozenset({Kind.INTEGER if isinstance(self.widths[0], int) else Kind.REAL})

    def grow(self, leaves: Iterable[Leaf]) -> Taxonomy:
        """Build the taxonomy of these numbers, one level for each width."""
        least = self.widths[0]
        # Intervals are computed once, at the smallest width; each wider one joins whole intervals.
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
    """Values are kept or removed: there is no level between a value and the root."""

    @property
    def kinds(self) -> frozenset[Kind]:
        """Removal is for columns of every kind."""
        return frozenset(Kind)

    def grow(self, leaves: Iterable[Leaf]) -> Taxonomy:
        """Build the taxonomy of these leaves: one level of values, then the root."""
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
