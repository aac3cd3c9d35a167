"""Events: frozen records of the mechanisms that ran; accountants turn them into privacy losses.

A leaf names one use of one mechanism by its exact parameters. Sensitivities and noise are in steps
of the grid on which the noise was drawn, and hold for the neighbour relation of the privacy unit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, cast

from sfumato.data.schema.unit import Neighbours
from sfumato.errors import ParameterError
from sfumato.exact_numbers import integer_at_least, positive_delta, store, store_positive


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


def _some_events(events: object) -> tuple[object, ...]:
    if not isinstance(events, tuple | list) or not events:
        raise ParameterError("parameter_missing", "A composed event must list at least one event.")
    return tuple(events)


_VERSION = 1
_RATIO = re.compile(r"\d{1,2000}/[1-9]\d{0,2000}", re.ASCII)
_DEPTH = 64

_KINDS: dict[str, type[Event]] = {
    "pure": PureEvent,
    "laplace-noise": LaplaceNoise,
    "gaussian-noise": GaussianNoise,
    "exponential-choice": ExponentialChoice,
    "randomized-response": RandomizedResponseEvent,
    "threshold-keys": ThresholdKeysEvent,
    "approx": ApproxEvent,
    "concentrated": ConcentratedEvent,
    "composed": Composed,
    "repeated": Repeated,
    "parallel": Parallel,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def to_record(event: Event) -> dict[str, object]:
    """Write an event as JSON-able data; exact numbers become texts like "1/10"."""
    return {"version": _VERSION, **_encode_event(event, _DEPTH)}


def from_record(record: object) -> Event:
    """Read what `to_record` wrote; anything else is refused."""
    if not isinstance(record, dict) or record.get("version") != _VERSION:
        raise _bad_record(f"it must be an object of version {_VERSION}")
    return _decode_event({k: v for k, v in record.items() if k != "version"}, _DEPTH)


def _encode_event(event: Event, depth: int) -> dict[str, object]:
    # A limit on the depth, so that no stored event exhausts the stack of a reader.
    if depth == 0:
        raise ParameterError(
            "event_unsupported", f"Events must not nest deeper than {_DEPTH} levels."
        )
    values = {field.name: getattr(event, field.name) for field in fields(event)}
    return {
        "kind": _NAMES[type(event)],
        **{name: _encode(value, depth) for name, value in values.items()},
    }


def _encode(value: object, depth: int) -> object:
    # Exact numbers are written as ratios: a float in JSON would change the recorded cost.
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    if isinstance(value, tuple):
        return [_encode_event(event, depth - 1) for event in value]
    if isinstance(value, Neighbours):
        return value.value
    return value if isinstance(value, int) else _encode_event(cast("Event", value), depth - 1)


def _decode_event(record: object, depth: int) -> Event:
    if depth == 0:
        raise ParameterError(
            "event_unsupported", f"Events must not nest deeper than {_DEPTH} levels."
        )
    kind = _KINDS.get(str(record.get("kind"))) if isinstance(record, dict) else None
    if not isinstance(record, dict) or kind is None:
        raise _bad_record(f"kind must be one of {', '.join(_KINDS)}")
    names = {field.name for field in fields(kind)}
    if record.keys() - {"kind"} != names:
        raise _bad_record(f"{record['kind']} must have exactly the fields {', '.join(names)}")
    return kind(**{name: _decode(name, record[name], depth) for name in sorted(names)})


def _decode(name: str, value: object, depth: int) -> Any:
    if name in {"events", "parts"} and isinstance(value, list):
        return tuple(_decode_event(event, depth - 1) for event in value)
    if name == "event":
        return _decode_event(value, depth - 1)
    if name == "relation" and value in {relation.value for relation in Neighbours}:
        return Neighbours(str(value))
    if name in {"count", "categories"} and isinstance(value, int):
        return value
    if isinstance(value, str) and _RATIO.fullmatch(value):
        return Fraction(value)
    raise _bad_record(f"{name} has a value that no event writes")


def _bad_record(reason: str) -> ParameterError:
    return ParameterError("record_invalid", f"The record of an event cannot be read: {reason}.")
