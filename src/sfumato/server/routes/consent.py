"""Registries of consent, for the owner: who agreed to what. No address names a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.server.request_schemas import FLAG, NAME, Input
from sfumato.server.routing import Call, Reply, Route

if TYPE_CHECKING:
    from sfumato.vault.consent.registry import ConsentRegistry

_CSV = "text/csv"
_ANSWER = {"type": "string", "enum": ["yes", "no", "never asked"]}
_PERSON: dict[str, Any] = {
    "anyOf": [
        {"type": "string", "minLength": 1, "maxLength": 1000},
        {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
    ]
}
_SAID = {
    "type": "object",
    "properties": {
        "person": _PERSON,
        "purpose": NAME,
        "agreed": FLAG,
        "time": {"type": "string", "maxLength": 40},
    },
    "required": ["person", "purpose", "agreed"],
    "additionalProperties": False,
}
_COUNTS = {
    "type": "object",
    "properties": {"yes": {"type": "integer"}, "no": {"type": "integer"}},
    "required": ["yes", "no"],
}
_WHICH = {"population": {"type": "string"}, "version": {"type": "integer"}}
_REGISTRY = {
    "type": "object",
    "properties": {
        **_WHICH,
        "purposes": {"type": "object", "additionalProperties": _COUNTS},
        "person": {"enum": ["integer", "text"]},
    },
    "required": ["population", "version", "purposes", "person"],
}
_CHANGED = {
    "type": "object",
    "properties": {
        **_WHICH,
        **{name: {"type": "integer"} for name in ("changed", "unchanged", "older")},
    },
    "required": ["population", "version", "changed", "unchanged", "older"],
}
_OF_PERSON = {
    "type": "object",
    "properties": {
        **_WHICH,
        "purposes": {"type": "object", "additionalProperties": _ANSWER},
        "history": {"type": "array", "items": {"type": "object"}},
    },
    "required": ["population", "version", "purposes", "history"],
}


def listed(call: Call) -> Reply:
    """All registries, by how many agree."""
    found = [call.vault.consent(one) for one in call.vault.consents]
    return Reply({"registries": [one.show() | {"person": str(one.kind)} for one in found]})


def changed(call: Call) -> Reply:
    """What people say is written down, all or none of it."""
    said = [
        (one["person"], one["purpose"], one["agreed"], one.get("time"))
        for one in call.values["changes"]
    ]
    return Reply(_registry(call).change(said, operator=call.caller.principal))


def person(call: Call) -> Reply:
    """How one person stands, and all that they said."""
    return Reply(_registry(call).show(call.values["person"]))


def exported(call: Call) -> Reply:
    """All that stands, as a file that can be imported."""
    registry = _registry(call)
    name = f"consent-{registry.population}.csv"
    return Reply(registry.to_csv().encode(), _CSV, file_name=name)


def _registry(call: Call) -> ConsentRegistry:
    return call.vault.consent(call.path["population"])


ROUTES = (
    Route(
        method="GET",
        path="/admin/consent",
        told="The registries of consent: how many agree to each purpose; for the owner.",
        handler=listed,
        scope="admin",
        owner=True,
        gives={
            "type": "object",
            "properties": {"registries": {"type": "array", "items": _REGISTRY}},
            "required": ["registries"],
        },
    ),
    Route(
        method="POST",
        path="/admin/consent/{population}/changes",
        told="Write down what people agree to or withdraw, all of it or nothing; for the owner.",
        handler=changed,
        scope="admin",
        owner=True,
        takes=(
            Input(
                "changes",
                "Who agrees (true) or withdraws (false), from which purpose, and when.",
                {"type": "array", "items": _SAID, "minItems": 1, "maxItems": 10_000},
                required=True,
            ),
        ),
        gives=_CHANGED,
        refusals=(404,),
        example={"changes": [{"person": 1042, "purpose": "research", "agreed": False}]},
    ),
    Route(
        method="POST",
        path="/admin/consent/{population}/person",
        told="How a person stands, and all that they said; for the owner.",
        handler=person,
        scope="admin",
        owner=True,
        takes=(Input("person", "As the data has them.", _PERSON, required=True),),
        gives=_OF_PERSON,
        refusals=(404,),
        example={"person": 1042},
    ),
    Route(
        method="GET",
        path="/admin/consent/{population}/file",
        told="All that stands, as a CSV that can be imported; for the owner.",
        handler=exported,
        scope="admin",
        owner=True,
        media=(_CSV,),
        refusals=(404,),
    ),
)
