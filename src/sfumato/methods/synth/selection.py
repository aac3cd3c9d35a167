"""Measure every column by itself, larger ones with more of the charge."""

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
    from sfumato.methods.synth.measurement_log import MeasurementLog, Set, TableShape
    from sfumato.methods.synth.workbench import Workbench


_UNITS = 1 << 30


def measure_columns(bench: Workbench, share: Fraction = Fraction(1)) -> None:
    """Measure all columns by a share of the charge."""
    measure_sets(bench, [(column,) for column in bench.shape.columns], share)


def measure_sets(bench: Workbench, sets: Sequence[Set], share: Fraction) -> None:
    """Measure sets by a share of the charge, so that the sum of all errors is least.

    The error of a table of c cells by a share s is c / s^(power / 2), the sum of which is least
    for s in proportion to c^(2 / (2 + power)).
    """
    bench.expect(list(sets))
    cells = np.array([float(bench.shape.cells(one)) for one in sets])
    for one, part in zip(sets, divided(cells ** (2 / (2 + bench.power))), strict=True):
        bench.measure(one, share * part)


def divided(weights: np.ndarray) -> list[Fraction]:
    """Shares in proportion to weights, as fractions above 0 that add up to 1."""
    units = np.maximum((weights / weights.sum() * _UNITS).astype(np.int64), 1)
    units[np.argmax(units)] += _UNITS - units.sum()
    return [Fraction(int(one), _UNITS) for one in units]


# Measure given sets of columns: what matters is public, and no choice is paid for.


def select_workload(bench: Workbench, sets: Sequence[Set]) -> None:
    """Measure every set that is not part of another, and columns that are in none."""
    wanted = [one for one in dict.fromkeys(sets) if not any(set(one) < set(two) for two in sets)]
    covered = {column for one in wanted for column in one}
    alone = [(column,) for column in bench.shape.columns if column not in covered]
    measure_sets(bench, [*wanted, *alone], bench.purse.left)


# Which tables may be chosen, and how much each of them matters: public facts alone.
#
# Decision `synthesis-selection`.

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
    sets: Sequence[Set] = ()
    target: int | None = None

    @cached_property
    def _workload(self) -> Sequence[Set]:
        return self.sets or self.shape.pairs()

    @cached_property
    def _naming(self) -> Counter[int]:
        """How many sets of the workload have a column."""
        return Counter(chain.from_iterable(self._workload))

    def weight(self, places: Set) -> int:
        """How many columns a table has in common with each set of the workload, all together."""
        shared = sum(self._naming[place] for place in places)
        return shared * (TARGET_WEIGHT if self.target in places else 1)

    @cached_property
    def candidates(self) -> list[Set]:
        """The sets of the workload and all parts of them, small ones first.

        Without those that no model could hold, nor the largest where there are very many.
        """
        found: list[Set] = []
        for size in range(1, max(map(len, self._workload), default=0) + 1):
            wide = (one for one in self._workload if len(one) >= size)
            parts = {part for one in wide for part in combinations(sorted(one), size)}
            fitting = sorted(one for one in parts if size == 1 or self.shape.cells(one) <= CELLS)
            if size > 2 and sum(len(one) > 2 for one in found) + len(fitting) > MOST_LARGE:
                break
            found += fitting
        return found

    @property
    def pairs(self) -> list[Set]:
        """The candidates of two columns."""
        return [one for one in self.candidates if len(one) == 2]


# Measure all columns, choose a tree of pairs, and measure its pairs.
#
# Each pair is chosen by the exponential mechanism among those that join two parts of the tree, by
# how far independence is off for them beyond the noise that measuring them would have, and beyond
# what the noise of its columns accounts for. One more candidate stops, when no pair is worth its
# noise; it is as likely as all pairs of no worth together.
#
# *Reference*: McKenna, Miklau & Sheldon 2021.
# Decisions `synthesis-fit` and `synthesis-selection`.

MST_COLUMNS_SHARE = Fraction(1, 2)
MST_CHOICE_SHARE = Fraction(1, 8)
"""Of what is left after the columns."""
NOISE_WORTH = 0.25
"""How much of the noise of a pair it must be worth: sums and signs take much of the noise out."""
COLUMN_NOISE_WORTH = 0.5
"""And how much of the noise of its columns, which alone takes a guess off."""


