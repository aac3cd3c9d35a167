"""Composition of events, shared by every accountant: repetition, nesting and disjoint parts.

Also the first accountant, basic composition: epsilons add up, and so do deltas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction

from sfumato.data.schema.unit import Neighbours
from sfumato.errors import ParameterError
from sfumato.privacy.accounting.events import (
    ApproxEvent,
    Composed,
    ConcentratedEvent,
    Event,
    GaussianNoise,
    Leaf,
    Parallel,
    Repeated,
    ThresholdKeysEvent,
)
from sfumato.privacy.accounting.losses import Approx, Pure

Amounts = tuple[Fraction, ...]
"""Exact amounts that add up under composition, one per quantity that an accountant follows."""

LeafPrice = Callable[[Leaf], "Amounts | None"]
"""Prices one leaf; returns None where the accountant cannot express it."""

Bag = Counter[Leaf | Parallel]
"""Leaves and irreducible parallel events, each with the number of times it happened."""


def flatten(event: Event) -> Bag:
    """Count the leaves of an event, with nesting and repetition resolved.

    Equal parts of a parallel event reduce to one part, or to two where a person may be replaced:
    a replaced person leaves one part and enters another.
    """
    match event:
        case Composed(events):
            return sum((flatten(component) for component in events), Bag())
        case Repeated(inner, count):
            return _multiplied(flatten(inner), count)
        case Parallel(parts, relation):
            bags = [flatten(component) for component in parts]
            if any(bag != bags[0] for bag in bags):
                return Bag({event: 1})
            return _multiplied(bags[0], min(_PARTS_PER_PERSON[relation], len(bags)))
        case _:
            return Bag({event: 1})


def total(event: Event, price: LeafPrice) -> Amounts | None:
    """Add up the cost of an event; None when the accountant cannot express one of its leaves."""
    amounts: Amounts | None = None
    for atom, count in flatten(event).items():
        cost = _parallel(atom, price) if isinstance(atom, Parallel) else price(atom)
        if cost is None:
            return None
        cost = tuple(count * amount for amount in cost)
        amounts = cost if amounts is None else tuple(map(Fraction.__add__, amounts, cost))
    return amounts


def _parallel(event: Parallel, price: LeafPrice) -> Amounts | None:
    """Sum the one or two largest parts of each amount.

    Each amount is maximised by itself, which is an upper bound: the part with the largest epsilon
    need not be the part with the largest delta.
    """
    costs = [total(component, price) for component in event.parts]
    known = [cost for cost in costs if cost is not None]
    if len(known) < len(costs):
        return None
    largest = _PARTS_PER_PERSON[event.relation]
    return tuple(
        sum(sorted(amounts, reverse=True)[:largest], Fraction(0))
        for amounts in zip(*known, strict=True)
    )


def _multiplied(bag: Bag, count: int) -> Bag:
    return Bag({atom: count * number for atom, number in bag.items()})


# How many parts one neighbouring change can touch: one when a person is added or removed, two when
# a person is replaced (one part loses a row, another gains one).
_PARTS_PER_PERSON = {Neighbours.ADD_REMOVE: 1, Neighbours.REPLACE_ONE: 2}


def basic_price(leaf: Leaf) -> Amounts | None:
    """Price a leaf as (epsilon, delta); Gaussian noise has no such price without a chosen delta."""
    match leaf:
        case GaussianNoise() | ConcentratedEvent():
            return None
        case ThresholdKeysEvent(delta=delta):
            return Fraction(0), delta
        case ApproxEvent(epsilon=epsilon, delta=delta):
            return epsilon, delta
        case _:
            return leaf.epsilon, Fraction(0)


def basic_guarantee(event: Event) -> Pure | Approx:
    """State the loss of an event by basic composition, exactly.

    *Guarantee*: (sum of epsilons, sum of deltas), also when events are chosen adaptively.
    *Edges*: Gaussian noise is refused (`event_unsupported`).
    *Reference*: Dwork & Roth 2014, Theorem 3.16; Rogers et al. 2016 for adaptive parameters.
    """
    amounts = total(event, basic_price)
    if amounts is None:
        raise ParameterError(
            "event_unsupported",
            "Basic composition cannot express Gaussian noise, which has no epsilon of its own.",
            hint="Use the zCDP or Renyi accountant with a delta.",
        )
    epsilon, delta = amounts
    return Approx(epsilon=epsilon, delta=delta) if delta else Pure(epsilon=epsilon)
