"""Drawn rows have the numbers that were expected, rounded."""

from __future__ import annotations

import numpy as np

from sfumato.methods.synth.fitted_model import Conditional, FittedModel
from sfumato.methods.synth.measurement_log import TableShape
from sfumato.methods.synth.row_sampling import chunks, draw
from sfumato.testing.entropy import SeededEntropy

SHAPE = TableShape(("a", "b", "c"), (3, 4, 2))
DRAWS = np.random.default_rng(1)
MODEL = FittedModel(
    SHAPE,
    (
        Conditional(1, (), DRAWS.dirichlet(np.ones(4))),
        Conditional(0, (1,), DRAWS.dirichlet(np.ones(3), 4)),
        Conditional(2, (0, 1), DRAWS.dirichlet(np.ones(2), (3, 4))),
    ),
    1000.0,
)


def test_every_conditional_is_apportioned() -> None:
    a, b, c = draw(MODEL, 997, SeededEntropy(2))
    counts = np.zeros((3, 4, 2))
    np.add.at(counts, (a, b, c), 1)
    root, middle, last = (one.table for one in MODEL.conditionals)
    of_b = counts.sum(axis=(0, 2))
    assert (np.abs(of_b - 997 * root) < 1).all()
    of_ab = counts.sum(axis=2)
    assert (np.abs(of_ab - of_b * middle.T) < 1).all()
    assert (np.abs(counts - of_ab[:, :, None] * last) < 1).all()


def test_rounding_is_right_on_average() -> None:
    """Seven rows, many times; 5.6 standard errors."""
    runs, counts = 1000, np.zeros((1000, 3, 4, 2))
    for run in range(runs):
        np.add.at(counts[run], tuple(draw(MODEL, 7, SeededEntropy(run))), 1)
    expected = 7 * MODEL.probabilities((0, 1, 2))
    # Of what is rare nothing may have been seen.
    spread = np.maximum(counts.std(axis=0), np.sqrt(expected)) / np.sqrt(runs)
    assert (np.abs(counts.mean(axis=0) - expected) <= 5.6 * spread).all()


def test_columns_are_independent_given_their_parents() -> None:
    """Two columns without parents: the pair is near the product, in no order of rows."""
    shape = TableShape(("a", "b"), (2, 2))
    even = np.array([0.5, 0.5])
    model = FittedModel(shape, (Conditional(0, (), even), Conditional(1, (), even)), 4000.0)
    first, second = draw(model, 4000, SeededEntropy(3))
    assert first.sum() == second.sum() == 2000
    assert abs(int((first * second).sum()) - 1000) < 5.6 * 16
    assert 0 < np.flatnonzero(np.diff(first)).size > 1500


def test_many_small_groups_even_out() -> None:
    """One row in each of 1,000 groups: a code of share 0.3 gets about 300 rows, not 300 +- 14."""
    shape = TableShape(("a", "b"), (1000, 2))
    model = FittedModel(
        shape,
        (
            Conditional(0, (), np.full(1000, 0.001)),
            Conditional(1, (0,), np.tile([0.7, 0.3], (1000, 1))),
        ),
        1000.0,
    )
    found = [int(draw(model, 1000, SeededEntropy(seed))[1].sum()) for seed in range(20)]
    assert max(found) - min(found) <= 6
    assert 297 <= np.mean(found) <= 303


def test_chunks_add_up_and_no_rows_are_none() -> None:
    parts = list(chunks(MODEL, 25, SeededEntropy(4), most=10))
    assert [len(part[0]) for part in parts] == [10, 10, 5]
    assert [len(column) for column in draw(MODEL, 0, SeededEntropy(5))] == [0, 0, 0]
    assert all(column.dtype == np.int32 for part in parts for column in part)
