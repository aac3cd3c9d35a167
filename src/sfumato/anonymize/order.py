"""The order of a sensitive column: what its schema declares, else that of its kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from sfumato.schema.column import Kind
from sfumato.schema.domain import Values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.schema.column import Column
    from sfumato.schema.domain import Scalar
    from sfumato.schema.hierarchy.base import Leaf

_NATURAL = {
    Kind.INTEGER: "numbers by size",
    Kind.REAL: "numbers by size",
    Kind.DATE: "dates by time",
    Kind.BOOLEAN: "false before true",
    Kind.TEXT: "texts by alphabet, nothing being declared",
}


@dataclass(frozen=True)
class Order:
    """An order of values, and how a guarantee names it.

    `places` has the place of each declared value. Values that are not declared come behind those
    that are, in the order in which they are given; a missing value (NULL) is the last of all.
    """

    name: str = "values by size or alphabet"
    places: Mapping[Scalar, int] = field(default_factory=dict)

    def ranks(self, values: Sequence[Leaf | float]) -> NDArray[np.int64]:
        """The rank of each of some different values, given by size or alphabet."""
        behind = len(self.places)
        places = [self._place(value, behind) for value in values]
        ranks = np.empty(len(values), dtype=np.int64)
        ranks[np.argsort(np.array(places, dtype=np.int64), kind="stable")] = np.arange(len(values))
        return ranks

    def _place(self, value: Leaf | float, behind: int) -> int:
        if value is None:
            return behind + 1
        exact = Decimal(repr(value)) if isinstance(value, float) else value
        return self.places.get(exact, behind)


def order_of(column: Column) -> Order:
    """The order of a column: of its listed values, of its tree's leaves, else its kind's own."""
    if isinstance(column.domain, Values):
        return Order("declared order of values", _places(column.domain.values))
    if column.hierarchy is not None and column.hierarchy.listed is not None:
        return Order("order of the hierarchy's leaves", _places(column.hierarchy.listed))
    return Order(_NATURAL[column.kind])


def _places(values: Sequence[Scalar]) -> dict[Scalar, int]:
    return {value: place for place, value in enumerate(values)}
