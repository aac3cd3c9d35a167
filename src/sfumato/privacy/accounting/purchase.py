"""Purchases: an event together with the (epsilon, delta) that was paid for it.

People reckon with what they paid. Three releases at epsilon 1 should fit an epsilon of 3, whatever
noise the methods drew. Gaussian noise has no epsilon of its own, so its event alone cannot be added
to a sum of epsilons. A purchase states the pair, and it exists only where the pair is proven: it is
proven when a plan is made, and again whenever a stored one is read. A filter that adds up epsilons
and deltas counts the pair; a filter of concentrated or Renyi privacy counts the event.

A purchase is always outermost. Disjoint parts and replaced people are inside of its proof; events
refuse a purchase as a part.

Decision `budgets`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from sfumato.errors import ParameterError
from sfumato.exact_numbers import EPSILON_UNIT, ceil_units, probability, store, store_positive
from sfumato.privacy.accounting import zcdp
from sfumato.privacy.accounting.composition import basic_price, total
from sfumato.privacy.accounting.events import ApproxEvent, Event, PureEvent

if TYPE_CHECKING:
    from fractions import Fraction

    from sfumato.privacy.accounting.price import Price


@dataclass(frozen=True, kw_only=True)
class Purchase:
    """An event for which an epsilon and a delta were paid.

    *Guarantee*: the event is (epsilon, delta)-differentially private. The pair is fixed before any
    output, so purchases add up under adaptive composition.
    *Edges*: a pair that is not proven is refused.
    *Reference*: Rogers et al. 2016, Theorem 3.6, for the sum of pairs.
    """

    event: Event
    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        if not isinstance(self.event, Event):
            raise ParameterError("event_unsupported", "Only an event can be purchased.")
        store_positive(self, "epsilon")
        store(self, delta=probability(self.delta, "delta"))
        if not costs_at_most(self.event, self.epsilon, self.delta):
            raise ParameterError(
                "event_unsupported",
                f"The event is not proven to keep epsilon {float(self.epsilon):.10g} and delta "
                f"{float(self.delta):.3g}.",
                hint="Charge the event without a pair.",
            )


Charged = Event | Purchase
"""What the ledger charges: an event, or an event with the pair that was paid for it."""


@lru_cache(maxsize=4096)
def costs_at_most(event: Event, epsilon: Fraction, delta: Fraction) -> bool:
    """Prove that an event keeps a pair, by sums or by concentrated privacy, rounded against us."""
    sums = total(event, basic_price)
    if sums is not None and sums[0] <= epsilon and sums[1] <= delta:
        return True
    return delta > 0 and zcdp.delta(event, epsilon=epsilon) <= delta


def event_of(charged: Charged) -> Event:
    """The event itself: what mechanisms run, and what concentrated privacy counts."""
    return charged.event if isinstance(charged, Purchase) else charged


def summed_event(charged: Charged) -> Event:
    """The event that a filter of sums counts: for a purchase, its pair."""
    if not isinstance(charged, Purchase):
        return charged
    if charged.delta == 0:
        return PureEvent(epsilon=charged.epsilon)
    return ApproxEvent(epsilon=charged.epsilon, delta=charged.delta)


def purchase(price: Price, event: Event, *, usual_delta: Fraction | None = None) -> Charged:
    """Make what is charged for an event that was bought at a price.

    Parameters
    ----------
    price : Price
        What the caller offered. The noise of the event was calibrated to it.
    event : Event
        The mechanisms that will run.
    usual_delta : Fraction, optional
        The delta at which a price in rho gets an epsilon, so that it can be added to others.

    Returns
    -------
    Event or Purchase
        The event alone where its own sums are within the price, or where no pair is proven.
    """
    sums = total(event, basic_price)
    if price.epsilon is not None:
        epsilon, delta = price.epsilon, price.delta
        if sums is not None and sums[0] <= epsilon and sums[1] <= delta:
            return event
    else:
        if sums is not None or not usual_delta or zcdp.guarantee(event)[1] >= usual_delta:
            return event
        # Whole units, rounded up: the pair of a price in rho is charged as it is shown.
        least = zcdp.epsilon(event, delta=usual_delta)
        epsilon, delta = ceil_units(least, EPSILON_UNIT) * EPSILON_UNIT, usual_delta
    if epsilon <= 0 or not costs_at_most(event, epsilon, delta):
        return event
    return Purchase(event=event, epsilon=epsilon, delta=delta)
