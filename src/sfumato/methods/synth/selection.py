"""Measure each column alone, larger ones with more of the charge."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import chain, combinations
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.synth.consistency import consistent_tables, independent
from sfumato.methods.synth.junction_tree import CELLS, pair_probabilities, scaled_tree, triangulated
from sfumato.methods.synth.workbench import Misfit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sfumato.arrays import FloatArray
    from sfumato.methods.synth.junction_tree import CalibratedTree
    from sfumato.methods.synth.measurement_log import ColumnSet, MeasurementLog, TableShape
    from sfumato.methods.synth.workbench import Workbench


_UNITS = 1 << 30


def measure_columns(bench: Workbench, share: Fraction = Fraction(1)) -> None:
    """Measure all columns by a share of the charge."""
    measure_sets(bench, [(column,) for column in bench.shape.columns], share)


def measure_sets(bench: Workbench, sets: Sequence[ColumnSet], share: Fraction) -> None:
    """Measure sets by a share of the charge, so that the sum of all errors is least.

    The error of a table of c cells by a share s is c / s^(power / 2), the sum of which is least
    for s in proportion to c^(2 / (2 + power)).
    """
    bench.expect(list(sets))
    cells = np.array([float(bench.shape.cells(columns)) for columns in sets])
    for columns, portion in zip(sets, divided(cells ** (2 / (2 + bench.power))), strict=True):
        bench.measure(columns, share * portion)


def divided(weights: np.ndarray) -> list[Fraction]:
    """Shares in proportion to weights, as fractions above 0 that add up to 1."""
    units = np.maximum((weights / weights.sum() * _UNITS).astype(np.int64), 1)
    units[np.argmax(units)] += _UNITS - units.sum()
    return [Fraction(int(count), _UNITS) for count in units]


# Measure given sets of columns: what matters is public, and no choice is paid for.


def select_workload(bench: Workbench, sets: Sequence[ColumnSet]) -> None:
    """Measure every set that is not part of another, and columns that are in none."""
    maximal = [
        columns
        for columns in dict.fromkeys(sets)
        if not any(set(columns) < set(larger) for larger in sets)
    ]
    covered = {column for columns in maximal for column in columns}
    alone = [(column,) for column in bench.shape.columns if column not in covered]
    measure_sets(bench, [*maximal, *alone], bench.charge.remaining)


# Which tables may be chosen, and how much each of them matters: public facts alone.
#
# Decision `synthesis`.

TARGET_WEIGHT = 2
"""How many times as much a table with the target matters."""
MOST_LARGE = 1 << 10
"""So many sets of more than two columns are candidates at most: each is looked at in each round."""


@dataclass(frozen=True)
class Worth:
    """A workload, sets of columns that matter, and perhaps a column that the others are to tell.

    Where no sets are named, all pairs are. A set that is named twice matters twice as much.
    """

    shape: TableShape
    sets: Sequence[ColumnSet] = ()
    target: int | None = None

    @cached_property
    def _workload(self) -> Sequence[ColumnSet]:
        return self.sets or self.shape.pairs()

    @cached_property
    def _naming(self) -> Counter[int]:
        """How many sets of the workload have a column."""
        return Counter(chain.from_iterable(self._workload))

    def weight(self, columns: ColumnSet) -> int:
        """How many columns a table has in common with each set of the workload, all together."""
        shared = sum(self._naming[column] for column in columns)
        return shared * (TARGET_WEIGHT if self.target in columns else 1)

    @cached_property
    def candidates(self) -> list[ColumnSet]:
        """The sets of the workload and all parts of them, small ones first.

        Without those that no model could hold, nor the largest where there are very many.
        """
        candidates: list[ColumnSet] = []
        for size in range(1, max(map(len, self._workload), default=0) + 1):
            wide = (columns for columns in self._workload if len(columns) >= size)
            subsets = {subset for columns in wide for subset in combinations(sorted(columns), size)}
            fitting = sorted(
                columns for columns in subsets if size == 1 or self.shape.cells(columns) <= CELLS
            )
            if (
                size > 2
                and sum(len(columns) > 2 for columns in candidates) + len(fitting) > MOST_LARGE
            ):
                break
            candidates += fitting
        return candidates

    @property
    def pairs(self) -> list[ColumnSet]:
        """The candidates of two columns."""
        return [columns for columns in self.candidates if len(columns) == 2]


# Measure all columns, choose a tree of pairs, and measure its pairs.
#
# Each pair is chosen by the exponential mechanism among those that join two parts of the tree, by
# how far independence is off for them beyond the noise that measuring them would have, and beyond
# what the noise of its columns accounts for. One more candidate stops, when no pair is worth its
# noise; it is as likely as all pairs of no worth together.
#
# *Reference*: McKenna, Miklau & Sheldon 2021.
# Decisions `synthetic-rows` and `synthesis`.

MST_COLUMNS_SHARE = Fraction(1, 2)
MST_CHOICE_SHARE = Fraction(1, 8)
"""Of what is left after the columns."""
NOISE_WORTH = 0.25
"""How much of the noise of a pair it must be worth: sums and signs take much of the noise out."""
COLUMN_NOISE_WORTH = 0.5
"""And how much of the noise of its columns, which alone takes a guess off."""


def select_tree(bench: Workbench, target: int | None = None) -> None:
    """Measure columns and the pairs of a tree, of which those with a target matter more."""
    measure_columns(
        bench, MST_COLUMNS_SHARE if len(bench.shape.columns) > 1 else bench.charge.remaining
    )
    measure_tree(bench, Worth(bench.shape, target=target))


def measure_tree(bench: Workbench, worth: Worth) -> None:
    """Choose and measure the pairs of a tree, once columns are measured, by what is left."""
    if len(bench.shape.columns) < 2:
        return
    choosing = bench.charge.remaining * MST_CHOICE_SHARE
    chosen = choose_tree(bench, choosing, bench.charge.remaining - choosing, worth)
    measure_sets(
        bench, chosen or [(column,) for column in bench.shape.columns], bench.charge.remaining
    )


def choose_tree(
    bench: Workbench, share: Fraction, measuring: Fraction, worth: Worth
) -> list[ColumnSet]:
    """Choose the pairs of a tree by a share of the charge; another share will measure them."""
    columns = bench.shape.columns
    choice_share = share / (len(columns) - 1)
    pair_share = measuring / (len(columns) - 1)
    known, total = consistent_tables(bench.log)
    noise, off = NOISE_WORTH * bench.magnitude(pair_share), column_noise(bench.log)
    # What must be worth more than all rows is not worth a choice.
    pairs = [pair for pair in worth.pairs if noise * bench.shape.cells(pair) < total]
    bench.expect(pairs)
    component = list(columns)
    chosen: list[ColumnSet] = []
    while open_pairs := [pair for pair in pairs if component[pair[0]] != component[pair[1]]]:
        weights = [worth.weight(pair) for pair in open_pairs]
        scoring = Misfit(
            open_pairs,
            [
                np.rint(independent([known[(column,)] for column in pair])).astype(np.int64)
                for pair in open_pairs
            ],
            [round(noise * bench.shape.cells(pair) + off[list(pair)].sum()) for pair in open_pairs],
            weights,
            stop=bench.stopping(len(open_pairs), choice_share, weight=max(weights)),
        )
        index = bench.choose(scoring, choice_share)
        if index == len(open_pairs):
            break
        first, second = open_pairs[index]
        chosen.append((first, second))
        component = [component[first] if root == component[second] else root for root in component]
    return chosen


def column_noise(log: MeasurementLog) -> FloatArray:
    """How many rows noise takes every column off, in the mean: so far guesses are off anyway."""
    estimate = log.estimate([(column,) for column in log.shape.columns])
    deviations = np.sqrt([estimate.variance((column,)) for column in log.shape.columns])
    return np.asarray(COLUMN_NOISE_WORTH * np.sqrt(2 / np.pi) * deviations * log.shape.sizes)


# Adaptive and iterative: measure what the model explains worst, fit, and choose again.
#
# All columns are measured first. In each round a set of columns is chosen by the exponential
# mechanism, by how far the model is off beyond the noise that measuring would have, times how
# much the set matters. Candidates are the sets of a workload (all pairs, unless sets are named)
# and their parts, as far as the model stays within a number of cells which grows with what was
# spent. When the last measurement moved the model by no more than its noise, the rounds have
# become too fine, and the next ones get more of the charge; the last round gets all that is left.
#
# *Reference*: McKenna, Mullins, Sheldon & Miklau 2022.
# Decisions `synthetic-rows` and `synthesis`.

AIM_COLUMNS_SHARE = Fraction(2, 5)
AIM_TREE_CHOICE_SHARE = Fraction(1, 10)
AIM_TREE_SHARE = Fraction(3, 8)
"""Both of what is left after the columns."""
ROUND_CHOICE_SHARE = Fraction(1, 10)
"""Of each round."""
ROUNDS_PER_COLUMN = 4
"""Rounds for every column, before any annealing."""
ROUND_SWEEPS = 8
"""Sweeps of each fit between rounds, which goes on from the one before where it can."""
_WEIGHT_UNITS = 1 << 10


def select_adaptively(
    bench: Workbench, sets: Sequence[ColumnSet] = (), target: int | None = None
) -> None:
    """Measure columns, then a tree of pairs, then what the model explains worst.

    Sets of columns may be named that matter, and then no others are chosen; tables with a target,
    a column that the others are to tell, matter more.
    """
    measure_columns(
        bench, AIM_COLUMNS_SHARE if len(bench.shape.columns) > 1 else bench.charge.remaining
    )
    measure_adaptively(bench, Worth(bench.shape, sets, target))


def measure_adaptively(bench: Workbench, worth: Worth) -> None:
    """Go on once columns are measured, by what is left."""
    if len(bench.shape.columns) < 2:
        return
    measuring = bench.charge.remaining * AIM_TREE_SHARE
    tree = choose_tree(bench, bench.charge.remaining * AIM_TREE_CHOICE_SHARE, measuring, worth)
    if tree:
        measure_sets(bench, tree, measuring)
    measure_rounds(bench, worth)


def measure_rounds(bench: Workbench, worth: Worth) -> None:
    """Go on once columns and a tree are measured, by what is left."""
    rounds = _Rounds(bench, worth)
    while bench.charge.remaining > 0:
        rounds.next()


class _Rounds:
    """The model, fitted again after each measurement, and what a round may spend."""

    def __init__(self, bench: Workbench, worth: Worth) -> None:
        shape = bench.shape
        self._bench, self._worth = bench, worth
        self._tree: CalibratedTree | None = None
        self._candidates = worth.candidates
        bench.expect(self._candidates)
        cells = np.array([float(shape.cells(columns)) for columns in self._candidates])
        # As among tables that are measured together, and 1 for a typical pair.
        weights = cells ** (2 / (2 + bench.power))
        weights /= np.mean([weights[index] for index, columns in enumerate(self._candidates)
                            if len(columns) == 2] or weights)  # fmt: skip
        self._sized = {
            columns: Fraction(round(weight * _WEIGHT_UNITS) + 1, _WEIGHT_UNITS)
            for columns, weight in zip(self._candidates, weights.tolist(), strict=True)
        }
        self._each = bench.charge.remaining / (ROUNDS_PER_COLUMN * len(shape.columns))
        self._refit()

    def next(self) -> None:
        """Choose what is explained worst and measure it; or stop, and measure all sets again."""
        bench, remaining = self._bench, self._bench.charge.remaining
        last = remaining < 2 * self._each
        choosing = (remaining if last else self._each) * ROUND_CHOICE_SHARE
        fitting = self._affordable(CELLS * float(1 - remaining))
        shares = {
            columns: remaining - choosing
            if last
            else min(
                remaining - choosing, self._each * (1 - ROUND_CHOICE_SHARE) * self._sized[columns]
            )
            for columns in fitting
        }
        noises = {
            columns: bench.magnitude(shares[columns]) * bench.shape.cells(columns)
            for columns in fitting
        }
        counts = self._counts(fitting)
        weights = [self._worth.weight(columns) for columns in fitting]
        scoring = Misfit(
            fitting,
            [np.rint(counts[columns]).astype(np.int64) for columns in fitting],
            [
                round(
                    NOISE_WORTH * noises[columns]
                    + (self._off[list(columns)].sum() if len(columns) > 1 else 0)
                )
                for columns in fitting
            ],
            weights,
            stop=bench.stopping(len(fitting), choosing, weight=max(weights)),
        )
        index = bench.choose(scoring, choosing)
        if index == len(fitting):
            measure_sets(bench, sorted(bench.log.measured), bench.charge.remaining)
            return
        chosen = fitting[index]
        bench.measure(chosen, shares[chosen])
        self._refit()
        moved = np.abs(self._counts([chosen])[chosen] - counts[chosen]).sum()
        if moved <= NOISE_WORTH * noises[chosen]:
            # The epsilon of a choice doubles, and so does the precision of a table.
            self._each *= 4 if bench.power == 1 else 2

    def _refit(self) -> None:
        self._tables, self._total = consistent_tables(self._bench.log)
        self._off = column_noise(self._bench.log)
        self._tree = scaled_tree(
            self._bench.shape, self._tables, self._total, sweeps=ROUND_SWEEPS, before=self._tree
        )

    def _counts(self, sets: Iterable[ColumnSet]) -> dict[ColumnSet, FloatArray]:
        """What the model expects in the tables of some sets."""
        assert self._tree is not None
        known = {columns: self._tables[columns] for columns in sets if len(columns) == 1}
        probabilities = pair_probabilities(
            self._tree, [columns for columns in sets if len(columns) == 2]
        )
        model = self._tree.model(self._total)
        probabilities |= {
            columns: model.probabilities(columns) for columns in sets if len(columns) > 2
        }
        return known | {columns: self._total * table for columns, table in probabilities.items()}

    def _affordable(self, most: float) -> list[ColumnSet]:
        """What a model of so many cells can hold beside what was measured."""
        shape = self._bench.shape
        measured = [columns for columns in self._bench.log.measured if len(columns) > 1]
        current_cliques = triangulated(shape, measured)
        return [
            columns
            for columns in self._candidates
            if any(set(columns) <= clique for clique in current_cliques)
            or sum(map(shape.cells, triangulated(shape, [*measured, columns]))) <= most
        ]


# Choose between columns alone, a tree and adaptive rounds, by what a pair would be worth.
#
# Columns are measured first, whatever comes next; they tell the number of rows. Where the noise
# of a typical column's cheapest pair would be a good part of all rows, adaptive rounds have too
# little to go by and a tree is taken; where it would be most of them, columns alone are measured
# again. A tree whose choice never stopped tells that columns hang together, and rounds follow;
# after one that did, columns are measured again. Nothing else is looked at, and nothing more is
# paid.
#
# Decisions `synthetic-rows` and `synthesis`.

AUTO_COLUMNS_SHARE = Fraction(2, 5)
AUTO_CHOICE_SHARE = Fraction(1, 20)
AUTO_TREE_SHARE = Fraction(2, 5)
"""For all pairs of a tree; rounds, or columns, get what pairs leave."""
TREE_FROM = 0.1
"""The noise of a column's cheapest pair, as a share of all rows, from which on a tree is taken."""

