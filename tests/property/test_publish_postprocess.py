"""Projections of noisy counts: optimal, exact in their sums, against conditions and an oracle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from sfumato.publish.postprocess import postprocess

if TYPE_CHECKING:
    from numpy.typing import NDArray

CELLS = st.lists(
    st.tuples(st.floats(-1e6, 1e6), st.floats(1e-3, 1e3)), min_size=1, max_size=60
).map(lambda cells: (np.array([cell[0] for cell in cells]), np.array([c[1] for c in cells])))
TOTALS = st.integers(0, 10**7)


@given(CELLS, TOTALS)
def test_the_projection_satisfies_the_conditions_of_optimality(
    cells: tuple[NDArray[np.float64], NDArray[np.float64]], total: int
) -> None:
    """A convex problem: (x - y) / v is one multiplier where x > 0, and at least it elsewhere."""
    values, variances = cells
    found = postprocess(values, ["nonnegative", "total"], variances=variances, total=total)
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
    found = postprocess(values, ["nonnegative", "total"], variances=variances, total=total)

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


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=8))
def test_rounding_moves_no_cell_by_a_whole_step(values: list[float]) -> None:
    found = postprocess(np.array(values), ["integer"])
    assert np.abs(found - values).max() <= 1
    assert abs(found.sum() - np.sum(values)) <= 0.5 + 1e-9
