"""The independent checker counts every event in every filter as the ledger does."""

from __future__ import annotations

import io
from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fixtures.ledgers import BODY

from sfumato.data.schema.unit import Neighbours
from sfumato.errors import BudgetError, ParameterError
from sfumato.privacy.accounting import events as e
from sfumato.privacy.accounting.filters import (
    ApproxFilter,
    Budget,
    PureFilter,
    RenyiFilter,
    ZcdpFilter,
)
from sfumato.privacy.ledger.checker import check
from sfumato.privacy.ledger.memory import memory_ledger

if TYPE_CHECKING:
    from sfumato.privacy.accounting.events import Event

amounts = st.fractions(Fraction(1, 1000), Fraction(3), max_denominator=1009)
deltas = st.fractions(Fraction(1, 10**9), Fraction(1, 10**4), max_denominator=10**9)
counts = st.integers(2, 40)
leaves: st.SearchStrategy[Event] = st.one_of(
    st.builds(e.PureEvent, epsilon=amounts),
    st.builds(e.LaplaceNoise, scale=amounts, l1_sensitivity=amounts),
    st.builds(e.GaussianNoise, variance=amounts, l2_sensitivity_squared=amounts),
    st.builds(e.ExponentialChoice, epsilon=amounts),
    st.builds(e.RandomizedResponseEvent, epsilon=amounts, categories=counts),
    st.builds(e.ThresholdKeysEvent, delta=deltas),
    st.builds(e.ApproxEvent, epsilon=amounts, delta=deltas),
    st.builds(e.ConcentratedEvent, rho=amounts),
)
nested = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(e.Composed, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(e.Repeated, inner, counts),
        st.builds(
            e.Parallel,
            st.lists(inner, min_size=1, max_size=3).map(tuple),
            st.sampled_from(Neighbours),
        ),
    ),
    max_leaves=5,
)
WHOLE = Budget(
    (
        PureFilter(epsilon=Fraction(50)),
        ApproxFilter(epsilon=Fraction(60), delta=Fraction(1, 100)),
        ZcdpFilter(rho=Fraction(9), delta=Fraction(1, 100), conversion_delta=Fraction(1, 100)),
        RenyiFilter(order=Fraction(5, 2), divergence=Fraction(40), conversion_delta=Fraction(1, 9)),
    )
)


@settings(max_examples=60, deadline=None)
@given(st.lists(nested, min_size=1, max_size=6))
def test_both_count_alike(asked: list[Event]) -> None:
    ledger = memory_ledger()
    ledger.open_account("visits", budget=WHOLE)
    for number, event in enumerate(asked):
        with suppress(BudgetError):
            ledger.reserve(
                event,
                accounts=["visits"],
                principal="alice",
                request_id=str(number),
                body_digest=BODY,
            )
    raised = Budget((*WHOLE.filters[:3], PureFilter(epsilon=Fraction(5000))))
    with suppress(ParameterError):  # below what was spent
        ledger.set_limit("visits", budget=raised, operator="root")
    target = io.StringIO()
    ledger.export(target)
    spent = ledger.spent("visits")
    assert check(target.getvalue().splitlines()) == {
        "visits": [None if part is None else list(part) for part in spent]
    }
    ledger.verify()
