"""Who is unique: the share of rows that stand alone, for every set of quasi-identifiers.

Every set is rolled up from the frequencies of a larger one; the table is never read again.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb, prod
from typing import TYPE_CHECKING

from sfumato.grouping import sums

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from sfumato.frequencies import Frequencies

SMALL = 5
"""A group with fewer rows than this counts as small."""

LARGEST = 4
"""Sets of up to this many quasi-identifiers are examined, and the full set."""

_KEPT_GROUPS = 1 << 23  # tables kept for rolling up further, in all: about 200 MB


@dataclass(frozen=True)
class SetRisk:
    """How well one set of columns tells people apart."""

    columns: tuple[str, ...]
    rows: int
    groups: int
    unique_rows: int
    small_rows: int

    @property
    def unique_share(self) -> float:
        """The share of rows that no other row equals."""
        return self.unique_rows / self.rows if self.rows else 0.0

    @property
    def small_share(self) -> float:
        """The share of rows in groups of fewer than `SMALL`."""
        return self.small_rows / self.rows if self.rows else 0.0


def set_risk(columns: tuple[str, ...], counts: NDArray[np.int64]) -> SetRisk:
    """Measure one set of columns from the sizes of its groups."""
    return SetRisk(
        columns=columns,
        rows=int(counts.sum()),
        groups=len(counts),
        unique_rows=int((counts == 1).sum()),
        small_rows=int(counts[counts < SMALL].sum()),
    )


def uniqueness(
    frequencies: Frequencies,
    *,
    largest: int = LARGEST,
    progress: Callable[[int, int], None] | None = None,
) -> list[SetRisk]:
    """Measure every set of up to `largest` columns and the full set, most telling first."""
    width = len(frequencies.columns)
    expected = sum(comb(width, size) for size in range(1, min(largest, width) + 1))
    found = {frequencies.columns: set_risk(frequencies.columns, frequencies.counts)}
    for done, risk in enumerate(_roll_up(frequencies, min(largest, width)), start=1):
        found[risk.columns] = risk
        if progress is not None:
            progress(done, expected)
    return sorted(found.values(), key=lambda r: (-r.unique_rows, -r.small_rows, len(r.columns)))


def _roll_up(frequencies: Frequencies, largest: int) -> Iterator[SetRisk]:
    """From larger sets to smaller ones, each from the smallest kept table that contains it."""
    above: dict[frozenset[str], Frequencies] = {}
    for size in range(largest, 0, -1):
        kept: dict[frozenset[str], Frequencies] = {}
        for columns in combinations(frequencies.columns, size):
            parents = [table for names, table in above.items() if names.issuperset(columns)]
            parent = min(parents, key=len, default=frequencies)
            sizes = [parent.axis(column).size for column in columns]
            if prod(sizes) + sum(map(len, kept.values())) <= _KEPT_GROUPS:
                table = parent.marginal(columns)
                kept[frozenset(columns)] = table
                yield set_risk(columns, table.counts)
            else:
                codes = [parent.codes[parent.columns.index(column)] for column in columns]
                yield set_risk(columns, sums(codes, sizes, parent.counts))
        above = kept
