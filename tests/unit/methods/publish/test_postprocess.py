"""Steps on noisy counts: what they keep, in which order they come, what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.methods.publish.postprocess import caveat, check, postprocess

NOISY = np.array([[5.0, -2.0, 0.5], [-1.0, 3.0, 1.25]])


def test_nothing_is_done_unasked() -> None:
    assert postprocess(NOISY, ()).tolist() == NOISY.tolist()


def test_nonnegative_keeps_the_noisy_total_and_moves_cells_alike() -> None:
    found = postprocess(NOISY, ["nonnegative"])
    # 5 + 3 + 1.25 + 0.5 = 9.75 is to become 6.75; 3 / 4 off each is too much for the 0.5.
    step = (9.25 - 6.75) / 3
    expected = [[5 - step, 0, 0], [0, 3 - step, 1.25 - step]]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert found.sum() == pytest.approx(NOISY.sum(), abs=1e-12)


def test_cells_move_in_proportion_to_their_variances() -> None:
    found = postprocess(np.array([10.0, 10.0]), ["total"], total=26, variances=np.array([1.0, 2.0]))
    assert found.tolist() == [12.0, 14.0]
    found = postprocess(
        np.array([10.0, 10.0]), ["total", "nonnegative"], total=14, variances=np.array([1.0, 2.0])
    )
    assert found.tolist() == [8.0, 6.0]


@pytest.mark.parametrize("total", [-3.5, 0.0])
def test_a_total_of_nothing_gives_empty_cells(total: float) -> None:
    values = np.array([1.0, 2.0, total - 3.0])
    assert postprocess(values, ["nonnegative"]).tolist() == [0.0, 0.0, 0.0]


def test_a_public_total_without_nonnegative_may_leave_negative_cells() -> None:
    found = postprocess(np.array([1.0, 5.0]), ["total"], total=2)
    assert found.tolist() == [-1.0, 3.0]


def test_whole_numbers_go_up_where_the_remainders_are_largest() -> None:
    values = np.array([1.5, 2.7, -0.4, 3.2])  # 7 in all
    assert postprocess(values, ["integer"]).tolist() == [1.0, 3.0, 0.0, 3.0]


def test_steps_come_in_one_order_whatever_is_written() -> None:
    names = ["integer", "total", "nonnegative"]
    found = postprocess(NOISY, names, total=8)
    assert found.tolist() == postprocess(NOISY, names[::-1], total=8).tolist()
    assert found.sum() == 8
    assert (found >= 0).all()
    assert (found == np.rint(found)).all()


def test_no_cells_stay_no_cells() -> None:
    assert postprocess(np.empty(0), ["nonnegative", "integer"]).tolist() == []


def test_an_unknown_step_is_refused_with_a_guess() -> None:
    with pytest.raises(ParameterError, match=r"did you mean 'nonnegative'\?") as refused:
        check(["non-negative"])
    assert refused.value.code == "choice_unknown"


@pytest.mark.parametrize(("names", "total"), [(["total"], None), (["integer"], 5)])
def test_a_total_and_its_number_go_together(names: list[str], total: int | None) -> None:
    with pytest.raises(ParameterError, match="total=N") as refused:
        check(names, total=total)
    assert refused.value.code == "parameter_missing"


def test_a_negative_total_is_refused() -> None:
    with pytest.raises(ParameterError, match="at least 0"):
        check(["total"], total=-1)


def test_the_caveat_names_what_was_done() -> None:
    assert "(nonnegative, integer)" in caveat(["integer", "nonnegative"])
