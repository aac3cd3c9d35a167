"""Sparse vector: its split, its stop, its separate numbers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.privacy.accounting.events import PureEvent
from sfumato.privacy.mechanisms.sparse_vector import ABOVE, BELOW, STOPPED, SparseVector
from sfumato.testing.entropy import SeededEntropy

ONE = Fraction(1)


@pytest.mark.parametrize(("monotone", "changes"), [(False, 2), (True, 1)])
@pytest.mark.parametrize("cutoff", [1, 5, 50])
def test_budget_is_split_in_the_best_ratio(monotone: bool, changes: int, cutoff: int) -> None:
    mechanism = SparseVector(epsilon=ONE, cutoff=cutoff, monotone=monotone)
    share = mechanism.threshold_epsilon
    assert float((1 - share) / share) == pytest.approx((changes * cutoff) ** (2 / 3), rel=1e-5)
    assert mechanism.threshold_scale == 1 / share
    assert mechanism.query_scale == changes * cutoff / (1 - share)
    spread = mechanism.threshold_scale**2 + mechanism.query_scale**2
    for other in (share * Fraction(9, 10), share * Fraction(11, 10)):
        assert spread < 1 / other**2 + (changes * cutoff / (1 - other)) ** 2


def test_run_stops_after_the_last_positive_answer() -> None:
    mechanism = SparseVector(epsilon=ONE, cutoff=2)
    far = 10**6
    verdicts = mechanism.sample(
        np.array([[far, -far, far, far, -far], [-far, -far, -far, -far, far]]), SeededEntropy(1)
    ).verdicts
    assert verdicts.tolist() == [
        [ABOVE, BELOW, ABOVE, STOPPED, STOPPED],
        [BELOW, BELOW, BELOW, BELOW, ABOVE],
    ]


def test_threshold_is_where_it_was_put() -> None:
    mechanism = SparseVector(epsilon=ONE, cutoff=1)
    queries = np.tile([500, 10_000], (1_000, 1))
    verdicts = mechanism.sample(queries, SeededEntropy(2), threshold=5_000).verdicts
    assert (verdicts == [BELOW, ABOVE]).all()


def test_queries_may_depend_on_earlier_answers() -> None:
    session = SparseVector(epsilon=ONE, cutoff=1).start(0, SeededEntropy(3))
    asked = []
    value = -(10**6)
    while session.positives[0] == 0:
        asked.append(int(session.ask([value]).verdicts[0]))
        value += 5 * 10**5
    assert asked[0] == BELOW
    assert asked[-1] == ABOVE
    assert session.ask([10**9]).verdicts.tolist() == [STOPPED]


def test_numbers_have_noise_of_their_own() -> None:
    """The comparison's noise given away would make the number exceed the threshold; fresh does not.

    At the threshold itself a positive answer says that the noise compared was high; the released
    number must not be.
    """
    mechanism = SparseVector(epsilon=ONE, cutoff=1, numeric_epsilon=ONE)
    assert mechanism.event == PureEvent(epsilon=Fraction(2))
    found = mechanism.sample(np.zeros((100_000, 1), dtype=np.int64), SeededEntropy(4))
    above = found.verdicts[:, 0] == ABOVE
    assert found.numbers is not None
    numbers = found.numbers[:, 0]
    assert (numbers[~above] == 0).all()
    # Fresh noise of scale 1: mean 0, variance 2 e / (e - 1)^2 = 1.84, about 50,000 answers.
    assert abs(numbers[above].mean()) < 4.9 * (1.84 / above.sum()) ** 0.5


def test_cost_does_not_depend_on_the_queries() -> None:
    assert SparseVector(epsilon=ONE, cutoff=3).event == PureEvent(epsilon=ONE)
    assert (
        SparseVector(epsilon=ONE, cutoff=3)
        .sample(np.zeros((2, 4), dtype=np.int64), SeededEntropy(5))
        .numbers
        is None
    )


def test_bound_holds_for_all_queries_together() -> None:
    mechanism = SparseVector(epsilon=ONE, cutoff=1)
    beta = 0.1
    margin = int(mechanism.bound(beta, queries=10)) + 1
    queries = np.full((20_000, 10), -margin)
    queries[:, -1] = margin
    verdicts = mechanism.sample(queries, SeededEntropy(6)).verdicts
    wrong = (verdicts[:, :-1] != BELOW).any(axis=1) | (verdicts[:, -1] != ABOVE)
    assert wrong.mean() <= beta


def test_refusals() -> None:
    for parameters in ({"cutoff": 0}, {"cutoff": 1, "numeric_epsilon": Fraction(0)}):
        with pytest.raises(ParameterError):
            SparseVector(epsilon=ONE, **parameters)
    with pytest.raises(ParameterError):
        SparseVector(epsilon=ONE, cutoff=1).sample([1.5], SeededEntropy(7))
