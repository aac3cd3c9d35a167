"""Composition: repetition, nesting and disjoint parts, written here once for every accountant.

Basic composition is the first of them: epsilons add up, and so do deltas.
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
"""What one leaf costs; None where the accountant cannot express it."""

Bag = Counter[Leaf | Parallel]
"""Leaves and irreducible parallel events, each with the number of times it happened."""


def flatten(event: Event) -> Bag:
    """Count what happened, without nesting and repetition.

    Equal parts of a parallel event reduce to one of them, or to two where a person may be replaced
    and so leave one part and enter another.
    """
    match event:
        case Composed(events):
            return sum((flatten(part) for part in events), Bag())
        case Repeated(inner, count):
            return _times(flatten(inner), count)
        case Parallel(parts, relation):
            bags = [flatten(part) for part in parts]
            if any(bag != bags[0] for bag in bags):
                return Bag({event: 1})
            return _times(bags[0], min(_PARTS_OF_ONE_PERSON[relation], len(bags)))
        case _:
            return Bag({event: 1})


def total(event: Event, price: LeafPrice) -> Amounts | None:
    """Add up what an event costs; None when any leaf of it cannot be expressed."""
    amounts: Amounts | None = None
    for atom, count in flatten(event).items():
        cost = _parallel(atom, price) if isinstance(atom, Parallel) else price(atom)
        if cost is None:
            return None
        cost = tuple(count * amount for amount in cost)
        amounts = cost if amounts is None else tuple(map(Fraction.__add__, amounts, cost))
    return amounts


def _parallel(event: Parallel, price: LeafPrice) -> Amounts | None:
    """Take the largest part, or the two largest, of each amount on its own."""
    costs = [total(part, price) for part in event.parts]
    known = [cost for cost in costs if cost is not None]
    if len(known) < len(costs):
        return None
    largest = _PARTS_OF_ONE_PERSON[event.relation]
    return tuple(
        sum(sorted(amounts, reverse=True)[:largest], Fraction(0))
        for amounts in zip(*known, strict=True)
    )


def _times(bag: Bag, count: int) -> Bag:
    return Bag({atom: count * number for atom, number in bag.items()})


# A change that is allowed reaches one part (a person comes or goes), or two (a person is replaced,
# so that one part loses a row and another one gains it).
_PARTS_OF_ONE_PERSON = {Neighbours.ADD_REMOVE: 1, Neighbours.REPLACE_ONE: 2}


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
