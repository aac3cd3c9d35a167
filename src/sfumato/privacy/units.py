"""What one person can change in a table: the privacy unit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sfumato.errors import ParameterError

MOST_ROWS = 2**30
"""The largest bound on a person's rows or groups: weights and shares of them then fit 64 bits."""


class Neighbours(StrEnum):
    """Which two tables count as neighbours."""

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Each row is a person of its own."""

    relation: Neighbours = Neighbours.ADD_REMOVE

    def sentence(self) -> str:
        """Say what the unit hides."""
        return f"Hides whether any one row {_VERB[self.relation]}."


@dataclass(frozen=True)
class Entity:
    """All rows that share a value of `column` belong to one person.

    At most `max_rows` of them are used, in at most `max_groups` groups of any one question.
    """

    column: str
    max_rows: int
    max_groups: int | None = None
    relation: Neighbours = Neighbours.ADD_REMOVE

    def __post_init__(self) -> None:
        bounds: dict[str, object] = {"max_rows": self.max_rows, "max_groups": self.groups}
        for name, value in bounds.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ParameterError(
                    "bound_not_positive",
                    f"{name} of the privacy unit must be a whole number of at least 1, "
                    f"not {value!r}.",
                )
            if value > MOST_ROWS:
                raise ParameterError(
                    "bound_too_large",
                    f"{name} of the privacy unit is {value:,}; at most {MOST_ROWS:,} is allowed. "
                    "Noise grows with it: declare what people really have.",
                )

    @property
    def groups(self) -> int:
        """The groups one person can reach; a person never reaches more groups than rows."""
        return self.max_rows if self.max_groups is None else self.max_groups

    def sentence(self) -> str:
        """Say what the unit hides."""
        return (
            f"Hides whether any one {self.column!r} {_VERB[self.relation]}, "
            f"counting as at most {self.max_rows} rows in at most {self.groups} groups of each."
        )


_VERB = {Neighbours.ADD_REMOVE: "is present", Neighbours.REPLACE_ONE: "is itself or another"}

Unit = Rows | Entity
