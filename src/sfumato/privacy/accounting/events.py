"""Events: frozen records of the mechanisms that ran; accountants turn them into privacy losses.

A leaf names one use of one mechanism by its exact parameters. Sensitivities and noise are in steps
of the grid on which the noise was drawn, and hold for the neighbour relation of the privacy unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.data.schema.unit import Neighbours
from sfumato.errors import ParameterError
from sfumato.exact_numbers import integer_at_least, positive_delta, store, store_positive

if TYPE_CHECKING:
    from fractions import Fraction


@dataclass(frozen=True, kw_only=True)
class _OfEpsilon:
    epsilon: Fraction

    def __post_init__(self) -> None:
        store_positive(self, "epsilon")


class PureEvent(_OfEpsilon):
    """Any mechanism that is epsilon-differentially private."""


@dataclass(frozen=True, kw_only=True)
class LaplaceNoise:
    """Discrete Laplace (two-sided geometric) noise on answers of a given L1 sensitivity."""

    scale: Fraction
    l1_sensitivity: Fraction

    def __post_init__(self) -> None:
        store_positive(self, "scale", "l1_sensitivity")

    @property
    def epsilon(self) -> Fraction:
        """The pure loss, sensitivity over scale."""
        return self.l1_sensitivity / self.scale


@dataclass(frozen=True, kw_only=True)
class GaussianNoise:
    """Discrete Gaussian noise on integer answers; the L2 sensitivity comes squared, so rational."""

    variance: Fraction
    l2_sensitivity_squared: Fraction

    def __post_init__(self) -> None:
        store_positive(self, "variance", "l2_sensitivity_squared")

    @property
    def rho(self) -> Fraction:
        """The zCDP loss (Canonne, Kamath & Steinke 2020, Theorem 4 and its corollaries)."""
        return self.l2_sensitivity_squared / (2 * self.variance)


class ExponentialChoice(_OfEpsilon):
    """A choice by the exponential mechanism: epsilon-private and of bounded range epsilon.

    Only for the exponential mechanism itself; permute-and-flip and noisy maxima with other noise
    have no bounded range and are a `PureEvent`.
    """


@dataclass(frozen=True, kw_only=True)
class RandomizedResponseEvent(_OfEpsilon):
    """One answer by randomized response over `categories` values, in which replacing is hidden."""

    categories: int

    def __post_init__(self) -> None:
        super().__post_init__()
        integer_at_least(self.categories, "categories", least=2)


@dataclass(frozen=True, kw_only=True)
class ThresholdKeysEvent:
    """Release of keys found in the data whose noisy count passed a threshold.

    `delta` bounds the chance that a key of one person alone appears. The noise on the counts is an
    event of its own.
    """

    delta: Fraction

    def __post_init__(self) -> None:
        store(self, delta=positive_delta(self.delta))


@dataclass(frozen=True, kw_only=True)
class ApproxEvent(_OfEpsilon):
    """Any mechanism that is (epsilon, delta)-differentially private, delta above 0."""

    delta: Fraction

    def __post_init__(self) -> None:
        super().__post_init__()
        store(self, delta=positive_delta(self.delta))


@dataclass(frozen=True, kw_only=True)
class ConcentratedEvent:
    """Any mechanism that is rho-zero-concentrated private, such as adaptive rounds under one rho.

    The rounds may choose their own parameters as they go, as long as their rhos never pass this.
    """

    rho: Fraction

    def __post_init__(self) -> None:
        store_positive(self, "rho")


@dataclass(frozen=True)
class Composed:
    """Several events over the same people, in any order, later ones possibly seeing earlier."""

    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        store(self, events=_some_events(self.events))


@dataclass(frozen=True)
class Repeated:
    """One event `count` times over the same people, each time with fresh noise."""

    event: Event
    count: int

    def __post_init__(self) -> None:
        _checked_event(self.event)
        integer_at_least(self.count, "count", least=1)


@dataclass(frozen=True)
class Parallel:
    """Events over parts of the data that are proven disjoint: a person is in one part at a time.

    Where people are replaced, each part must state its cost for a person that enters the part,
    leaves it, or is replaced within it.
    """

    parts: tuple[Event, ...]
    relation: Neighbours

    def __post_init__(self) -> None:
        store(self, parts=_some_events(self.parts), relation=Neighbours(self.relation))


Leaf = (
    PureEvent
    | LaplaceNoise
    | GaussianNoise
    | ExponentialChoice
    | RandomizedResponseEvent
    | ThresholdKeysEvent
    | ApproxEvent
    | ConcentratedEvent
)
"""One use of one mechanism."""

Event = Leaf | Composed | Repeated | Parallel
"""A leaf, or a composition of events."""


def _some_events(events: object) -> tuple[Event, ...]:
    if not isinstance(events, tuple | list) or not events:
        raise ParameterError(
            "parameter_missing",
            "A composed event must list at least one event.",
            parameter="events",
        )
    return tuple(_checked_event(event) for event in events)


def _checked_event(event: object) -> Event:
    # A purchase has an epsilon too: as a part it would be summed without the delta of its pair.
    if not isinstance(event, Event):
        raise ParameterError(
            "event_unsupported", f"A {type(event).__name__} cannot be part of an event."
        )
    return event
