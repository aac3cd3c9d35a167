"""deFinetti: groups hide which person has which value, but other columns reveal it.

*Attacker*: has only an anatomy: rows with quasi-identifiers and a group, and the sensitive values
of each group. A value and a trait that occur together in groups more often than by chance belong
together, and the attacker uses that inside every group.
*Success*: the share of rows whose value is guessed rightly. Naive Bayes learns how common a trait
is among people with a value, by expectation maximization: the values of a group are divided
among its rows by these likelihoods, so that each row gets one value in total and each value has its
number of rows (rows and columns are scaled in turn); then traits are counted again.
*Baseline*: guessing the commonest value of the group, which l-diversity keeps at 1/l.
*Victims*: none for certain. Guesses are compared with the original; rows that are equal in it share
the chance.
*Reference*: Kifer, Attacks on privacy and deFinetti's theorem, 2009; Sinkhorn 1967 for the scaling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.buckets import COUNT, GROUP
from sfumato.attack.case import cannot_run, needed, needed_quasi, needed_sensitive
from sfumato.attack.classes import boxes_of
from sfumato.attack.finding import Finding, Rate, of_columns
from sfumato.data.counting.grouping import keys, ragged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.attack.case import Case, HeldTable
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.schema.column import Column


NAME = "definetti"
# Fixed numbers of rounds, without a test of convergence: the work is the same for every table.
_ROUNDS = 25
_SCALINGS = 8


def run(case: Case) -> Finding:
    """Learn across buckets, and guess inside them."""
    if case.release.buckets is None:
        raise cannot_run(
            NAME,
            "the release is not an anatomy, so it does not separate values from rows. Name the "
            "folder that anatomy wrote.",
        )
    original = needed(case.original, NAME, "the original, to score the guesses", "original")
    quasi = needed_quasi(case, NAME, original)
    columns = [column for column in needed_sensitive(case, NAME) if column.name in original.names]
    if not columns:
        raise cannot_run(NAME, "the original has no sensitive column of the release.")
    return of_columns(
        {column.name: _attack_column(case, original, quasi, column) for column in columns}
    )


def _attack_column(
    case: Case, original: HeldTable, quasi: Sequence[Column], column: Column
) -> Finding:
    assert case.release.buckets is not None
    names = [column.name for column in quasi]
    rows = case.release.table.counted([*names, GROUP])
    cells = case.release.buckets.counted([GROUP, column.name], weight=COUNT)
    shares = ValueShares.of(rows, cells, names, column.name)
    believed = shares.learn()
    score = _chances(shares, rows, quasi, original, column.name)
    success = float((shares.best(believed) * score).sum())
    baseline = float((shares.best(shares.counts.astype(np.float64)) * score).sum())
    return Finding(
        attack=NAME,
        attacker="has only the release, and learns across groups which traits and values co-occur",
        meaning=f"Rows whose {column.name} is guessed right",
        success=Rate.share(success, rows.total),
        baseline=Rate.share(baseline, rows.total),
        remarks=[f"Learnt from {', '.join(names)}."],
        rows=rows.total,
        reference="Kifer 2009",
    )


@dataclass(frozen=True, eq=False)
class ValueShares:
    """Every row paired with every value of its group; EM divides the values among these pairs.

    `row`, `value` and `group` identify each pair. `counts` is the number of rows of the group that
    have the value, and `weights` the number of rows that look alike.
    """

    row: IntArray
    value: IntArray
    group: IntArray
    cell: IntArray
    counts: IntArray
    weights: IntArray
    traits: tuple[IntArray, ...]
    values: list[object]

    @classmethod
    def of(
        cls, rows: Frequencies, cells: Frequencies, names: Sequence[str], sensitive: str
    ) -> ValueShares:
        """Pair the rows of two tables by their group."""
        groups = rows.axis(GROUP).decode(rows.codes[rows.columns.index(GROUP)]).to_numpy()
        cell_groups = cells.axis(GROUP).decode(cells.codes[0]).to_numpy()
        order = np.argsort(cell_groups, kind="stable")
        first = np.searchsorted(cell_groups[order], groups, side="left")
        group_sizes = np.searchsorted(cell_groups[order], groups, side="right") - first
        row = np.repeat(np.arange(len(rows)), group_sizes)
        cell = order[ragged(first, group_sizes)]
        present, number = np.unique(cells.codes[1], return_inverse=True)
        traits = tuple(rows.codes[rows.columns.index(name)].astype(np.int64) for name in names)
        values = cells.axis(sensitive).decode(present).to_pylist()
        counts = cells.counts[cell]
        return cls(row, number[cell], groups[row], cell, counts, rows.counts, traits, values)

    def learn(self) -> FloatArray:
        """Return the believed share of each value of its group in each row."""
        weight = self.weights[self.row]
        size = np.bincount(self.row, self.counts)[self.row]
        shared = self.counts / size
        for _ in range(_ROUNDS):
            shared = self._scale(self._likelihood(shared * weight))
        return shared

    def _likelihood(self, people: FloatArray) -> FloatArray:
        """Return the likelihood of the traits of a row given each value, by naive Bayes."""
        width = len(self.values)
        having = np.bincount(self.value, people, width)
        logs = np.zeros(len(self.row))
        for codes in self.traits:
            mine = codes[self.row]
            options = int(codes.max(initial=0)) + 1
            table = np.bincount(mine * width + self.value, people, options * width)
            # Laplace smoothing: an unseen pair of trait and value is unlikely, not impossible.
            smooth = (table.reshape(options, width) + 1.0) / (having + options)
            logs += np.log(smooth)[mine, self.value]
        highest = np.full(len(self.weights), -np.inf)
        np.maximum.at(highest, self.row, logs)
        likely: FloatArray = np.exp(logs - highest[self.row])
        return likely

    def _scale(self, shared: FloatArray) -> FloatArray:
        """Scale shares: each row sums to one value, each value to its number of rows."""
        weight = self.weights[self.row]
        # Sinkhorn scaling: rows and columns in turn; a few rounds are enough inside small groups.
        for _ in range(_SCALINGS):
            dealt = np.bincount(self.cell, shared * weight)
            shared = shared * (self.counts / np.maximum(dealt[self.cell], 1e-300))
            total = np.bincount(self.row, shared)
            shared = shared / np.maximum(total[self.row], 1e-300)
        return shared

    def best(self, belief: FloatArray) -> FloatArray:
        """Return how many rows guess each pair: the likeliest value of a row; ties share it."""
        highest = np.full(len(self.weights), -np.inf)
        np.maximum.at(highest, self.row, belief)
        # Beliefs that differ by rounding alone are ties.
        chosen = (belief >= highest[self.row] * (1 - 1e-12)).astype(np.float64)
        ties = np.bincount(self.row, chosen)
        guess: FloatArray = chosen / ties[self.row] * self.weights[self.row]
        return guess


def _chances(
    shares: ValueShares,
    rows: Frequencies,
    quasi: Sequence[Column],
    original: HeldTable,
    sensitive: str,
) -> FloatArray:
    """Return the chance that a row has each value of its group, from equal rows of the original."""
    real = original.counted([*(column.name for column in quasi), sensitive])
    axis = real.columns.index(sensitive)
    present, number = np.unique(real.codes[axis], return_inverse=True)
    known = {value: code for code, value in enumerate(shares.values)}
    truth = real.axis(sensitive).decode(present).to_pylist()
    code = np.array([known.get(value, -1) for value in truth])[number]
    released = boxes_of(rows, quasi, [real])
    leaves = [
        np.concatenate([column.covers.low[column.labels], np.maximum(located, 0)])
        for column, located in zip(released.columns, released.locate(real), strict=True)
    ]
    widths = [len(column.taxonomy.leaves) for column in released.columns]
    both = np.unique(keys(leaves, widths)[0], return_inverse=True)[1]
    width = len(shares.values)
    inside = code >= 0
    key = both[len(rows) :][inside] * width + code[inside]
    order = np.argsort(key, kind="stable")
    sought = both[: len(rows)][shares.row] * width + shares.value
    positions = np.searchsorted(key[order], sought).clip(max=max(len(order) - 1, 0))
    matches = key[order][positions] == sought
    counts = np.where(matches, real.counts[inside][order][positions], 0)
    totals = np.bincount(shares.value, shares.counts, width)
    # Rows of the original that look alike may be in several groups: a value is spread over the
    # groups that have it, in proportion to their rows with it.
    weight = counts * shares.counts / totals[shares.value]
    total = np.bincount(shares.row, weight)
    chance: FloatArray = weight / np.maximum(total[shares.row], 1e-300)
    return chance
