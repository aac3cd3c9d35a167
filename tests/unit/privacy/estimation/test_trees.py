"""The two passes against generalised least squares done with dense matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.privacy.estimation.trees import BoxTree, LeastSquares

if TYPE_CHECKING:
    from numpy.typing import NDArray


def tree_of(fans: list[int]) -> BoxTree:
    """A tree, breadth first, whose nodes have these numbers of children until the list ends."""
    parents = [-1]
    for node, fan in enumerate(fans):
        if node >= len(parents):
            break
        parents += [node] * fan
    ends = np.zeros((len(parents), 1), dtype=np.int64)
    return BoxTree(ends, ends, np.array(parents))


def below(tree: BoxTree) -> NDArray[np.float64]:
    """Which leaves (columns) lie below each node (rows)."""
    leaves = np.flatnonzero(tree.leaves)
    matrix = np.zeros((len(tree), len(leaves)))
    for column, leaf in enumerate(leaves):
        node = leaf
        while node >= 0:
            matrix[node, column] = 1
            node = tree.parents[node]
    return matrix


def dense(
    tree: BoxTree, precisions: NDArray[np.float64], values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The estimates and their covariance."""
    matrix = below(tree)
    covariance = np.linalg.inv(matrix.T @ (precisions[:, None] * matrix))
    estimate = covariance @ matrix.T @ (precisions * values)
    return matrix @ estimate, matrix @ covariance @ matrix.T


TREES = st.lists(st.integers(0, 4), min_size=0, max_size=12).map(tree_of)


@settings(max_examples=60, deadline=None)
@given(TREES, st.integers(0, 2**32 - 1))
def test_any_tree_gives_the_estimates_of_dense_least_squares(tree: BoxTree, seed: int) -> None:
    generator = np.random.default_rng(seed)
    precisions = generator.uniform(0.1, 3.0, len(tree))
    precisions[~tree.leaves & (generator.random(len(tree)) < 0.4)] = 0  # not measured
    values = generator.normal(0, 10, len(tree))
    fitted = LeastSquares(tree, precisions)
    estimates, covariance = dense(tree, precisions, values)
    assert fitted.solve(values) == pytest.approx(estimates, abs=1e-8)
    assert fitted.variances == pytest.approx(np.diag(covariance), rel=1e-9)
    weights = np.where(tree.leaves, generator.random(len(tree)), 0.0)
    leaves = tree.leaves
    expected = weights[leaves] @ covariance[np.ix_(leaves, leaves)] @ weights[leaves]
    assert fitted.variance(weights[:, None])[0] == pytest.approx(expected, rel=1e-9)


def test_two_equal_levels_share_the_difference_evenly() -> None:
    fitted = LeastSquares(tree_of([2]), np.ones(3))
    # 10 measured above 3 + 4: two thirds of the difference of 3 go up to the children.
    assert fitted.solve(np.array([10.0, 3.0, 4.0])) == pytest.approx([9.0, 4.0, 5.0])


def test_many_problems_at_once_are_each_alone() -> None:
    tree = tree_of([3, 2, 0, 2])
    values = np.random.default_rng(1).normal(size=(len(tree), 5))
    fitted = LeastSquares(tree, np.arange(1.0, len(tree) + 1))
    alone = np.stack([fitted.solve(column) for column in values.T], axis=1)
    assert fitted.solve(values) == pytest.approx(alone)


def test_a_deep_tree_is_solved_within_its_generations() -> None:
    tree = tree_of([4] * 5461)
    assert [one.stop - one.start for one in tree.generations] == [4**depth for depth in range(8)]
    found = LeastSquares(tree, np.ones(len(tree))).solve(np.ones(len(tree)))
    assert tree.sums(found) == pytest.approx(found)
