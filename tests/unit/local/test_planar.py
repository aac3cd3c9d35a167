"""Places on a public grid: the exact law of moves, its figures, and what is refused."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import ParameterError
from sfumato.local.planar import PARTS, PlanarLaplace, _lengths, _on_square, _quantile
from sfumato.testing.entropy import SeededEntropy


def made(epsilon: str = "1", step: str = "1", cells: tuple[int, int] = (9, 9)) -> PlanarLaplace:
    return PlanarLaplace((0, 0), step=step, cells=cells, epsilon=epsilon)


def test_the_published_distances() -> None:
    told = [1.67835, 4.74386, 6.63835]
    assert [_quantile(one) for one in (0.5, 0.95, 0.99)] == pytest.approx(told, abs=5e-6)
    fine = made("0.001", "10", (100, 100))
    assert [fine.radius(one) * 0.001 for one in (0.5, 0.95, 0.99)] == pytest.approx(told, rel=1e-3)
    # By cells, not by points: the same where they are small beside the noise.
    cells = made("0.06")
    assert [cells.radius(one) * 0.06 for one in (0.5, 0.95, 0.99)] == pytest.approx(told, rel=0.02)


def test_moves_have_the_published_moments() -> None:
    moves = made("0.1").moves(60_000, SeededEntropy(5)) * 0.1
    radii = np.hypot(*moves.T)
    assert radii.mean() == pytest.approx(2, rel=0.02)
    assert moves.var(axis=0) == pytest.approx([3, 3], rel=0.05)
    # Planar, not two Laplaces side by side: no direction is longer than another.
    diagonal = np.abs(moves @ [1, 1]) / math.sqrt(2)
    assert diagonal.mean() == pytest.approx(np.abs(moves[:, 0]).mean(), rel=0.03)


def test_every_move_of_a_square_comes_once() -> None:
    for size in (1, 2, 5):
        moves = _on_square(np.full(8 * size, size), np.arange(8 * size))
        assert len({tuple(one) for one in moves.tolist()}) == 8 * size
        assert (np.abs(moves).max(axis=1) == size).all()
    assert _on_square(np.array([0]), np.array([0])).tolist() == [[0, 0]]


def test_lengths_are_rounded_up_exactly() -> None:
    usual = [[0, 0], [1, 0], [3, 4], [1, 1], [1 << 18, (1 << 18) - 1], [7, 24]]
    # Their lengths are so little above a whole number of parts that a float says it is that.
    moves = np.array([*usual, [130966, 25970], [151151, 1224], [150818, 18497]])
    exact = [
        math.isqrt(PARTS**2 * (a * a + b * b) - 1) + 1 if a or b else 0 for a, b in moves.tolist()
    ]
    assert _lengths(moves).tolist() == exact
    far = moves * (1 << 10)
    exact = [
        math.isqrt(PARTS**2 * (a * a + b * b) - 1) + 1 if a or b else 0 for a, b in far.tolist()
    ]
    assert _lengths(far).tolist() == exact


def test_no_two_places_differ_by_more_than_their_distance() -> None:
    """The weights of moves, for all triples of cells within reach of each other."""
    reach = 7
    grid = np.array(list(product(range(-reach, reach + 1), repeat=2)))
    lengths = dict(zip(map(tuple, grid.tolist()), _lengths(grid).tolist(), strict=True))
    rate = made().rate
    worst = 0.0
    for other in product(range(4), repeat=2):
        if other == (0, 0):
            continue
        for (east, north), length in lengths.items():
            moved = lengths.get((east - other[0], north - other[1]))
            if moved is not None:
                # In epsilon of a cell, over the distance.
                told = rate * (moved - length) / PARTS / _exactly(other)
                worst = max(worst, float(told))
                assert told <= 1
    assert worst > 0.999


def _exactly(move: tuple[int, ...]) -> Fraction:
    """A rational just below the length of a move."""
    size = 10**12
    return Fraction(math.isqrt((move[0] ** 2 + move[1] ** 2) * size**2), size)


def test_places_are_snapped_and_kept_on_the_map() -> None:
    oracle = PlanarLaplace((1000, 2000), step=50, cells=(4, 3), epsilon="0.3")
    reports = oracle.randomize([[1010, 2010], [1199, 2149], [-1e9, 1e9]], SeededEntropy(2))
    assert [tuple(one) for one in reports.rows.tolist()] == [(0, 0), (3, 2), (0, 2)]
    found = oracle.reported(oracle.sketch(reports)).to_pylist()
    assert found[0] == {"east": 1025.0, "north": 2025.0, "reports": 1}
    assert oracle.sketch(reports) == oracle.sketch(reports.to_arrow())
    assert sf.local.from_json(oracle.to_json()) == oracle


@pytest.mark.parametrize(
    "options",
    [
        {"step": 0},
        {"cells": (0, 5)},
        {"cells": (1 << 13, 1 << 13)},
        {"cells": 5},
        {"origin": (1, 2, 3)},
        {"step": "0.0001"},
        {"step": 100},
    ],
)
def test_maps_that_cannot_be_are_refused(options: dict[str, object]) -> None:
    usual = {"origin": (0, 0), "step": 1, "cells": (5, 5), "epsilon": 1}
    with pytest.raises(ParameterError):
        PlanarLaplace(**(usual | options))  # type: ignore[arg-type]


@pytest.mark.parametrize("values", [[1.0, math.nan], [[1, 2, 3]], ["here"], [[None, 1]]])
def test_what_is_no_place_is_refused(values: object) -> None:
    with pytest.raises(ParameterError):
        made().randomize(values)


def test_confidence_is_a_share() -> None:
    for wrong in (0, 1, 2):
        with pytest.raises(ParameterError):
            made().radius(wrong)
