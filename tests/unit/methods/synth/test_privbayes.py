"""Scores move by no more than they say: every pair of neighbouring small tables is tried."""

from __future__ import annotations

from itertools import combinations_with_replacement, product
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest
from tests.fixtures.synthesis import table_of

from sfumato.data.schema.unit import Entity, Neighbours, Rows, count_sensitivity
from sfumato.methods.synth.measurement_log import TableShape
from sfumato.methods.synth.privbayes import Dependence
from sfumato.methods.synth.selection import Worth
from sfumato.methods.synth.workbench import ExactTables, Misfit

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

Kind = Literal["R", "F", "I"]


def tables(shape: tuple[int, int], rows: int) -> list[NDArray[np.int64]]:
    """Every table of so many rows."""
    cells = shape[0] * shape[1]
    return [
        np.bincount(filled, minlength=cells).reshape(shape).astype(np.int64)
        for filled in combinations_with_replacement(range(cells), rows)
    ]


def largest_move(scoring: Dependence, shape: tuple[int, int], most: int) -> int:
    """The largest change of the score by one row, over all tables below so many rows."""
    move = 0
    for rows in range(most):
        for table in tables(shape, rows):
            before = scoring.score(table)
            for cell in product(*map(range, shape)):
                more = table.copy()
                more[cell] += 1
                move = max(move, abs(scoring.score(more) - before))
    return move


def claimed(scoring: Dependence) -> Fraction:
    return scoring.sensitivity(count_sensitivity(Rows(), grouped=True))


CASES: list[tuple[Kind, tuple[int, int], int]] = [
    *(("R", (2, 2), fixed) for fixed in (4, 7, 10)),
    ("R", (3, 2), 4),
    *(("I", (2, 2), fixed) for fixed in (4, 7, 10)),
    ("I", (3, 3), 4),
    *(("F", (2, 2), fixed) for fixed in (4, 7, 10)),
    ("F", (3, 2), 4),
]


@pytest.mark.parametrize(("kind", "shape", "fixed"), CASES)
def test_no_row_moves_a_dependence_by_more_than_is_claimed(
    kind: Kind, shape: tuple[int, int], fixed: int
) -> None:
    """Of tables below, at and above the fixed number of rows, which the rest are filled up to."""
    scoring = Dependence(kind, [(1, (0,))], fixed)
    move = largest_move(scoring, shape, fixed + 2)
    assert move <= claimed(scoring)
    # The claim is of use: nothing like twice as large as it must be.
    assert move >= claimed(scoring) / 3


def test_a_number_of_rows_that_is_only_assumed_is_not_enough() -> None:
    """Without filling up, a table of fewer rows moves by far more."""
    scoring = Dependence("R", [(1, (0,))], 10)
    small = Dependence("R", [(1, (0,))], 1)
    before, after = np.array([[1, 0], [0, 0]]), np.array([[1, 0], [0, 1]])
    unfilled = abs(small.score(before) - small.score(after)) / small.grid
    assert unfilled > claimed(scoring) / scoring.grid
    filled = abs(scoring.score(before) - scoring.score(after))
    assert filled <= claimed(scoring)


def test_scores_know_dependence_from_none() -> None:
    tied, apart = np.array([[50, 0], [0, 50]]), np.full((2, 2), 25)
    for kind, best in (("R", 0.5), ("I", 1.0), ("F", 0.0)):
        scoring = Dependence(kind, [(1, (0,))], 100)  # type: ignore[arg-type]
        assert scoring.score(tied) / scoring.grid == pytest.approx(best, abs=1e-6)
    assert Dependence("R", [(1, (0,))], 100).score(apart) == 0
    assert Dependence("I", [(1, (0,))], 100).score(apart) == 0
    assert Dependence("F", [(1, (0,))], 100).score(apart) < 0


