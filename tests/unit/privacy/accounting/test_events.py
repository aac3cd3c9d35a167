"""Events are exact, frozen and come back from JSON as they were; anything else is refused."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from fractions import Fraction
from typing import Any

import pytest

from sfumato.data.schema.unit import Neighbours
from sfumato.errors import ParameterError
from sfumato.privacy.accounting.event_records import from_record, to_record
from sfumato.privacy.accounting.events import (
    ApproxEvent,
    Composed,
    ConcentratedEvent,
    Event,
    ExponentialChoice,
    GaussianNoise,
    LaplaceNoise,
    Parallel,
    PureEvent,
    RandomizedResponseEvent,
    Repeated,
    ThresholdKeysEvent,
)

THIRD = Fraction(1, 3)
PURE = PureEvent(epsilon=THIRD)
EVENTS: list[Event] = [
    PURE,
    LaplaceNoise(scale=Fraction(7, 2), l1_sensitivity=Fraction(2)),
    GaussianNoise(variance=Fraction(9, 4), l2_sensitivity_squared=Fraction(2)),
    ExponentialChoice(epsilon=THIRD),
    RandomizedResponseEvent(epsilon=THIRD, categories=5),
    ThresholdKeysEvent(delta=Fraction(1, 10**9)),
    ApproxEvent(epsilon=THIRD, delta=Fraction(1, 10**9)),
    ConcentratedEvent(rho=THIRD),
    Composed((PURE, ThresholdKeysEvent(delta=THIRD))),
    Repeated(PURE, 7),
    Parallel((PURE, Repeated(PURE, 2)), Neighbours.REPLACE_ONE),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_survives_json(event: Event) -> None:
    again = from_record(json.loads(json.dumps(to_record(event))))
    assert again == event
    assert hash(again) == hash(event)


def test_the_record_is_stable() -> None:
    event = Repeated(Parallel((PURE,), Neighbours.ADD_REMOVE), 2)
    part = {"kind": "pure", "epsilon": "1/3"}
    assert to_record(event) == {
        "version": 1,
        "kind": "repeated",
        "event": {"kind": "parallel", "parts": [part], "relation": "add-remove"},
        "count": 2,
    }


def test_parameters_become_exact() -> None:
    written: Any = 0.1
    assert PureEvent(epsilon=written).epsilon == Fraction(1, 10)
    with pytest.raises(FrozenInstanceError):
        PURE.epsilon = Fraction(0)  # type: ignore[misc]


def test_the_losses_of_noise() -> None:
    assert LaplaceNoise(scale=Fraction(10), l1_sensitivity=Fraction(2)).epsilon == Fraction(1, 5)
    noise = GaussianNoise(variance=Fraction(9), l2_sensitivity_squared=Fraction(2))
    assert noise.rho == Fraction(1, 9)


@pytest.mark.parametrize(
    "record",
    [
        None,
        [],
        {},
        {"kind": "pure", "epsilon": "1/3"},
        {"version": 2, "kind": "pure", "epsilon": "1/3"},
        {"version": 1, "kind": "free", "epsilon": "1/3"},
        {"version": 1, "kind": "pure"},
        {"version": 1, "kind": "pure", "epsilon": 0.3},
        {"version": 1, "kind": "pure", "epsilon": "0.3"},
        {"version": 1, "kind": "pure", "epsilon": "1/0"},
        {"version": 1, "kind": "pure", "epsilon": "1/3", "count": 2},
        {"version": 1, "kind": "composed", "events": {"kind": "pure", "epsilon": "1/3"}},
        {"version": 1, "kind": "repeated", "count": "2", "event": {"kind": "pure"}},
        {"version": 1, "kind": "parallel", "relation": "none", "parts": []},
    ],
    ids=str,
)
def test_a_wrong_record_is_refused(record: object) -> None:
    with pytest.raises(ParameterError) as refused:
        from_record(record)
    assert refused.value.code == "record_invalid"


@pytest.mark.parametrize(
    ("record", "code"),
    [
        ({"kind": "pure", "epsilon": "0/1"}, "parameter_out_of_range"),
        ({"kind": "threshold-keys", "delta": "0/1"}, "parameter_out_of_range"),
        ({"kind": "threshold-keys", "delta": "1/1"}, "parameter_out_of_range"),
        ({"kind": "composed", "events": []}, "parameter_missing"),
        (
            {"kind": "repeated", "count": 0, "event": {"kind": "pure", "epsilon": "1/3"}},
            "parameter_out_of_range",
        ),
        (
            {"kind": "repeated", "count": True, "event": {"kind": "pure", "epsilon": "1/3"}},
            "parameter_out_of_range",
        ),
        (
            {"kind": "randomized-response", "epsilon": "1/3", "categories": 1},
            "parameter_out_of_range",
        ),
    ],
)
def test_a_record_of_an_impossible_event_is_refused(record: dict[str, object], code: str) -> None:
    with pytest.raises(ParameterError) as refused:
        from_record({"version": 1, **record})
    assert refused.value.code == code


def test_deep_nesting_is_refused_in_both_directions() -> None:
    event: Event = PURE
    record: dict[str, object] = {"kind": "pure", "epsilon": "1/3"}
    for _ in range(100_000):
        record = {"kind": "composed", "events": [record]}
    for _ in range(64):
        event = Composed((event,))
    with pytest.raises(ParameterError) as refused:
        from_record({"version": 1, **record})
    assert refused.value.code == "event_unsupported"
    with pytest.raises(ParameterError) as refused:
        to_record(event)
    assert refused.value.code == "event_unsupported"
