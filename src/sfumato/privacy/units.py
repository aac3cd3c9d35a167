"""What one person can change in a table: the privacy unit.

All that others read of a unit are its properties; a new unit is one more class here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from sfumato.errors import ParameterError

MOST_ROWS = 2**30
"""The largest bound on a person's rows or groups: weights and shares of them then fit 64 bits."""


class Neighbours(StrEnum):
    """Which two tables count as neighbours."""

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"

    def __repr__(self) -> str:
        # Under its first name, which the digests of stored questions hold.
        return f"<Relation.{self.name}: {self.value!r}>"


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Each row is a person of its own."""

    relation: Neighbours = Neighbours.ADD_REMOVE

    column: ClassVar[None] = None
    max_rows: ClassVar[int] = 1
    max_groups: ClassVar[int] = 1
    groups: ClassVar[int] = 1

    by_person: ClassVar[bool] = False
    """Whether a column says whose a row is, so that one person may have several, or none."""

    def bounded(self, max_rows: int, max_groups: int | None = None) -> Entity:
        """The unit where each of its rows may have become so many."""
        return Entity("row", max_rows, max_groups, self.relation)

    def sentence(self) -> str:
        """Say what the unit hides."""
        return f"Hides whether any one row {_VERB[self.relation]}."

    def facts(self) -> dict[str, object]:
        """What a schema or a vault's configuration says of it; nothing where it says "row"."""
        return _unusual(self.relation)


@dataclass(frozen=True)
class Entity:
    """All rows that share a value of `column` belong to one person.

    At most `max_rows` of them are used, in at most `max_groups` groups of any one question.
    """

    column: str
    max_rows: int
    max_groups: int | None = None
    relation: Neighbours = Neighbours.ADD_REMOVE

    by_person: ClassVar[bool] = True

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

    def bounded(self, max_rows: int, max_groups: int | None = None) -> Entity:
        """The same people with other bounds."""
        return Entity(self.column, max_rows, max_groups, self.relation)

    def sentence(self) -> str:
        """Say what the unit hides."""
        return (
            f"Hides whether any one {self.column!r} {_VERB[self.relation]}, "
            f"counting as at most {self.max_rows} rows in at most {self.groups} groups of each."
        )

    def facts(self) -> dict[str, object]:
        """What a schema or a vault's configuration says of it."""
        groups = {} if self.max_groups is None else {"max_groups": self.max_groups}
        facts = {"column": self.column, "max_rows": self.max_rows, **groups}
        return {**facts, **_unusual(self.relation)}


_VERB = {Neighbours.ADD_REMOVE: "is present", Neighbours.REPLACE_ONE: "is itself or another"}

Unit = Rows | Entity


def _unusual(relation: Neighbours) -> dict[str, object]:
    return {} if relation is Neighbours.ADD_REMOVE else {"relation": str(relation)}
