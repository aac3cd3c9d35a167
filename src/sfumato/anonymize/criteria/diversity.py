"""What all kinds of l-diversity share: l, the column, and at least l different values."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.anonymize.criteria.base import Criterion, whole


@dataclass(frozen=True)
class Diversity(Criterion):
    """A kind of l-diversity of one sensitive column."""

    l: int  # noqa: E741  # the literature's own name
    of: str

    def __post_init__(self) -> None:
        whole(self.l, "l")

    @property
    def column(self) -> str:
        """The column that must be diverse."""
        return self.of

    @property
    def smallest(self) -> int:
        """Different values need as many rows."""
        return self.l
