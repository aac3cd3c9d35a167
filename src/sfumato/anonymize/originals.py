"""Who and what is in the original: its people, and its sensitive values in their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.anonymize.classes import Original
from sfumato.errors import SourceError
from sfumato.schema.names import quoted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.anonymize.classes import Counts
    from sfumato.anonymize.order import Order
    from sfumato.frequencies import Frequencies
    from sfumato.schema.hierarchy.base import Taxonomy


@dataclass(frozen=True, eq=False)
class People:
    """The people of a table: the column that names them, and how many rows each has."""

    column: str
    rows: Counts

    @classmethod
    def of(cls, table: Frequencies, column: str) -> People:
        """Find the people of counted rows; rows that belong to nobody are refused."""
        marginal = table.marginal([column])
        nobody = marginal.axes[0].decode(marginal.codes[0]).is_null().to_numpy(zero_copy_only=False)
        if nobody.any():
            raise SourceError(
                "person_missing",
                f"Column {quoted(column)} says whose row it is, but "
                f"{int(marginal.counts[nobody].sum()):,} rows have nothing there. Mend the data, "
                'or declare unit = "row".',
            )
        return cls(column, marginal.counts)

    @property
    def count(self) -> int:
        """How many people there are."""
        return len(self.rows)

    def most_rows(self, people: int) -> int:
        """How many rows so many people can have at most."""
        return int(np.sort(self.rows)[::-1][:people].sum())


@dataclass(frozen=True, eq=False)
class Ranked:
    """A sensitive column of the original, and its values that occur, in their order."""

    original: Original
    values: list[Any]
    codes: NDArray[np.integer]

    @classmethod
    def of(
        cls,
        table: Frequencies,
        name: str,
        order: Order,
        taxonomy: Taxonomy | None = None,
        *,
        person: str | None = None,
    ) -> Ranked:
        """Count a column; where a person is named, each person once for each value."""
        marginal = table.marginal([name]) if person is None else table.people([name], person)
        occurs = np.flatnonzero(marginal.counts)
        values = marginal.axes[0].decode(marginal.codes[0][occurs]).to_pylist()
        by_rank = np.argsort(order.ranks(values))
        values, occurs = [values[place] for place in by_rank.tolist()], occurs[by_rank]
        leaves = None if taxonomy is None else taxonomy.locate(values)
        original = Original(name, marginal.counts[occurs], taxonomy, leaves, order.name)
        return cls(original, values, marginal.codes[0][occurs])

    def ranks(self, codes: NDArray[np.integer]) -> NDArray[np.int64]:
        """The rank of each code of the counted table."""
        by_code = np.zeros(int(self.codes.max()) + 1, dtype=np.int64)
        by_code[self.codes] = np.arange(len(self.codes))
        # A code that does not occur has no rows either, so its rank is never looked at.
        ranks: NDArray[np.int64] = by_code[np.minimum(codes, len(by_code) - 1)]
        return ranks
