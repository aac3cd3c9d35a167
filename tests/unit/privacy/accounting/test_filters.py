"""Budgets: exact to the last unit, refused beyond, broken filters stay broken."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import pytest

from sfumato.errors import ParameterError
from sfumato.privacy.accounting.events import (
    ApproxEvent,
    Composed,
    Event,
    ExponentialChoice,
    GaussianNoise,
    PureEvent,
    Repeated,
    ThresholdKeysEvent,
)
from sfumato.privacy.accounting.filters import (
    ApproxFilter,
    Budget,
    Charge,
    RenyiFilter,
    ZcdpFilter,
    charge_from_record,
)
from sfumato.privacy.accounting.losses import Approx, Pure

MICRO = Fraction(1, 10**6)
GAUSSIAN = GaussianNoise(variance=Fraction(50), l2_sensitivity_squared=Fraction(1))
SMALL = PureEvent(epsilon=Fraction(1, 10))


def _spend(budget: Budget, event: Event) -> tuple[int, Charge]:
    """Ask the same event until it is refused."""
    charge, spent, granted = budget.charge(event), budget.zero(), 0
    while budget.admits(spent, charge):
        spent, granted = budget.add(spent, charge), granted + 1
    return granted, spent


def test_f16_ten_charges_of_a_tenth_exhaust_one_and_no_more() -> None:
    budget = Budget.for_epsilon_delta(epsilon=1.0)
    written: Any = 0.1
    granted, spent = _spend(budget, PureEvent(epsilon=written))
    assert granted == 10
    assert spent == budget.limits() == ((10**9,),)
    assert budget.remaining(spent) == ((0,),)
    least = budget.charge(PureEvent(epsilon=Fraction(1, 10**12)))
    assert least == ((1,),)
    assert not budget.admits(spent, least)


def test_parts_of_one_question_are_rounded_once() -> None:
    budget = Budget.for_epsilon_delta(epsilon=1)
    third = PureEvent(epsilon=Fraction(1, 3))
    assert budget.charge(Composed((third, third, third))) == ((10**9,),)
    assert budget.charge(Repeated(third, 3)) == ((10**9,),)
    assert budget.charge(third) == ((333_333_334,),)


def test_gaussian_noise_is_refused_by_a_pure_budget() -> None:
    budget = Budget.for_epsilon_delta(epsilon=10)
    assert budget.charge(GAUSSIAN) == (None,)
    assert not budget.admits(budget.zero(), budget.charge(GAUSSIAN))
    assert not budget.admits(budget.zero(), budget.charge(ThresholdKeysEvent(delta=MICRO)))


def test_a_single_large_question_fits_the_usual_budget_but_not_zcdp_alone() -> None:
    one = PureEvent(epsilon=Fraction(1))
    usual = Budget.for_epsilon_delta(epsilon=3, delta=MICRO)
    assert usual.charge(one) == ((10**9, 0), None)
    assert usual.admits(usual.zero(), usual.charge(one))
    zcdp = ZcdpFilter(rho=Fraction(185, 1000), delta=Fraction(0), conversion_delta=MICRO)
    alone = Budget((zcdp,))
    assert not alone.admits(alone.zero(), alone.charge(one))
    assert float(alone.loss().epsilon) == pytest.approx(3, abs=1e-3)


def test_prices_of_the_zcdp_filter() -> None:
    zcdp = ZcdpFilter(rho=Fraction(9), delta=MICRO, conversion_delta=MICRO)
    budget = Budget((zcdp,))
    epsilon = Fraction(1)
    assert budget.charge(PureEvent(epsilon=epsilon)) == ((5 * 10**17, 0),)
    assert budget.charge(ExponentialChoice(epsilon=epsilon)) == ((125 * 10**15, 0),)
    assert budget.charge(GAUSSIAN) == ((10**16, 0),)
    event = ApproxEvent(epsilon=epsilon, delta=MICRO)
    assert budget.charge(event) == ((5 * 10**17, 10**12),)


def test_many_gaussians_go_through_zcdp_and_break_the_sums_for_good() -> None:
    budget = Budget.for_epsilon_delta(epsilon=3, delta=MICRO)
    granted, spent = _spend(budget, GAUSSIAN)
    # 0.1504 of rho, in charges of 0.01
    assert granted == 15
    assert spent[0] is None
    assert budget.remaining(spent)[0] is None
    assert not budget.admits(spent, budget.charge(PureEvent(epsilon=Fraction(1))))
    assert budget.admits(spent, budget.charge(PureEvent(epsilon=Fraction(1, 50))))


def test_many_small_questions_go_further_under_zcdp_than_by_sums() -> None:
    budget = Budget.for_epsilon_delta(epsilon=3, delta=MICRO)
    granted, spent = _spend(budget, PureEvent(epsilon=Fraction(1, 100)))
    assert granted == 3008
    assert spent[0] is None


def test_a_filter_that_was_passed_over_stays_broken() -> None:
    budget = Budget(
        (
            ApproxFilter(epsilon=Fraction(1), delta=MICRO),
            ZcdpFilter(rho=Fraction(2), delta=Fraction(0), conversion_delta=MICRO),
        )
    )
    spent = budget.add(budget.zero(), budget.charge(PureEvent(epsilon=Fraction(3, 2))))
    assert spent == (None, (1125 * 10**15, 0))
    assert budget.add(spent, budget.charge(SMALL))[0] is None
    assert not budget.admits(spent, budget.charge(ThresholdKeysEvent(delta=MICRO)))


def test_the_renyi_filter_keeps_to_its_order() -> None:
    renyi = RenyiFilter(order=Fraction(8), divergence=Fraction(2), conversion_delta=MICRO)
    budget = Budget((renyi,))
    assert budget.charge(GAUSSIAN) == ((80_000_000,),)
    assert _spend(budget, GAUSSIAN)[0] == 25
    assert budget.charge(ThresholdKeysEvent(delta=MICRO)) == (None,)
    loss = budget.loss()
    assert isinstance(loss, Approx)
    assert loss.delta == MICRO
    truth = 2 + math.log(7 / 8) - math.log(8e-6) / 7
    assert float(loss.epsilon) == pytest.approx(truth, abs=1e-12)


def test_deltas_of_the_filters_add_up_to_the_guarantee() -> None:
    for epsilon, delta in ((3, "1e-6"), ("0.1", "1e-9"), (10, "0.5"), ("1e-9", "1e-18")):
        loss = Budget.for_epsilon_delta(epsilon=epsilon, delta=delta).loss()
        assert loss == Approx(epsilon=Fraction(epsilon), delta=Fraction(delta))
    assert Budget.for_epsilon_delta(epsilon=2).loss() == Pure(epsilon=Fraction(2))


def test_all_counts_fit_64_bits() -> None:
    budget = Budget.for_epsilon_delta(epsilon=10, delta="0.5")
    huge = Repeated(Composed((PureEvent(epsilon=Fraction(10)), GAUSSIAN)), 10**30)
    assert budget.charge(huge) == (None, None)
    assert all(count < 2**63 for part in budget.limits() for count in part)
    with pytest.raises(ParameterError) as refused:
        Budget((ZcdpFilter(rho=Fraction(10), delta=MICRO, conversion_delta=MICRO),))
    assert refused.value.code == "parameter_out_of_range"


@pytest.mark.parametrize(
    "budget",
    [
        Budget.for_epsilon_delta(epsilon=1),
        Budget.for_epsilon_delta(epsilon="1/3", delta="1e-6"),
        Budget((RenyiFilter(order=Fraction(8), divergence=Fraction(2), conversion_delta=MICRO),)),
    ],
)
def test_a_budget_and_its_charges_survive_json(budget: Budget) -> None:
    assert Budget.from_record(json.loads(json.dumps(budget.to_record()))) == budget
    for event in (SMALL, GAUSSIAN):
        charge = budget.charge(event)
        assert charge_from_record(json.loads(json.dumps(charge))) == charge


@pytest.mark.parametrize(
    "record",
    [
        None,
        {"version": 1},
        {"version": 2, "filters": []},
        {"version": 1, "filters": [{"kind": "free"}]},
        {"version": 1, "filters": [{"kind": "pure"}]},
        {"version": 1, "filters": [{"kind": "pure", "epsilon": "1", "delta": "0"}]},
    ],
    ids=str,
)
def test_a_wrong_record_is_refused(record: object) -> None:
    with pytest.raises(ParameterError) as refused:
        Budget.from_record(record)
    assert refused.value.code == "record_invalid"


@pytest.mark.parametrize("record", [None, [1], [[-1]], [[True]], [[0.5]], [["1"]]], ids=str)
def test_a_wrong_charge_is_refused(record: object) -> None:
    with pytest.raises(ParameterError) as refused:
        charge_from_record(record)
    assert refused.value.code == "record_invalid"


def test_a_budget_needs_a_filter_and_a_possible_delta() -> None:
    half = ApproxFilter(epsilon=Fraction(1), delta=Fraction(1, 2))
    for filters, code in (((), "parameter_missing"), ((half, half), "parameter_out_of_range")):
        with pytest.raises(ParameterError) as refused:
            Budget(filters)
        assert refused.value.code == code
    with pytest.raises(ParameterError) as refused:
        RenyiFilter(order=Fraction(1), divergence=Fraction(1), conversion_delta=MICRO)
    assert refused.value.code == "parameter_out_of_range"


def test_sentences() -> None:
    budget = Budget.for_epsilon_delta(epsilon=3, delta=MICRO)
    assert budget.sentence() == (
        "All answers together keep within epsilon 3 and delta 1e-06, "
        "however questions depend on earlier answers."
    )
    assert (
        budget.describe(budget.charge(SMALL)) == "epsilon 0.1 and delta 0 or rho 0.005 and delta 0"
    )
    assert budget.describe(budget.charge(GAUSSIAN)) == "rho 0.01 and delta 0"
    assert budget.describe((None, None)) == "more than the whole budget"