def test_the_best_split_of_parents_is_found() -> None:
    """F by dynamic programming is F by trying every way to send parents to codes."""
    draws = np.random.default_rng(3)
    for _ in range(20):
        table = draws.integers(0, 6, (4, 2))
        rows = int(table.sum())
        shortest = min(
            max(rows - 2 * sum(table[p, 0] for p in range(4) if way[p] == 0), 0)
            + max(rows - 2 * sum(table[p, 1] for p in range(4) if way[p] == 1), 0)
            for way in product((0, 1), repeat=4)
        )
        scoring = Dependence("F", [(1, (0,))], 2)
        assert scoring.score(table) == -(scoring.grid * int(shortest) // (4 * rows))


def test_large_counts_do_not_wrap() -> None:
    huge = np.array([[1 << 40, 0], [0, 1 << 40]])
    scoring = Dependence("R", [(1, (0,))], 100)
    assert scoring.score(huge) == scoring.grid // 2


SETS = [(0,), (1,), (0, 1)]


def misfit(rows: list[tuple[int, int]], guesses: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    table = table_of((2, 2), rows)
    exact = ExactTables(TableShape.of(table.axes), table)
    return Misfit(SETS, guesses, [3, 1, 4], [2, 1, 3], stop=0).scores(exact)


def test_no_row_moves_a_misfit_by_more_than_its_weight() -> None:
    """Over all tables of up to four rows and some guesses; and that much it does move."""
    cells = [(first, second) for first in range(2) for second in range(2)]
    draws = np.random.default_rng(1)
    moves = np.zeros(4, dtype=np.int64)
    signs = set()
    for _ in range(3):
        guesses = [draws.integers(0, 3, [2] * len(one)) for one in SETS]
        for rows in (rows for count in range(4) for rows in product(cells, repeat=count)):
            before = misfit(list(rows), guesses)
            for cell in cells:
                change = misfit([*rows, cell], guesses) - before
                moves = np.maximum(moves, np.abs(change))
                signs |= set(np.sign(change).tolist())
    assert moves.tolist() == [2, 1, 3, 0]
    assert signs >= {-1, 1}  # so that scores are not monotone


WORKLOAD = [(0, 1, 2), (1, 2), (2,)]
"""Columns that are in one, two and three sets."""


@pytest.mark.parametrize(("target", "largest"), [(None, 6), (0, 12)])
def test_no_row_moves_a_score_by_a_workload_by_more_than_the_largest_weight(
    target: int | None, largest: int
) -> None:
    """Over all tables of three columns of up to four rows, and their neighbours."""
    shape = TableShape(("a", "b", "c"), (2, 2, 2))
    worth = Worth(shape, WORKLOAD, target)
    assert worth.candidates == [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
    weights = [worth.weight(one) for one in worth.candidates]
    draws = np.random.default_rng(5)
    guesses = [draws.integers(0, 3, [2] * len(one)) for one in worth.candidates]
    scoring = Misfit(worth.candidates, guesses, [1] * 7, weights, stop=2)
    cells = list(product(range(2), repeat=3))

    def scores(rows: tuple[tuple[int, ...], ...]) -> NDArray[np.int64]:
        table = table_of((2, 2, 2), rows)
        return scoring.scores(ExactTables(TableShape.of(table.axes), table))

    known = {
        rows: scores(rows)
        for count in range(6)
        for rows in combinations_with_replacement(cells, count)
    }
    moves = [
        known[tuple(sorted((*rows, cell)))] - before
        for rows, before in known.items()
        if len(rows) < 5
        for cell in cells
    ]
    assert np.abs(moves).max(axis=0).tolist() == [*weights, 0]
    assert {-largest, largest} <= {*np.ravel(moves).tolist()}  # so that it is not monotone
    assert scoring.sensitivity(count_sensitivity(Rows(), grouped=True)) == largest


@pytest.mark.parametrize(
    ("unit", "largest"),
    [
        (Rows(), 3),
        (Rows(relation=Neighbours.REPLACE_ONE), 6),
        (Entity("p", max_rows=4), 12),
        (Entity("p", max_rows=4, relation=Neighbours.REPLACE_ONE), 24),
    ],
)
def test_the_sensitivity_follows_the_unit(unit: Rows | Entity, largest: int) -> None:
    guesses = [np.zeros([2] * len(one), dtype=np.int64) for one in SETS]
    scoring = Misfit(SETS, guesses, [0, 0, 0], [2, 1, 3])
    assert scoring.sensitivity(count_sensitivity(unit, grouped=True)) == largest
