"""Fits against brute force: small joint distributions written out in full."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.fixtures.synthesis import exact_log

from sfumato.methods.synth import junction_tree as junction_trees
from sfumato.methods.synth.consistency import consistent_tables, nonnegative, with_margins
from sfumato.methods.synth.fitted_model import Conditional, FittedModel, fit_network
from sfumato.methods.synth.junction_tree import (
    conditioned,
    fit_junction,
    junction_tree,
    pair_probabilities,
    scaled_tree,
)
from sfumato.methods.synth.measurement_log import TableShape

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SIZES = (3, 2, 4, 2, 3)
SINGLES = [(column,) for column in range(5)]
TREE = [(0, 1), (1, 2), (1, 3), (3, 4)]
LOOP = [(0, 1), (1, 2), (2, 3), (0, 3), (3, 4)]


def some_joint(seed: int) -> Floats:
    drawn = np.random.default_rng(seed).dirichlet(np.full(np.prod(SIZES), 0.4))
    return np.asarray(1000 * drawn.reshape(SIZES))


def table_of(joint: Floats, places: tuple[int, ...]) -> Floats:
    away = tuple(axis for axis in range(joint.ndim) if axis not in places)
    return np.asarray(joint.sum(axis=away))


def most_entropy(joint: Floats, sets: list[tuple[int, ...]]) -> Floats:
    """The table of most entropy with the tables of these sets, scaled in full."""
    fitted = np.full(joint.shape, joint.sum() / joint.size)
    for _ in range(400):
        for places in sets:
            away = tuple(axis for axis in range(joint.ndim) if axis not in places)
            wanted, found = (
                joint.sum(axis=away, keepdims=True),
                fitted.sum(axis=away, keepdims=True),
            )
            fitted = fitted * np.divide(wanted, found, out=np.zeros_like(found), where=found > 0)
    return fitted


def whole(model: FittedModel) -> Floats:
    return model.counts(model.shape.columns)


@pytest.mark.parametrize("sets", [TREE, LOOP, [(0, 1, 2), (2, 3), (3, 4)]])
def test_a_junction_tree_has_the_most_entropy(
    sets: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(junction_trees, "_SETTLED", 1e-10)
    monkeypatch.setattr(junction_trees, "_SWEEPS", 400)
    joint = some_joint(1)
    log = exact_log(joint, [*SINGLES, *sets])
    tables, total = consistent_tables(log)
    exact = {one: table_of(joint, one) for one in tables}
    fitted = scaled_tree(log.shape, exact, total, sweeps=400).model(total)
    np.testing.assert_allclose(whole(fitted), most_entropy(joint, sets), atol=1e-3)


def test_a_tree_is_done_in_one_sweep() -> None:
    joint = some_joint(2)
    log = exact_log(joint, [*SINGLES, *TREE])
    exact = {one: table_of(joint, one) for one in [*SINGLES, *TREE]}
    fitted = scaled_tree(log.shape, exact, 1000.0, sweeps=1).model(1000.0)
    # p(0 1) p(1 2) p(1 3) p(3 4) / (p(1) p(1) p(3)), written out.
    pairs = [table_of(joint, one) / 1000 for one in TREE]
    ones, threes = table_of(joint, (1,)) / 1000, table_of(joint, (3,)) / 1000
    expected = np.einsum("ab,bc,bd,de,b,d->abcde", *pairs, ones**-2.0, 1 / threes)
    np.testing.assert_allclose(whole(fitted), 1000 * expected, atol=1e-9)


def test_pairs_far_apart_in_a_tree_are_exact() -> None:
    for sets in (TREE, LOOP, [(0, 1)]):
        log = exact_log(some_joint(3), [*SINGLES, *sets])
        tables, total = consistent_tables(log)
        tree = scaled_tree(log.shape, tables, total)
        full = whole(tree.model(1.0))
        found = pair_probabilities(tree, combinations(range(5), 2))
        for pair, table in found.items():
            np.testing.assert_allclose(table, table_of(full, pair), atol=1e-9)
        assert len(found) == 10


def test_any_fit_reads_any_log_and_gives_a_distribution() -> None:
    for sets in ([], TREE, LOOP, [(0, 1, 2)]):
        log = exact_log(some_joint(4), [*SINGLES, *sets])
        for fit in (fit_junction, fit_network):
            model = fit(log)
            assert whole(model).sum() == pytest.approx(model.total)
            assert (whole(model) >= 0).all()


def test_a_network_is_the_product_of_its_conditionals() -> None:
    joint = some_joint(5) + 1
    log = exact_log(joint, [*SINGLES, (1, 2), (0, 1, 2), (0, 3), (3, 4)])
    model = fit_network(log)
    parents = {one.column: one.parents for one in model.conditionals}
    assert parents == {1: (), 2: (1,), 0: (1, 2), 3: (0,), 4: (3,)}
    for places in [(1, 2), (0, 1, 2), (0, 3), (3, 4)]:
        expected = table_of(joint, places)
        np.testing.assert_allclose(model.counts(places), expected, rtol=0.05, atol=2)


def test_sets_beyond_the_cells_of_a_model_are_left_out_least_telling_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    joint = np.full((4, 4, 4), 10.0)
    joint[np.arange(4), np.arange(4)] += 500  # 0 and 1 hang together
    monkeypatch.setattr(junction_trees, "CELLS", 40)
    log = exact_log(joint, [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)])
    model = fit_junction(log)
    assert sum(one.table.size for one in model.conditionals) <= 40
    np.testing.assert_allclose(model.counts((0, 1)), joint.sum(axis=2), rtol=0.01)


def test_cliques_hold_their_sets_and_shared_columns_run_together() -> None:
    draws = np.random.default_rng(6)
    for _ in range(30):
        columns = 7
        shape = TableShape(tuple("abcdefg"), tuple(draws.integers(2, 9, columns).tolist()))
        pairs = list(combinations(range(columns), 2))
        sets = [pairs[place] for place in draws.choice(len(pairs), 8, replace=False)]
        tree = junction_tree(shape, sets)
        assert all(tree.home(one) is not None for one in sets)
        for column in range(columns):
            holding = [p for p, clique in enumerate(tree.cliques) if column in clique]
            tops = [p for p in holding if column not in tree.shared[p]]
            assert len(tops) == 1  # all others are reached from it through the column


def test_fixed_values_give_the_conditional_distribution() -> None:
    joint = some_joint(7)
    for fit in (fit_junction, fit_network):
        model = fit(exact_log(joint, [*SINGLES, *LOOP]))
        full = whole(model)
        given = conditioned(model, {4: 2, 1: 0})
        expected = np.zeros_like(full)
        expected[:, 0, :, :, 2] = full[:, 0, :, :, 2]
        np.testing.assert_allclose(whole(given), expected, atol=1e-9)
        assert given.total == pytest.approx(expected.sum())


def test_impossible_fixed_values_leave_the_rest_even() -> None:
    shape = TableShape(("a", "b"), (2, 3))
    first = Conditional(0, (), np.array([1.0, 0.0]))
    model = FittedModel(shape, (first, Conditional(1, (0,), np.full((2, 3), 1 / 3))), 10.0)
    given = conditioned(model, {0: 1})
    assert given.total == 0
    expected = np.array([[0.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]])
    np.testing.assert_allclose(given.probabilities((0, 1)), expected)


def test_the_nearest_table_without_negative_counts() -> None:
    table = np.array([[5.0, -3.0], [1.0, 0.5]])
    found = nonnegative(table, 4.0)
    assert found.sum() == pytest.approx(4)
    assert (found >= 0).all()
    rest = np.random.default_rng(8).dirichlet(np.ones(4), 2000).reshape(-1, 2, 2) * 4
    assert ((rest - table) ** 2).sum(axis=(1, 2)).min() >= ((found - table) ** 2).sum() - 1e-9
    # Where everything is far below, the total is still reached.
    assert nonnegative(np.full(3, -100.0), 6.0) == pytest.approx([2, 2, 2])


def test_tables_get_the_sums_of_their_columns() -> None:
    draws = np.random.default_rng(10)
    margins = [100 * draws.dirichlet(np.ones(size)) for size in (3, 4, 2)]
    found = with_margins(draws.normal(3, 4, (3, 4, 2)), margins, rounds=300)
    for axis, margin in enumerate(margins):
        others = tuple(other for other in range(3) if other != axis)
        np.testing.assert_allclose(found.sum(axis=others), margin, atol=1e-6)
