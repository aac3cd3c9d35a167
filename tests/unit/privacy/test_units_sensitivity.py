"""Published sensitivities, exactly."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sfumato.errors import ParameterError
from sfumato.privacy import units as sensitivity
from sfumato.privacy.units import Entity, Neighbours, Rows, Sensitivity

ROWS = Rows()
REPLACED = Rows(relation=Neighbours.REPLACE_ONE)
PERSON = Entity("person", 5, 3)


def _both(l1: int, l2_squared: int) -> Sensitivity:
    return Sensitivity(l1=Fraction(l1), l2_squared=Fraction(l2_squared))


def test_count_and_histogram() -> None:
    assert sensitivity.of_count(ROWS) == _both(1, 1)
    assert sensitivity.of_count(REPLACED) == _both(1, 1)
    assert sensitivity.of_count(ROWS, grouped=True) == _both(1, 1)
    assert sensitivity.of_count(REPLACED, grouped=True) == _both(2, 2)
    assert sensitivity.of_count(PERSON, grouped=True) == _both(5, 25)


def test_people_count_once_per_group() -> None:
    replaced = Entity("person", 5, 3, Neighbours.REPLACE_ONE)
    assert sensitivity.of_people(ROWS, grouped=True) == _both(1, 1)
    assert sensitivity.of_people(PERSON) == _both(1, 1)
    assert sensitivity.of_people(PERSON, grouped=True) == _both(3, 3)
    assert sensitivity.of_people(replaced, grouped=True) == _both(6, 6)


def test_sum_is_not_bounded_by_its_upper_bound_alone() -> None:
    assert sensitivity.of_sum(ROWS, -10, 3) == _both(10, 100)
    assert sensitivity.of_sum(REPLACED, 10, 13, optional=False) == _both(3, 9)
    assert sensitivity.of_sum(REPLACED, 10, 13) == _both(13, 169)
    assert sensitivity.of_sum(REPLACED, -10, 3, grouped=True) == _both(20, 200)
    assert sensitivity.of_sum(REPLACED, -10, 10, grouped=True) == _both(20, 400)
    assert sensitivity.of_sum(PERSON, -1, 2) == _both(10, 100)


@pytest.mark.parametrize(
    ("quantile", "bound"), [("0.5", Fraction(1, 2)), (0.9, Fraction(9, 10)), (0, Fraction(1))]
)
def test_quantile_scores(quantile: object, bound: Fraction) -> None:
    assert sensitivity.of_quantile_score(ROWS, quantile) == bound
    assert sensitivity.of_quantile_score(PERSON, quantile) == 5 * bound
    assert sensitivity.of_quantile_score(REPLACED, quantile) == 1


def test_a_quantile_outside_its_range_is_refused() -> None:
    with pytest.raises(ParameterError) as refused:
        sensitivity.of_quantile_score(ROWS, 2)
    assert refused.value.code == "quantile_out_of_range"
