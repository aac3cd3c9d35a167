"""Choose a network, each column with its parents, and measure every column with its parents.

Columns join one after another: among those left, with any one or two of those that joined, one is
chosen by the exponential mechanism for its dependence. Tables whose cells would hold less than a
few times their noise are no candidates: what is useful is told by the noisy number of rows.

*Reference*: Zhang, Cormode, Procopiuc, Srivastava & Xiao 2014 and 2017.
Decision `synthesis`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import log2, sqrt
from typing import TYPE_CHECKING, Literal

import numpy as np

from sfumato.methods.synth.selection import measure_columns, measure_sets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import IntArray
    from sfumato.data.schema.unit import Sensitivity
    from sfumato.methods.synth.measurement_log import ColumnSet
    from sfumato.methods.synth.workbench import ExactTables, Workbench


COLUMNS_SHARE = Fraction(2, 5)
CHOICE_SHARE = Fraction(1, 8)
USEFUL = 2.0
"""How many times its noise a cell must hold, on average."""
MOST_CANDIDATES = 1 << 12
_LOW = 4
"""The number of rows is taken so many deviations below its noisy one: a guess, not a promise."""


def select_network(bench: Workbench, score: Literal["R", "F", "I"] = "R") -> None:
    """Measure columns, choose a network and measure its tables.

    F is a score of columns of two codes, which then come first; R chooses the others.
    """
    measure_columns(bench, COLUMNS_SHARE)
    columns = bench.shape.columns
    if len(columns) < 2:
        return
    rows = bench.log.total()
    deviation = sqrt(1 / sum(1 / table.total_variance for table in bench.log.tables))
    fixed = max(int(rows - _LOW * deviation), 2)
    measuring = (bench.charge.remaining - CHOICE_SHARE) / (len(columns) - 1)
    most = rows / (USEFUL * bench.magnitude(measuring))
    joined: list[int] = []
    chosen: list[ColumnSet] = []
    while len(joined) < len(columns):
        kind, choices = score, _choices(bench, joined, most, binary=score == "F")
        if not choices and score == "F":
            kind, choices = "R", _choices(bench, joined, most)
        if not choices:
            joined.append(next(column for column in columns if column not in joined))
            continue
        bench.expect([tuple(sorted((column, *parents))) for column, parents in choices])
        scoring = Dependence(kind, choices, fixed)
        column, parents = choices[bench.choose(scoring, CHOICE_SHARE / len(columns))]
        joined += [parent for parent in parents if parent not in joined]
        joined.append(column)
        chosen.append(tuple(sorted((column, *parents))))
    measure_sets(bench, chosen or [(column,) for column in columns], bench.charge.remaining)


def _choices(
    bench: Workbench, joined: list[int], most: float, *, binary: bool = False
) -> list[tuple[int, ColumnSet]]:
    """Columns that may join with their parents; the first choice is of two columns at once."""
    shape = bench.shape
    remaining = [column for column in shape.columns if column not in joined]
    if binary:
        remaining = [column for column in remaining if shape.sizes[column] == 2]
    before = joined or list(shape.columns)
    choices: list[tuple[int, ColumnSet]] = []
    for count in (1, 2) if joined else (1,):
        additional = [
            (column, parents)
            for column in remaining
            for parents in combinations(sorted(before), count)
            if column not in parents and shape.cells((*parents, column)) <= most
        ]
        if len(choices) + len(additional) > MOST_CANDIDATES:
            break
        choices += additional
    return choices


# Scores by which sets of columns are chosen: whole numbers, with a proven sensitivity.
#
# How much a column depends on others is a share of all rows, n, which is private, and how far one
# person moves it is known for a given n alone. So a number of rows is fixed in public, by
# declaration or from a noisy count, and a table of fewer rows is filled up to it with rows of the
# first codes. Then the bounds below hold for every table, whatever the fixed number is: adding a
# row to a table that is filled up replaces a row of it, and adding a row to a larger one moves a
# score by no more than at the fixed number.


@dataclass(frozen=True)
class Dependence:
    """How much a column depends on its parents, on a grid of shares: scores R, F and I.

    R is half the L1 distance between the joint probabilities and the product of the column's and
    the parents' own; F, for a column of two codes, is minus the distance to the nearest table in
    which the parents determine the column and both its codes are as frequent; I is the mutual
    information in bits.

    *Sensitivity*: with n rows fixed (see the module), R: 3/n + 2/n^2, F: 1/n, I:
    (2/n) log2((n + 1) / 2) + ((n - 1)/n) log2((n + 1) / (n - 1)) where a row is replaced; where one
    is added to N - 1 >= n, R: 2 (N - 1) / N^2, F: 1/N, I: log2(N)/N + ((N - 1)/N) log2(N/(N - 1)).
    The larger one is taken, per row of a person, and a unit of the grid more for rounding.
    *Reference*: Zhang, Cormode, Procopiuc, Srivastava & Xiao 2014 and 2017.
    """

    kind: Literal["R", "F", "I"]
    choices: Sequence[tuple[int, ColumnSet]]
    """Columns with their parents."""
    rows: int
    """The fixed number of rows, at least 2."""

    @property
    def candidates(self) -> int:
        """How many candidates there are."""
        return len(self.choices)

    @property
    def grid(self) -> int:
        """How many units of score make 1."""
        return _FINENESS * self.rows

    def sensitivity(self, table: Sensitivity) -> Fraction:
        """The most that one person moves a score."""
        # A row is one unit of L1; a replaced one is two, which are a removed and an added one.
        most = Fraction(self.bound(self.rows)) * self.grid + 1
        return table.l1 * most.__ceil__()

    def bound(self, rows: int) -> float:
        """The most that one row moves the share, of a table of at least so many rows."""
        if self.kind == "F":
            return 1 / rows
        if self.kind == "R":
            return 3 / rows + 2 / rows**2
        replaced = (2 / rows) * log2((rows + 1) / 2)
        replaced += (rows - 1) / rows * log2((rows + 1) / (rows - 1))
        rows_after = rows + 1
        added = log2(rows_after) / rows_after + (rows_after - 1) / rows_after * log2(
            rows_after / (rows_after - 1)
        )
        return max(replaced, added) + 2 * _LOGARITHMS

    def scores(self, exact: ExactTables) -> IntArray:
        """The score of every candidate."""
        scores = []
        for column, parents in self.choices:
            columns = tuple(sorted((column, *parents)))
            table = np.moveaxis(exact.of(columns), columns.index(column), -1)
            scores.append(self.score(table.reshape(-1, table.shape[-1])))
        return np.array(scores, dtype=np.int64)

    def score(self, counts: IntArray) -> int:
        """The score of a table of (parents, column), filled up to the fixed number of rows."""
        table = counts.copy()
        table[0, 0] += max(self.rows - int(table.sum()), 0)
        measured = {"R": _distance, "F": _determined, "I": _information}[self.kind]
        return measured(table, self.grid)


_FINENESS = 1 << 10
_LOGARITHMS = 2.0**-28
"""More than rounding can do to a sum of logarithms."""


def _distance(table: IntArray, grid: int) -> int:
    rows = int(table.sum())
    # Products of two counts stay below 2^62, or are Python's integers.
    wide = table if rows < 1 << 31 else table.astype(object)
    product = np.multiply.outer(wide.sum(axis=1), wide.sum(axis=0))
    return grid * int(np.abs(rows * wide - product).sum()) // (2 * rows**2)


def _determined(table: IntArray, grid: int) -> int:
    """Every combination of parents goes to one of two codes: the best way, by its whole sums."""
    rows = int(table.sum())
    # best[a]: the most rows of the second code, where those of the first code are a.
    best = np.full(rows + 1, -1, dtype=np.int64)
    best[0] = 0
    for first, second in table.tolist():
        moved = np.full_like(best, -1)
        moved[first:] = best[: rows + 1 - first]
        best = np.maximum(moved, np.where(best >= 0, best + second, -1))
    reached = np.flatnonzero(best >= 0)
    short = np.maximum(rows - 2 * reached, 0) + np.maximum(rows - 2 * best[reached], 0)
    return -(grid * int(short.min()) // (4 * rows))


def _information(table: IntArray, grid: int) -> int:
    rows = float(table.sum())
    even = np.multiply.outer(table.sum(axis=1) / rows, table.sum(axis=0) / rows)
    positive = table > 0
    shares = table[positive] / rows
    return round(grid * float((shares * np.log2(shares / even[positive])).sum()))
