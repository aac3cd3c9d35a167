"""Calendar steps: 1976-01-21 > 1976-01 > 1976-Q1 > 1976 > 197x > *."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import TYPE_CHECKING

from sfumato.errors import SchemaError
from sfumato.schema.column import Kind
from sfumato.schema.hierarchy.base import Hierarchy, Taxonomy, part

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.schema.hierarchy.base import Leaf


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
        if not self.steps or self.steps != tuple(step for step in Step if step in self.steps):
            raise SchemaError(
                "calendar_order",
                f"Calendar steps [{', '.join(self.steps)}] are not allowed: name at least one of "
                f"{', '.join(Step)}, each once, in this order.",
            )

    @property
    def kinds(self) -> frozenset[Kind]:
        """Calendars are for dates."""
        return frozenset({Kind.DATE})

    def grow(self, leaves: Iterable[Leaf]) -> Taxonomy:
        """Grow over these days, one level for each step."""
        days, missing = part(leaves, date)
        days.sort()
        # No step is finer than a month, so one day stands for all of its month.
        months = [day.replace(day=1) for day in days]
        labels = []
        for step in self.steps:
            names = {month: step.label(month) for month in set(months)}
            labels.append([names[month] for month in months])
        return Taxonomy.build(days, labels, missing=missing)