COLUMNS_FROM = 0.5
"""And from which on columns alone are measured."""


def select_automatically(bench: Workbench) -> None:
    """Measure columns, then a tree of pairs or what adaptive rounds choose."""
    if len(bench.shape.columns) < 2:
        measure_columns(bench, bench.charge.remaining)
        return
    measure_columns(bench, AUTO_COLUMNS_SHARE)
    share_per_column = bench.charge.remaining / len(bench.shape.columns)
    method = suited_method(
        pair_noise(bench.shape, bench.magnitude(share_per_column), bench.log.total())
    )
    if method == "aim":
        measure_adaptively(bench, Worth(bench.shape))
    elif method == "independent":
        measure_columns(bench, bench.charge.remaining)
    else:
        _measure_some_pairs(bench)


def _measure_some_pairs(bench: Workbench) -> None:
    """Measure the pairs that are worth it, each by the same part; then go by how many there are."""
    worth, most = Worth(bench.shape), len(bench.shape.columns) - 1
    chosen = choose_tree(bench, AUTO_CHOICE_SHARE, AUTO_TREE_SHARE, worth)
    if chosen:
        measure_sets(bench, chosen, AUTO_TREE_SHARE * len(chosen) / most)
    if len(chosen) == most:
        measure_rounds(bench, worth)
    else:
        measure_columns(bench, bench.charge.remaining)


def cheapest_pairs(shape: TableShape) -> list[ColumnSet]:
    """The pair of fewest cells of each column: it is enough to join it to the others."""
    pairs = shape.pairs()
    return [
        min((pair for pair in pairs if column in pair), key=shape.cells) for column in shape.columns
    ]


def pair_noise(shape: TableShape, magnitude: float, rows: float) -> float:
    """The noise of a typical column's cheapest pair, as a share of all rows."""
    return magnitude * median(map(shape.cells, cheapest_pairs(shape))) / rows


def suited_method(noise: float) -> str:
    """The method for a noise of pairs."""
    if noise < TREE_FROM:
        return "aim"
    return "independent" if noise > COLUMNS_FROM else "mst"
