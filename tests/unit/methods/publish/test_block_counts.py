"""Estimates by projections against least squares by dense matrices."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.methods.publish.strategy import BlockCounts, MeasuredLevel
from sfumato.privacy.estimation.blocks import (
    Nesting,
    assembled,
    projected,
    sum_neighbours,
    totals,
    variances,
)
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

CASES: dict[str, tuple[tuple[Nesting, ...], dict[tuple[int, ...], float]]] = {
    "halves, all levels": ((Nesting(8, (2, 2, 2)),), {(0,): 1.0, (1,): 2.0, (2,): 0.5, (3,): 3.0}),
    "no root, one level left out": ((Nesting(11, (2, 3, 2)),), {(1,): 0.3, (3,): 4.0}),
    "cells alone": ((Nesting(5, (5,)),), {(1,): 2.0}),
    "a level that stays whole": ((Nesting(9, (1, 3, 3)),), {(1,): 0.7, (2,): 1.1, (3,): 1.0}),
    "quadtree": ((Nesting(4, (2, 2)), Nesting(3, (2, 2))), {(0, 0): 3, (1, 1): 1, (2, 2): 2}),
    "marginals": ((Nesting(4, (4,)), Nesting(3, (3,))), {(1, 0): 0.5, (0, 1): 0.6, (1, 1): 2}),
    "each at its own scale": (
        (Nesting(6, (2, 3)), Nesting(7, (2, 2, 2))),
        {(0, 2): 0.9, (1, 1): 1.7, (2, 0): 0.2, (2, 3): 5.0, (1, 3): 1.0},
    ),
    "three axes": (
        (Nesting(2, (2,)), Nesting(3, (3,)), Nesting(4, (2, 2))),
        {(1, 0, 2): 0.4, (0, 1, 1): 0.8, (1, 1, 2): 1.6},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_estimate_and_variances_are_those_of_least_squares(
    case: str, told: Any, dense: Callable[..., Any], rows_of: Callable[..., Any]
) -> None:
    nestings, levels = CASES[case]
    generator = np.random.default_rng(3)
    cells = generator.integers(0, 50, [one.size for one in nestings])
    nulls = np.array([3, 5])
    noises = {level: generator.normal(0, one**0.5, cells.size + 2) for level, one in levels.items()}
    strategy = BlockCounts(
        nestings,
        tuple(MeasuredLevel(at, Fraction(1), told(one, noises[at])) for at, one in levels.items()),
    )
    inner, outer = strategy.estimate(cells, nulls, SeededEntropy(1))

    exact = totals(cells, nestings, list(levels))
    noisy = [exact[at].ravel() + noises[at][: exact[at].size] for at in levels]
    expected, covariance = dense(nestings, list(levels), list(levels.values()), noisy)
    assert np.allclose(inner.ravel(), expected, rtol=1e-9)
    weights = 1 / np.array(list(levels.values()))
    around = np.stack([nulls + noises[at][exact[at].size :][:2] for at in levels])
    assert np.allclose(outer, weights @ around / weights.sum())
    assert np.isclose(strategy.missing_precision, weights.sum())

    boxes = np.sort(
        generator.integers(0, [[one.points] for one in nestings], (30, len(nestings), 2))
    )
    rows = rows_of(nestings, boxes)
    direct = np.einsum("qi,ij,qj->q", rows, covariance, rows)
    assert np.allclose(variances(nestings, boxes, strategy.precisions), direct, rtol=1e-9)


@pytest.mark.parametrize("fanout", [1, 2, 3, 8, 9, 30])
@pytest.mark.parametrize("axis", [0, 1])
def test_gathered_adds_neighbours(fanout: int, axis: int) -> None:
    array = np.arange(90 * 90 * 16, dtype=np.int64).reshape(90 * 4, 90 * 4)
    array = array[: 90 if axis == 0 else 72, : 72 if axis == 0 else 90]
    array = array[: array.shape[0] // fanout * fanout, : array.shape[1] // fanout * fanout]
    starts = np.arange(0, array.shape[axis], fanout)
    assert (sum_neighbours(array, fanout, axis) == np.add.reduceat(array, starts, axis=axis)).all()


def test_counts_of_levels_come_from_finer_ones() -> None:
    nestings = (Nesting(8, (2, 2, 2)), Nesting(9, (3, 3)))
    cells = np.arange(72).reshape(8, 9)
    found = totals(cells, nestings, [(0, 0), (1, 2), (3, 0), (2, 1), (3, 2)])
    assert found[0, 0].tolist() == [[cells.sum()]]
    assert found[1, 2].tolist() == cells.reshape(2, 4, 9).sum(axis=1).tolist()
    assert found[3, 0].tolist() == cells.sum(axis=1, keepdims=True).tolist()
    assert found[2, 1].tolist() == cells.reshape(4, 2, 3, 3).sum(axis=(1, 3)).tolist()
    assert found[3, 2] is cells


def test_projections_put_together_are_the_whole() -> None:
    nestings = (Nesting(6, (2, 3)), Nesting(8, (2, 2, 2)))
    array = np.random.default_rng(4).normal(size=(6, 8))
    parts: dict[tuple[int, ...], NDArray[np.float64]] = dict(projected({(2, 3): array}, nestings))
    assert np.allclose(assembled(parts, nestings), array)
    fine = assembled({**{at: 0 * one for at, one in parts.items()}, (2, 3): parts[2, 3]}, nestings)
    assert np.allclose(sum_neighbours(fine, 3, 0), 0)
    assert np.allclose(sum_neighbours(fine, 2, 1), 0)
