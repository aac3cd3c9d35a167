"""The levels of a question: each a set of keys to group by, declared or observed."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from sfumato.errors import QueryError

if TYPE_CHECKING:
    from sfumato.query.plan import Key, Plan

MOST_GROUPS = 1_000_000
"""How many groups of declared keys one question may have, over all levels."""


@dataclass(frozen=True)
class Level:
    """One set of keys: all combinations of declared ones are answered, or those that pass."""

    number: int
    positions: tuple[int, ...]
    keys: tuple[Key, ...]

    @property
    def declared(self) -> bool:
        """Whether every key is declared, so that all combinations are answered."""
        return all(key.axis is not None for key in self.keys)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each declared key has."""
        return tuple(key.axis.size for key in self.keys if key.axis is not None)

    @property
    def groups(self) -> int | None:
        """How many groups are answered; None where the data decide."""
        return prod(self.sizes) if self.declared else None

    @property
    def grouped(self) -> bool:
        """Whether there may be more than one group."""
        return self.groups != 1


def levels(plan: Plan) -> tuple[Level, ...]:
    """The levels of a plan, each once; too many declared groups are refused."""
    sets = dict.fromkeys(tuple(sorted(set(positions))) for positions in plan.levels)
    found = tuple(
        Level(number, positions, tuple(plan.keys[place] for place in positions))
        for number, positions in enumerate(sets)
    )
    groups = sum(level.groups or 0 for level in found)
    if groups > MOST_GROUPS:
        raise QueryError(
            "groups_too_many",
            f"The declared keys make {groups:,} groups, all of which would be answered; at most "
            f"{MOST_GROUPS:,} are allowed. Group by fewer columns, or by coarser ones.",
        )
    return found
