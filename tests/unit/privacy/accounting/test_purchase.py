"""A purchase states an (epsilon, delta) only where it is proven."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from tests.fixtures.ledgers import code_of

from sfumato.data.schema.unit import Neighbours
from sfumato.privacy.accounting.event_records import from_record, to_record
from sfumato.privacy.accounting.events import (
    ApproxEvent,
    Composed,
    ConcentratedEvent,
    Event,
    GaussianNoise,
    LaplaceNoise,
    Parallel,
    PureEvent,
    Repeated,
    ThresholdKeysEvent,
)
from sfumato.privacy.accounting.filters import Budget
from sfumato.privacy.accounting.losses import spendable_rho
from sfumato.privacy.accounting.price import price
from sfumato.privacy.accounting.purchase import Purchase, event_of, purchase, summed_event

ONE, MICRO = Fraction(1), Fraction(1, 10**6)


def gaussian(epsilon: Fraction = ONE, delta: Fraction = MICRO) -> GaussianNoise:
    """Gaussian noise that costs just the pair."""
    rho = spendable_rho(epsilon=epsilon, delta=delta)
    return GaussianNoise(variance=1 / (2 * rho), l2_sensitivity_squared=Fraction(1))


@pytest.mark.parametrize("epsilon", ["1/1000", "1/3", "1", "10"])
@pytest.mark.parametrize("delta", ["1e-12", "1e-6", "1e-2"])
def test_calibrated_noise_is_proven(epsilon: str, delta: str) -> None:
    offer = price(epsilon=epsilon, delta=delta)
    assert offer.epsilon is not None
    bought = purchase(offer, gaussian(offer.epsilon, offer.delta))
    assert bought == Purchase(event=event_of(bought), epsilon=offer.epsilon, delta=offer.delta)


def test_a_pair_without_a_proof_is_refused() -> None:
    """The test fails if more noise were claimed than is there, by a thousandth of epsilon."""
    for event, epsilon, delta in [
        (gaussian(), Fraction(999, 1000), MICRO),
        (gaussian(), ONE, MICRO * Fraction(99, 100)),
        (gaussian(), Fraction(100), Fraction(0)),
        (PureEvent(epsilon=ONE), Fraction(999, 1000), Fraction(0)),
        (ThresholdKeysEvent(delta=MICRO), ONE, MICRO / 2),
        (ApproxEvent(epsilon=ONE, delta=MICRO), ONE, MICRO / 2),
        (Parallel((gaussian(), PureEvent(epsilon=ONE)), Neighbours.REPLACE_ONE), ONE, MICRO),
    ]:
        assert code_of(Purchase, event=event, epsilon=epsilon, delta=delta) == "event_unsupported"


def test_a_forged_record_is_refused() -> None:
    record = to_record(Purchase(event=gaussian(), epsilon=ONE, delta=MICRO))
    assert from_record(json.loads(json.dumps(record))) == from_record(record)
    for forged in ({"epsilon": "1/2"}, {"delta": "0/1"}, {"delta": "1/1"}, {"epsilon": "0/1"}):
        assert code_of(from_record, {**record, **forged}) != "no error"


def test_a_purchase_is_no_part_of_an_event() -> None:
    bought = Purchase(event=gaussian(), epsilon=ONE, delta=MICRO)
    inner = to_record(bought)
    for build in (
        lambda: Composed((bought,)),  # type: ignore[arg-type]
        lambda: Repeated(bought, 2),  # type: ignore[arg-type]
        lambda: Parallel((bought,), Neighbours.ADD_REMOVE),  # type: ignore[arg-type]
        lambda: Purchase(event=bought, epsilon=ONE, delta=MICRO),  # type: ignore[arg-type]
        lambda: from_record({"version": 1, "kind": "repeated", "count": 2, "event": inner}),
    ):
        assert code_of(build) != "no error"


@pytest.mark.parametrize(
    ("event", "summed"),
    [
        (LaplaceNoise(scale=ONE, l1_sensitivity=ONE), None),
        (Repeated(PureEvent(epsilon=Fraction(1, 2)), 2), None),
        (ThresholdKeysEvent(delta=MICRO / 2), None),
        (gaussian(), ApproxEvent(epsilon=ONE, delta=MICRO)),
        (Composed((gaussian(Fraction(1, 2)), PureEvent(epsilon=Fraction(1, 20)))), "pair"),
        (ConcentratedEvent(rho=ONE), None),
    ],
)
def test_only_what_sums_cannot_express_gets_a_pair(event: Event, summed: object) -> None:
    bought = purchase(price(epsilon=1, delta="1e-6"), event)
    assert isinstance(bought, Purchase) is (summed is not None)
    assert event_of(bought) == event
    if summed is not None:
        assert summed_event(bought) == ApproxEvent(epsilon=ONE, delta=MICRO)


def test_a_price_in_rho_gets_a_pair_at_the_usual_delta() -> None:
    offer, noise = price(rho="0.02"), GaussianNoise(variance=25, l2_sensitivity_squared=ONE)  # type: ignore[arg-type]
    assert purchase(offer, noise) == noise
    bought = purchase(offer, noise, usual_delta=MICRO)
    assert isinstance(bought, Purchase)
    assert bought.delta == MICRO
    assert Fraction(89, 100) < bought.epsilon < Fraction(90, 100)


def test_three_thirds_fit_and_thirds_are_cut_to_units() -> None:
    third = price(epsilon="1/3").epsilon
    assert third == Fraction(333333333, 10**9)
    budget = Budget.for_epsilon_delta(epsilon=1)
    spent = budget.zero()
    for _ in range(3):
        spent = budget.add(spent, budget.charge(PureEvent(epsilon=third)))
    assert spent == ((999_999_999,),)
