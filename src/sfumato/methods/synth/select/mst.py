"""Measure all columns, choose a tree of pairs, and measure its pairs.

Each pair is chosen by the exponential mechanism among those that join two parts of the tree, by how
far independence is off for them beyond the noise that measuring them would have, and beyond what
the noise of its columns accounts for. One more candidate stops, when no pair is worth its noise;
it is as likely as all pairs of no worth together.

*Reference*: McKenna, Miklau & Sheldon 2021.
Decisions `synthesis-fit` and `synthesis-selection`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.synth.consistency import consistent_tables, independent
from sfumato.methods.synth.scores import Misfit
from sfumato.methods.synth.select.independent import measure_columns, measure_sets
from sfumato.methods.synth.select.pair_worth import Worth

if TYPE_CHECKING:
    from sfumato.arrays import FloatArray
    from sfumato.methods.synth.log import MeasurementLog
    from sfumato.methods.synth.shape import Set
    from sfumato.methods.synth.workbench import Workbench

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