def select_tree(bench: Workbench, target: int | None = None) -> None:
    """Measure columns and the pairs of a tree, of which those with a target matter more."""
    measure_columns(bench, MST_COLUMNS_SHARE if len(bench.shape.columns) > 1 else bench.purse.left)
    measure_tree(bench, Worth(bench.shape, target=target))


def measure_tree(bench: Workbench, worth: Worth) -> None:
    """Choose and measure the pairs of a tree, once columns are measured, by what is left."""
    if len(bench.shape.columns) < 2:
        return
    choosing = bench.purse.left * MST_CHOICE_SHARE
    chosen = choose_tree(bench, choosing, bench.purse.left - choosing, worth)
    measure_sets(bench, chosen or [(one,) for one in bench.shape.columns], bench.purse.left)


def choose_tree(bench: Workbench, share: Fraction, measuring: Fraction, worth: Worth) -> list[Set]:
    """Choose the pairs of a tree by a share of the charge; another share will measure them."""
    columns = bench.shape.columns
    each = share / (len(columns) - 1)
    left = measuring / (len(columns) - 1)
    known, total = consistent_tables(bench.log)
    noise, off = NOISE_WORTH * bench.magnitude(left), columns_off(bench.log)
    # What must be worth more than all rows is not worth a choice.
    pairs = [pair for pair in worth.pairs if noise * bench.shape.cells(pair) < total]
    bench.expect(pairs)
    part = list(columns)
    chosen: list[Set] = []
    while open_pairs := [one for one in pairs if part[one[0]] != part[one[1]]]:
        weights = [worth.weight(one) for one in open_pairs]
        scoring = Misfit(
            open_pairs,
            [
                np.rint(independent([known[(column,)] for column in pair])).astype(np.int64)
                for pair in open_pairs
            ],
            [round(noise * bench.shape.cells(one) + off[list(one)].sum()) for one in open_pairs],
            weights,
            stop=bench.stopping(len(open_pairs), each, weight=max(weights)),
        )
        place = bench.choose(scoring, each)
        if place == len(open_pairs):
            break
        one, two = open_pairs[place]
        chosen.append((one, two))
        part = [part[one] if root == part[two] else root for root in part]
    return chosen


def columns_off(log: MeasurementLog) -> FloatArray:
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
# Decisions `synthesis-fit` and `synthesis-selection`.

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
    bench: Workbench, sets: Sequence[Set] = (), target: int | None = None
) -> None:
    """Measure columns, then a tree of pairs, then what the model explains worst.

    Sets of columns may be named that matter, and then no others are chosen; tables with a target,
    a column that the others are to tell, matter more.
    """
    measure_columns(bench, AIM_COLUMNS_SHARE if len(bench.shape.columns) > 1 else bench.purse.left)
    measure_adaptively(bench, Worth(bench.shape, sets, target))


def measure_adaptively(bench: Workbench, worth: Worth) -> None:
    """Go on once columns are measured, by what is left."""
    if len(bench.shape.columns) < 2:
        return
    measuring = bench.purse.left * AIM_TREE_SHARE
    tree = choose_tree(bench, bench.purse.left * AIM_TREE_CHOICE_SHARE, measuring, worth)
    if tree:
        measure_sets(bench, tree, measuring)
    measure_rounds(bench, worth)


def measure_rounds(bench: Workbench, worth: Worth) -> None:
    """Go on once columns and a tree are measured, by what is left."""
    rounds = _Rounds(bench, worth)
    while bench.purse.left > 0:
        rounds.next()


