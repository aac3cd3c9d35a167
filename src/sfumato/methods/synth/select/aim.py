"""Adaptive and iterative: measure what the model explains worst, fit, and choose again.

All columns are measured first. In each round a set of columns is chosen by the exponential
mechanism, by how far the model is off beyond the noise that measuring would have, times how much
the set matters. Candidates are the sets of a workload (all pairs, unless sets are named) and their
parts, as far as the model stays within a number of cells which grows with what was spent.
When the last measurement moved the model by no more than its noise, the rounds have become too
fine, and the next ones get more of the charge; the last round gets all that is left.

*Reference*: McKenna, Mullins, Sheldon & Miklau 2022.
Decisions `synthesis-fit` and `synthesis-selection`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.synth.consistency import consistent_tables
from sfumato.methods.synth.fit.cliques import triangulated
from sfumato.methods.synth.fit.junction import CELLS, scaled_tree
from sfumato.methods.synth.fit.pairs import pair_probabilities
from sfumato.methods.synth.scores import Misfit
from sfumato.methods.synth.select.independent import measure_columns, measure_sets
from sfumato.methods.synth.select.mst import NOISE_WORTH, choose_tree, columns_off
from sfumato.methods.synth.select.pair_worth import Worth

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sfumato.arrays import FloatArray
    from sfumato.methods.synth.fit.junction import CalibratedTree
    from sfumato.methods.synth.shape import Set
    from sfumato.methods.synth.workbench import Workbench


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
                round(NOISE_WORTH * noises[one] + (self._off[list(one)].sum() if len(one) > 1 else 0))
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
