"""Events and purchases as JSON-able records: what the ledger stores and reads back."""

from __future__ import annotations

import re
from dataclasses import fields
from fractions import Fraction
from typing import Any, cast

from sfumato.data.schema.unit import Neighbours
from sfumato.errors import ParameterError
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
from sfumato.privacy.accounting.purchase import Charged, Purchase

_VERSION = 1
_RATIO = re.compile(r"\d{1,2000}/[1-9]\d{0,2000}", re.ASCII)
_DEPTH = 64

_KINDS: dict[str, type[Charged]] = {
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
    "purchase": Purchase,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def to_record(charged: Charged) -> dict[str, object]:
    """Write an event or a purchase as JSON-able data; exact numbers become texts like "1/10"."""
    return {"version": _VERSION, **_encode_event(charged, _DEPTH)}


def from_record(record: object) -> Charged:
    """Read what `to_record` wrote; anything else is refused, and so is a pair without a proof."""
    if not isinstance(record, dict) or record.get("version") != _VERSION:
        raise _bad_record(f"it must be an object of version {_VERSION}")
    return _decode_event({k: v for k, v in record.items() if k != "version"}, _DEPTH)


def _encode_event(event: Charged, depth: int) -> dict[str, object]:
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


def _decode_event(record: object, depth: int) -> Charged:
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
    values = {name: _decode(name, record[name], depth) for name in sorted(names)}
    return kind(**values)


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