class _Rounds:
    """The model, fitted again after each measurement, and what a round may spend."""

    def __init__(self, bench: Workbench, worth: Worth) -> None:
        shape = bench.shape
        self._bench, self._worth = bench, worth
        self._tree: CalibratedTree | None = None
        self._candidates = worth.candidates
        bench.expect(self._candidates)
        cells = np.array([float(shape.cells(one)) for one in self._candidates])
        # As among tables that are measured together, and 1 for a typical pair.
        weights = cells ** (2 / (2 + bench.power))
        weights /= np.mean([weights[place] for place, one in enumerate(self._candidates)
                            if len(one) == 2] or weights)  # fmt: skip
        self._sized = {
            one: Fraction(round(weight * _WEIGHT_UNITS) + 1, _WEIGHT_UNITS)
            for one, weight in zip(self._candidates, weights.tolist(), strict=True)
        }
        self._each = bench.purse.left / (ROUNDS_PER_COLUMN * len(shape.columns))
        self._refit()

    def next(self) -> None:
        """Choose what is explained worst and measure it; or stop, and measure all sets again."""
        bench, left = self._bench, self._bench.purse.left
        last = left < 2 * self._each
        choosing = (left if last else self._each) * ROUND_CHOICE_SHARE
        fitting = self._affordable(CELLS * float(1 - left))
        shares = {
            one: left - choosing
            if last
            else min(left - choosing, self._each * (1 - ROUND_CHOICE_SHARE) * self._sized[one])
            for one in fitting
        }
        noises = {one: bench.magnitude(shares[one]) * bench.shape.cells(one) for one in fitting}
        counts = self._counts(fitting)
        weights = [self._worth.weight(one) for one in fitting]
        scoring = Misfit(
            fitting,
            [np.rint(counts[one]).astype(np.int64) for one in fitting],
            [
                round(
                    NOISE_WORTH * noises[one] + (self._off[list(one)].sum() if len(one) > 1 else 0)
                )
                for one in fitting
            ],
            weights,
            stop=bench.stopping(len(fitting), choosing, weight=max(weights)),
        )
        place = bench.choose(scoring, choosing)
        if place == len(fitting):
            measure_sets(bench, sorted(bench.log.measured), bench.purse.left)
            return
        chosen = fitting[place]
        bench.measure(chosen, shares[chosen])
        self._refit()
        moved = np.abs(self._counts([chosen])[chosen] - counts[chosen]).sum()
        if moved <= NOISE_WORTH * noises[chosen]:
            # The epsilon of a choice doubles, and so does the precision of a table.
            self._each *= 4 if bench.power == 1 else 2

    def _refit(self) -> None:
        self._tables, self._total = consistent_tables(self._bench.log)
        self._off = columns_off(self._bench.log)
        self._tree = scaled_tree(
            self._bench.shape, self._tables, self._total, sweeps=ROUND_SWEEPS, before=self._tree
        )

    def _counts(self, sets: Iterable[Set]) -> dict[Set, FloatArray]:
        """What the model expects in the tables of some sets."""
        assert self._tree is not None
        known = {one: self._tables[one] for one in sets if len(one) == 1}
        found = pair_probabilities(self._tree, [one for one in sets if len(one) == 2])
        model = self._tree.model(self._total)
        found |= {one: model.probabilities(one) for one in sets if len(one) > 2}
        return known | {one: self._total * table for one, table in found.items()}

    def _affordable(self, most: float) -> list[Set]:
        """What a model of so many cells can hold beside what was measured."""
        shape = self._bench.shape
        measured = [one for one in self._bench.log.measured if len(one) > 1]
        now = triangulated(shape, measured)
        return [
            one
            for one in self._candidates
            if any(set(one) <= clique for clique in now)
            or sum(map(shape.cells, triangulated(shape, [*measured, one]))) <= most
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
# Decisions `synthesis-fit` and `synthesis-selection`.

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
        measure_columns(bench, bench.purse.left)
        return
    measure_columns(bench, AUTO_COLUMNS_SHARE)
    each = bench.purse.left / len(bench.shape.columns)
    method = suited_method(pair_noise(bench.shape, bench.magnitude(each), bench.log.total()))
    if method == "aim":
        measure_adaptively(bench, Worth(bench.shape))
    elif method == "independent":
        measure_columns(bench, bench.purse.left)
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
        measure_columns(bench, bench.purse.left)


def cheapest_pairs(shape: TableShape) -> list[Set]:
    """The pair of fewest cells of each column: it is enough to join it to the others."""
    pairs = shape.pairs()
    return [
        min((one for one in pairs if column in one), key=shape.cells) for column in shape.columns
    ]


def pair_noise(shape: TableShape, magnitude: float, rows: float) -> float:
    """The noise of a typical column's cheapest pair, as a share of all rows."""
    return magnitude * median(map(shape.cells, cheapest_pairs(shape))) / rows


def suited_method(noise: float) -> str:
    """The method for a noise of pairs."""
    if noise < TREE_FROM:
        return "aim"
    return "independent" if noise > COLUMNS_FROM else "mst"
