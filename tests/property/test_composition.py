"""Laws of composition, for every accountant and every filter."""

from __future__ import annotations

import json
from fractions import Fraction
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.data.schema.unit import Neighbours
from sfumato.privacy.accounting import loss_distributions, renyi, zcdp
from sfumato.privacy.accounting.composition import LeafPrice, basic_price, flatten, total
from sfumato.privacy.accounting.event_records import from_record, to_record
from sfumato.privacy.accounting.events import (
    ApproxEvent,
    Composed,
    ConcentratedEvent,
    Event,
    ExponentialChoice,
    GaussianNoise,
    LaplaceNoise,
    Leaf,
    Parallel,
    PureEvent,
    RandomizedResponseEvent,
    Repeated,
    ThresholdKeysEvent,
)
from sfumato.privacy.accounting.filters import Budget

# Exact arithmetic on a busy machine has no time limit per example.
unhurried = settings(deadline=None, max_examples=40)

PRICES: dict[str, LeafPrice] = {
    "basic": basic_price,
    "zcdp": zcdp.price,
    "renyi": partial(renyi.price, orders=(Fraction(3, 2), Fraction(16))),
}
prices = pytest.mark.parametrize("price", PRICES.values(), ids=PRICES)

positive = st.fractions(min_value=Fraction(1, 10**6), max_value=3, max_denominator=10**6)
deltas = st.fractions(
    min_value=Fraction(1, 10**9), max_value=Fraction(1, 10**3), max_denominator=10**9
)
leaves: st.SearchStrategy[Leaf] = st.one_of(
    st.builds(PureEvent, epsilon=positive),
    st.builds(LaplaceNoise, scale=positive, l1_sensitivity=positive),
    st.builds(GaussianNoise, variance=positive, l2_sensitivity_squared=positive),
    st.builds(ExponentialChoice, epsilon=positive),
    st.builds(RandomizedResponseEvent, epsilon=positive, categories=st.integers(2, 9)),
    st.builds(ThresholdKeysEvent, delta=deltas),
    st.builds(ApproxEvent, epsilon=positive, delta=deltas),
    st.builds(ConcentratedEvent, rho=positive),
)
events: st.SearchStrategy[Event] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(Composed, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(Repeated, inner, st.integers(1, 5)),
        st.builds(
            Parallel,
            st.lists(inner, min_size=1, max_size=3).map(tuple),
            st.sampled_from(Neighbours),
        ),
    ),
    max_leaves=6,
)


@unhurried
@given(event=events, count=st.integers(1, 6))
@prices
def test_n_at_once_cost_what_they_cost_one_by_one(
    price: LeafPrice, event: Event, count: int
) -> None:
    once = total(event, price)
    at_once = total(Repeated(event, count), price)
    one_by_one = total(Composed((event,) * count), price)
    assert at_once == one_by_one
    assert at_once == (None if once is None else tuple(count * amount for amount in once))


@unhurried
@given(event=events, count=st.integers(1, 6))
def test_what_happened_does_not_depend_on_how_it_is_written(event: Event, count: int) -> None:
    """Every accountant, that by loss distributions too, sees only the flattened event."""
    assert flatten(Repeated(event, count)) == flatten(Composed((event,) * count))
    assert flatten(Repeated(Repeated(event, 2), count)) == flatten(Repeated(event, 2 * count))


@pytest.mark.parametrize(
    "leaf",
    [
        PureEvent(epsilon=Fraction(11, 10)),
        RandomizedResponseEvent(epsilon=Fraction(11, 10), categories=4),
        GaussianNoise(variance=Fraction(4), l2_sensitivity_squared=Fraction(1)),
        ApproxEvent(epsilon=Fraction(1, 3), delta=Fraction(1, 10**9)),
    ],
    ids=lambda leaf: type(leaf).__name__,
)
def test_n_at_once_cost_what_they_cost_one_by_one_by_loss_distributions(leaf: Leaf) -> None:
    delta = Fraction(1, 10**6)
    at_once = loss_distributions.epsilon(Repeated(leaf, 10), delta=delta)
    assert at_once == loss_distributions.epsilon(Composed((leaf,) * 10), delta=delta)
    assert at_once > 3 * loss_distributions.epsilon(leaf, delta=delta)


