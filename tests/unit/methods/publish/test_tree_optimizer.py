"""Shares of levels: optimal where the optimum is known, exact fractions, never without cells."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.data.schema.unit import Sensitivity
from sfumato.methods.publish.tree_optimizer import (
    LEAST_LEAF_SHARE,
    ShareProblem,
    TreeOptimizer,
    block_sizes,
    exact,
    nestings_of,
    starting_shares,
)
from sfumato.privacy.estimation.blocks import Nesting, spectrum
from sfumato.privacy.mechanisms.spending import Spending

ONE = Sensitivity(l1=Fraction(1), l2_squared=Fraction(1))
TENTH = Spending(epsilon=Fraction(1, 10))
POINTS = np.repeat(np.arange(64), 2).reshape(-1, 1, 2)


def budget(nestings: tuple[Nesting, ...], spending: Spending) -> ShareProblem:
    return ShareProblem(spectrum(nestings, None), block_sizes(nestings), spending, ONE)


@pytest.mark.parametrize("shape", [(64,), (60,), (16, 16), (8, 4, 6)])
def test_gaussian_shares_reach_the_optimum_of_all_strategies_in_the_basis(
    shape: tuple[int, ...],
) -> None:
    """With precisions at will, the sum of s / precision under a bound on the diagonal is least at
    precision ~ sqrt(s / p), p the diagonal of the projection: (sum of sqrt(s p))^2 / (2 rho)."""
    nestings = tuple(nestings_of(points)[-1] for points in shape)
    task = budget(nestings, Spending(rho=Fraction(1, 2)))
    diagonal = np.ones(1)
    for nesting in nestings:
        steps = np.diff([0.0, *(1 / width for width in nesting.widths)])
        diagonal = np.multiply.outer(diagonal, steps)
    least = np.sqrt(task.spectrum * diagonal[0]).sum() ** 2
    begun = task.improved(starting_shares(nestings))
    found = task.settled(begun[np.argmin(task.error(begun))])
    assert least * (1 - 1e-12) <= task.error(found[None])[0] < least * 1.0005


@pytest.mark.parametrize(
    "spending", [TENTH, Spending(epsilon=Fraction(6)), Spending(rho=Fraction(1, 8))]
)
def test_no_step_makes_an_error_larger(spending: Spending) -> None:
    nestings = (Nesting(81, (3, 3, 3, 3)), Nesting(16, (4, 4)))
    task = budget(nestings, spending)
    shares = starting_shares(nestings)
    errors = [task.error(task.improved(shares, rounds)) for rounds in range(0, 30, 3)]
    assert (np.diff(errors, axis=0) <= 1e-9 * errors[0]).all()


def test_no_small_change_of_shares_is_better() -> None:
    """At a local optimum gains per share are equal where there is a share, less elsewhere."""
    found = TreeOptimizer(None, [TENTH], ONE).best([nestings_of(256)])
    size = found.shares.size
    for one in range(size):
        for other in np.flatnonzero(found.shares > 1e-3):
            moved = found.shares.copy()
            moved[one] += 1e-4
            moved[other] -= 1e-4
            assert found.budget.error(moved[None])[0] >= found.error * (1 - 1e-7)


def test_points_are_best_counted_one_by_one() -> None:
    found = TreeOptimizer(POINTS, [TENTH], ONE).best([nestings_of(64)])
    assert exact(found.shares) == {(found.nestings[0].depth,): 1}


def test_cells_are_measured_even_where_no_query_needs_them() -> None:
    rows = np.stack([np.repeat(np.arange(8), 2).reshape(8, 2), np.tile([0, 7], (8, 1))], axis=1)
    found = TreeOptimizer(rows, [TENTH], ONE).best([nestings_of(8), nestings_of(8)])
    assert found.shares.ravel()[-1] == pytest.approx(LEAST_LEAF_SHARE, rel=0.02)
    first, second = found.nestings
    assert found.shares[first.depth, 0] > 0.98
    assert second.depth >= 1


def test_a_delta_is_used_where_gaussian_noise_is_better() -> None:
    ways = [Spending(epsilon=Fraction(1)), Spending(rho=Fraction(1, 30))]
    found = TreeOptimizer(None, ways, ONE).best([nestings_of(4096)])
    each = [TreeOptimizer(None, [one], ONE).best([nestings_of(4096)]).error for one in ways]
    assert found.error == min(each)
    assert found.budget.spending is ways[int(np.argmin(each))]


def test_shares_become_fractions_that_sum_to_one() -> None:
    shares = np.array([[0.1, 0.0], [1 / 3, 0.0]])
    shares[1, 1] = 1 - shares.sum()
    found = exact(shares)
    assert sum(found.values()) == 1
    assert set(found) == {(0, 0), (1, 0), (1, 1)}
    assert abs(float(found[1, 0]) - 1 / 3) < 1e-6


@pytest.mark.parametrize("epsilon", ["1/1000000", "1000", "100000"])
def test_extreme_prices_have_finite_shares(epsilon: str) -> None:
    spending = Spending(epsilon=Fraction(epsilon))
    found = TreeOptimizer(None, [spending], ONE).best([nestings_of(100), nestings_of(7)])
    assert np.isfinite(found.shares).all()
    assert np.isfinite(found.error)
    assert sum(exact(found.shares).values()) == 1
