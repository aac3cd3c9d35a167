"""Distances between two tables of counts, their values by chance alone, and range queries.

*Total variation*: half the sum over cells of |share in the original - share in the other|.
*Floor*: its expectation for a table of as many rows drawn from the original, by de Moivre's formula
for the mean deviation of a binomial. *Fabricated*: the share of synthetic rows in cells that are
empty in the original; *lost*: the reverse. *Unseen*: the share of rows of a fresh sample in cells
that are empty in the original, estimated by Good and Turing from the cells of one row.
*Propensity*: the mean squared error of guessing from its cell which table a row is from, in
multiples of its expectation for rows drawn from the original: 1 is best.
*Range queries* count rows in a box of up to three columns. Its ends follow an additive sequence,
which is evenly spread and the same in every run.

*Reference*: Good 1953; Snoke, Raab, Nowok, Dibben and Slavkovic 2018, equation 1; Bergsma 2013.
Decision `large-releases`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, lgamma, log, log1p
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray
    from sfumato.attack.evaluation.coded_counts import Cells, Coding

    Counts = NDArray[np.int64]


@dataclass
class ChanceFloor:
    """The total variation expected of `drawn` rows drawn from a table of `rows`."""

    rows: int
    drawn: int
    _known: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._known = np.full(self.rows + 1, np.nan)
        self._known[[0, self.rows]] = 0.0

    def of(self, counts: Counts) -> float:
        """Return the expected total variation for the counts of the original."""
        needed = np.unique(counts[np.isnan(self._known[counts])])
        self._known[needed] = [self._deviation(count) for count in needed.tolist()]
        return float(self._known[counts].sum()) / (2 * self.drawn)

    def _deviation(self, count: int) -> float:
        """Return the mean of |X - drawn p| for a binomial X, p = count / rows."""
        trials, share = self.drawn, count / self.rows
        # De Moivre: E|X - np| = 2 k (1-p) P(X = k) at k, the first whole number above np.
        above = trials * count // self.rows + 1
        choose = lgamma(trials + 1) - lgamma(above) - lgamma(trials - above + 1)
        return 2 * exp(choose + above * log(share) + (trials - above + 1) * log1p(-share))


class Distance(NamedTuple):
    """The differences between two tables in some columns, all as shares of rows."""

    tvd: float
    floor: float
    fabricated: float
    lost: float
    unseen: float


def distance(counted: Cells, floor: ChanceFloor) -> Distance:
    """Compare the cells of some columns."""
    real, synthetic = counted.original, counted.synthetic
    shares, synthetic_shares = real / floor.rows, synthetic / floor.drawn
    return Distance(
        tvd=float(np.abs(shares - synthetic_shares).sum()) / 2,
        floor=floor.of(real),
        fabricated=float(synthetic_shares[real == 0].sum()),
        lost=float(shares[synthetic == 0].sum()),
        unseen=float((real == 1).sum()) / floor.rows,
    )


def propensity(counted: Cells) -> float:
    """Return the pMSE ratio of Snoke et al. 2018, equation 1, for a saturated model of cells."""
    real, synthetic = counted.original, counted.synthetic
    both, total = real + synthetic, int(real.sum() + synthetic.sum())
    share = int(synthetic.sum()) / total
    squared = float(((synthetic - share * both) ** 2 / both).sum()) / total
    # Snoke et al. 2018, equation 1, with one parameter for each occupied cell.
    expected = (int((real > 0).sum()) - 1) * (1 - share) ** 2 * share / total
    # With one value in the original nothing differs by chance, and the expected error is 0.
    return squared / (expected or share * (1 - share) / total)


def cramers_v(table: Counts) -> float:
    """Return Cramér's V of two columns, from 0 to 1, corrected for chance; 0 for a constant.

    *Reference*: Bergsma 2013.
    """
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    total = int(table.sum())
    up, across = table.shape
    if min(up, across) < 2 or total < 2:
        return 0.0
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / total
    squared = float((table**2 / expected).sum()) / total - 1
    # Bergsma's correction: subtract the value that independent columns have by chance.
    corrected = max(0.0, squared - (up - 1) * (across - 1) / (total - 1))
    sides = [size - (size - 1) ** 2 / (total - 1) for size in (up, across)]
    return float(min(1.0, (corrected / max(min(sides) - 1, 1e-12)) ** 0.5))


def correlation(table: Counts) -> float | None:
    """Return Pearson's correlation of the codes of two ordered columns; None for a constant."""
    total = table.sum()
    up, across = (np.arange(size, dtype=np.float64) for size in table.shape)
    by_row, by_column = table.sum(axis=1), table.sum(axis=0)
    if not total:
        return None
    up -= (up @ by_row) / total
    across -= (across @ by_column) / total
    spread = float((up**2) @ by_row) * float((across**2) @ by_column)
    return float(up @ table @ across) / spread**0.5 if spread > 0 else None


def square(counted: Cells, counts: Counts, sizes: tuple[int, int]) -> Counts:
    """Return the cells of two columns as a two-way table."""
    table = np.zeros(sizes, dtype=np.int64)
    table[counted.codes] = counts
    return table


_STEPS = np.array([2, 3, 5, 7, 11, 13]) ** 0.5 % 1
"""The fractions of square roots of primes: their multiples fill the cube of six ends evenly."""


@dataclass(frozen=True)
class Range:
    """A box in words, and the share of rows of each table in it."""

    words: str
    original: float
    synthetic: float

    @property
    def error(self) -> float:
        """The difference of both answers, as a share of all rows."""
        return abs(self.original - self.synthetic)


def ask(number: int, counted: Cells, codings: Sequence[Coding]) -> Range | None:
    """Ask the range query of this number about some columns; None if a column has no value."""
    if not all(coding.labels for coding in codings):
        return None
    box_ends = ((number + 1) * _STEPS % 1).reshape(-1, 2)[: len(codings)]
    inside = np.ones(len(counted.original), dtype=bool)
    texts = []
    for coding, codes, ends in zip(codings, counted.codes, np.sort(box_ends, axis=1), strict=True):
        low, high = (ends * len(coding.labels)).astype(np.int64).tolist()
        inside &= (codes >= low) & (codes <= high)
        first, last = coding.labels[low], coding.labels[high]
        texts.append(f"{coding.name} {first}" if low == high else f"{coding.name} {first} … {last}")
    shares = [
        float(counts[inside].sum() / counts.sum())
        for counts in (counted.original, counted.synthetic)
    ]
    return Range(", ".join(texts), *shares)
