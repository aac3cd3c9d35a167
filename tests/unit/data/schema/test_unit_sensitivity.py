"""Published sensitivities, exactly."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sfumato.data.schema import unit as sensitivity
from sfumato.data.schema.unit import Entity, Neighbours, Rows, Sensitivity
from sfumato.errors import ParameterError

ROWS = Rows()
REPLACED = Rows(relation=Neighbours.REPLACE_ONE)
PERSON = Entity("person", 5, 3)


def _both(l1: int, l2_squared: int) -> Sensitivity:
    return Sensitivity(l1=Fraction(l1), l2_squared=Fraction(l2_squared))


def test_count_and_histogram() -> None:
    assert sensitivity.count_sensitivity(ROWS) == _both(1, 1)
    assert sensitivity.count_sensitivity(REPLACED) == _both(1, 1)
    assert sensitivity.count_sensitivity(ROWS, grouped=True) == _both(1, 1)
    assert sensitivity.count_sensitivity(REPLACED, grouped=True) == _both(2, 2)
    assert sensitivity.count_sensitivity(PERSON, grouped=True) == _both(5, 25)


def test_people_count_once_per_group() -> None:
    replaced = Entity("person", 5, 3, Neighbours.REPLACE_ONE)
    assert sensitivity.people_sensitivity(ROWS, grouped=True) == _both(1, 1)
    assert sensitivity.people_sensitivity(PERSON) == _both(1, 1)
    assert sensitivity.people_sensitivity(PERSON, grouped=True) == _both(3, 3)
    assert sensitivity.people_sensitivity(replaced, grouped=True) == _both(6, 6)


def test_sum_is_not_bounded_by_its_upper_bound_alone() -> None:
    assert sensitivity.sum_sensitivity(ROWS, -10, 3) == _both(10, 100)
    assert sensitivity.sum_sensitivity(REPLACED, 10, 13, optional=False) == _both(3, 9)
    assert sensitivity.sum_sensitivity(REPLACED, 10, 13) == _both(13, 169)
    assert sensitivity.sum_sensitivity(REPLACED, -10, 3, grouped=True) == _both(20, 200)
    assert sensitivity.sum_sensitivity(REPLACED, -10, 10, grouped=True) == _both(20, 400)
    assert sensitivity.sum_sensitivity(PERSON, -1, 2) == _both(10, 100)


@pytest.mark.parametrize(
    ("quantile", "bound"), [("0.5", Fraction(1, 2)), (0.9, Fraction(9, 10)), (0, Fraction(1))]
)
def test_quantile_scores(quantile: object, bound: Fraction) -> None:
    assert sensitivity.quantile_sensitivity(ROWS, quantile) == bound
    assert sensitivity.quantile_sensitivity(PERSON, quantile) == 5 * bound
    assert sensitivity.quantile_sensitivity(REPLACED, quantile) == 1


def test_a_quantile_outside_its_range_is_refused() -> None:
    with pytest.raises(ParameterError) as refused:
        sensitivity.quantile_sensitivity(ROWS, 2)
    assert refused.value.code == "parameter_out_of_range"
