"""Basic composition: epsilons add up, and so do deltas."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.errors import ParameterError
from sfumato.privacy.composition import total
from sfumato.privacy.events import ApproxEvent, GaussianNoise, ThresholdKeys
from sfumato.privacy.losses import Approx, Pure

if TYPE_CHECKING:
    from sfumato.privacy.composition import Amounts
    from sfumato.privacy.events import Event, Leaf


def price(leaf: Leaf) -> Amounts | None:
    """Price a leaf as (epsilon, delta); Gaussian noise has no such price without a chosen delta."""
    match leaf:
        case GaussianNoise():
            return None
        case ThresholdKeys(delta=delta):
            return Fraction(0), delta
        case ApproxEvent(epsilon=epsilon, delta=delta):
            return epsilon, delta
        case _:
            return leaf.epsilon, Fraction(0)


def guarantee(event: Event) -> Pure | Approx:
    """State the loss of an event by basic composition, exactly.

    *Guarantee*: (sum of epsilons, sum of deltas), also when events are chosen adaptively.
    *Edges*: Gaussian noise is refused (`event_not_expressible`).
    *Reference*: Dwork & Roth 2014, Theorem 3.16; Rogers et al. 2016 for adaptive parameters.
    """
    amounts = total(event, price)
    if amounts is None:
        raise ParameterError(
            "event_not_expressible",
            "Basic composition cannot express Gaussian noise, which has no epsilon of its own. "
            "Use the zCDP or Renyi accountant with a delta.",
        )
    epsilon, delta = amounts
    return Approx(epsilon=epsilon, delta=delta) if delta else Pure(epsilon=epsilon)