@unhurried
@given(event=events, other=events)
@prices
def test_composition_adds_up_in_any_order(price: LeafPrice, event: Event, other: Event) -> None:
    apart = total(event, price), total(other, price)
    together = total(Composed((event, other)), price)
    assert together == total(Composed((other, Composed((event,)))), price)
    if apart[0] is None or apart[1] is None:
        assert together is None
    else:
        assert together == tuple(map(Fraction.__add__, apart[0], apart[1]))


@unhurried
@given(parts=st.lists(events, min_size=1, max_size=4), relation=st.sampled_from(Neighbours))
@prices
def test_disjoint_parts_cost_the_largest_or_the_two_largest(
    price: LeafPrice, parts: list[Event], relation: Neighbours
) -> None:
    costs = [total(part, price) for part in parts]
    together = total(Parallel(tuple(parts), relation), price)
    known = [cost for cost in costs if cost is not None]
    if len(known) < len(costs):
        assert together is None
        return
    people = 1 if relation is Neighbours.ADD_REMOVE else 2
    columns = zip(*known, strict=True)
    assert together == tuple(sum(sorted(column)[-people:]) for column in columns)


@unhurried
@given(event=events)
def test_events_survive_json(event: Event) -> None:
    assert from_record(json.loads(json.dumps(to_record(event)))) == event


@unhurried
@given(
    asked=st.lists(events, max_size=6),
    epsilon=st.fractions(min_value=Fraction(1, 10), max_value=10, max_denominator=1000),
    delta=deltas | st.just(Fraction(0)),
)
def test_a_budget_never_grants_more_than_it_promises(
    asked: list[Event], epsilon: Fraction, delta: Fraction
) -> None:
    """Whatever was granted fits one unbroken filter by exact arithmetic on the events."""
    budget = Budget.for_epsilon_delta(epsilon=epsilon, delta=delta)
    spent, granted = budget.zero(), list[Event]()
    for event in asked:
        charge = budget.charge(event)
        if budget.admits(spent, charge):
            spent = budget.add(spent, charge)
            granted.append(event)
    if not granted:
        assert spent == budget.zero()
        return
    unbroken = [one for one, part in zip(budget.filters, spent, strict=True) if part is not None]
    assert unbroken
    for one in unbroken:
        amounts = total(Composed(tuple(granted)), one.price)
        assert amounts is not None
        limits = [limit for _, limit, _ in one.limits]
        assert all(amount <= limit for amount, limit in zip(amounts, limits, strict=True))


@unhurried
@given(
    epsilon=st.fractions(min_value=Fraction(1, 10**9), max_value=10, max_denominator=10**9),
    delta=st.fractions(min_value=Fraction(1, 10**18), max_value=Fraction(9, 10)),
)
def test_a_budget_promises_exactly_what_was_asked_for(epsilon: Fraction, delta: Fraction) -> None:
    loss = Budget.for_epsilon_delta(epsilon=epsilon, delta=delta).loss()
    assert (loss.epsilon, getattr(loss, "delta", 0)) == (epsilon, delta)


@unhurried
@given(event=events, count=st.integers(1, 6))
def test_a_charge_is_rounded_up_once_and_by_less_than_a_unit(event: Event, count: int) -> None:
    budget = Budget.for_epsilon_delta(epsilon=10, delta=Fraction(1, 2))
    for one, part in zip(budget.filters, budget.charge(Repeated(event, count)), strict=True):
        amounts = total(event, one.price)
        if part is not None and amounts is not None:
            for units, amount, (_, _, unit) in zip(part, amounts, one.limits, strict=True):
                assert 0 <= units * unit - count * amount < unit
