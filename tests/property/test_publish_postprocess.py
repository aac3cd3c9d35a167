"""Projections of noisy counts: optimal, exact in their sums, against conditions and an oracle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from sfumato.methods.publish.postprocess import postprocess
from sfumato.methods.publish.wavelet import NominalNesting
from sfumato.privacy.estimation.blocks import Nesting
from sfumato.privacy.estimation.trees import generations, nearest

if TYPE_CHECKING:
    from numpy.typing import NDArray

CELLS = st.lists(
    st.tuples(st.floats(-1e6, 1e6), st.floats(1e-3, 1e3)), min_size=1, max_size=60
).map(lambda cells: (np.array([cell[0] for cell in cells]), np.array([c[1] for c in cells])))
TOTALS = st.integers(0, 10**7)


def one_family(
    values: NDArray[np.float64], variances: NDArray[np.float64], total: float
) -> NDArray[np.float64]:
    return nearest(values, variances, np.zeros(len(values), dtype=np.int64), np.array([total]))


@given(CELLS, TOTALS)
def test_the_projection_satisfies_the_conditions_of_optimality(
    cells: tuple[NDArray[np.float64], NDArray[np.float64]], total: int
) -> None:
    """A convex problem: (x - y) / v is one multiplier where x > 0, and at least it elsewhere."""
    values, variances = cells
    found = one_family(values, variances, total)
    size = np.abs(values).max() + total
    assert (found >= 0).all()
    assert abs(found.sum() - total) <= 1e-9 * len(values) * max(size, 1)
    pulls = (found - values) / variances
    inside = found > 1e-6 * max(size, 1)
    if inside.any():
        multiplier = pulls[inside].mean()
        slack = 1e-9 * max(size, 1) / variances.min()
        assert np.abs(pulls[inside] - multiplier).max() <= slack
        assert pulls.min() >= multiplier - slack


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-20, 20), st.floats(0.5, 4)), min_size=2, max_size=6),
    st.integers(1, 40),
)
def test_no_general_solver_finds_a_nearer_point(
    cells: list[tuple[float, float]], total: int
) -> None:
    values, variances = np.array(cells).T
    found = one_family(values, variances, total)

    def distance(point: NDArray[np.float64]) -> float:
        return float(np.sum((point - values) ** 2 / variances))

    constraint: Any = {"type": "eq", "fun": lambda point: point.sum() - total}
    solved = minimize(
        distance,
        np.full(len(values), total / len(values)),
        bounds=[(0, None)] * len(values),
        constraints=[constraint],
        options={"ftol": 1e-12, "maxiter": 300},
        method="SLSQP",
    )
    assert distance(found) <= distance(np.maximum(solved.x, 0)) + 1e-5


@given(CELLS, st.booleans())
def test_noisy_totals_are_kept(
    cells: tuple[NDArray[np.float64], NDArray[np.float64]], whole: bool
) -> None:
    values, variances = cells
    names = ["nonnegative", *["integer"][:whole]]
    found = postprocess(values, names, variances=variances)
    goal = max(values.sum(), 0.0)
    allowed = 0.5 if whole else 0.0
    assert abs(found.sum() - goal) <= allowed + 1e-6
    assert (found >= 0).all()


@given(CELLS, TOTALS)
def test_whole_numbers_add_up_to_the_public_total_exactly(
    cells: tuple[NDArray[np.float64], NDArray[np.float64]], total: int
) -> None:
    values, variances = cells
    for names in (["total", "integer"], ["total", "nonnegative", "integer"]):
        found = postprocess(values, names, variances=variances, total=total)
        assert (found == np.rint(found)).all()
        assert sum(int(one) for one in found) == total


@given(
    st.lists(st.tuples(st.integers(0, 5), st.floats(-1e3, 1e3)), min_size=1, max_size=40),
    st.lists(st.integers(0, 500), min_size=6, max_size=6),
)
def test_families_side_by_side_are_each_treated_as_alone(
    members: list[tuple[int, float]], totals: list[int]
) -> None:
    members.sort(key=lambda one: one[0])
    parents = np.array([one[0] for one in members])
    values, goals = np.array([one[1] for one in members]), np.array(totals, dtype=np.float64)
    spread = np.array([1.0, 2.0, 3.0])[np.arange(len(values)) % 3]
    found = nearest(values, spread, parents, goals)
    for parent in set(parents.tolist()):
        mine = parents == parent
        alone = one_family(values[mine], spread[mine], goals[parent])
        np.testing.assert_allclose(found[mine], alone, rtol=0, atol=1e-7)


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=70), st.sampled_from(["2", "3,5", "70"]))
def test_blocks_keep_their_sums_from_the_whole_down(values: list[float], fanouts: str) -> None:
    """Whole numbers of at least 0; rounding alone moves a block by a step for every depth."""
    chosen = tuple(map(int, fanouts.split(",")))
    while np.prod(chosen) < len(values):
        chosen = (2, *chosen)
    lines = [Nesting(len(values), chosen).line()]
    noisy, ones = np.array(values), np.ones(len(values))
    done = postprocess(noisy, ["nonnegative", "integer"], lines=lines)
    assert (done >= 0).all()
    assert (done == np.rint(done)).all()
    assert done.sum() == np.rint(max(noisy.sum(), 0))
    whole = postprocess(noisy, ["integer"], lines=lines)
    blocks = zip(*(generations(one, ones, lines) for one in (noisy, whole)), strict=True)
    for depth, (before, after) in enumerate(blocks):
        assert np.abs(before.values - after.values).max() <= depth + 1.5


def test_the_blocks_of_a_nominal_column_are_its_groups() -> None:
    nesting = NominalNesting(
        4, (2, 3), leaves=np.array([3, 0, 4, 1])
    )  # groups of codes 1 3 and 0 2
    upper, lower = nesting.line()
    assert upper.tolist() == [0, 0]
    assert lower.tolist() == [1, 0, 1, 0]


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=8))
def test_rounding_moves_no_cell_by_more_than_a_step_a_generation(values: list[float]) -> None:
    found = postprocess(np.array(values), ["integer"])
    # Two generations of fours, and the whole.
    assert np.abs(found - values).max() <= 2.5
    assert abs(found.sum() - np.sum(values)) <= 0.5 + 1e-9
