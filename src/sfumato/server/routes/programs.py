"""Administration: which native programs others than the owner may run."""

from __future__ import annotations

from typing import Any

from sfumato.server.request_schemas import NAME, SOURCE, Input
from sfumato.server.routing import Call, Reply, Route

_APPROVAL: dict[str, Any] = {
    "type": "object",
    "properties": {
        "digest": {"type": "string"},
        "function": {"type": "string"},
        "helper": {"type": ["string", "null"]},
        "approved": {"type": "string"},
        "operator": {"type": "string"},
    },
    "required": ["digest", "function", "helper", "approved", "operator"],
}


def programs(call: Call) -> Reply:
    """Every approved program."""
    return Reply({"programs": [one.to_json() for one in call.vault.programs.list()]})


def approve(call: Call) -> Reply:
    """Approve a program by its text."""
    said = call.values
    source, function, helper = said["program"], said["function"], said.get("helper")
    operator = call.operator
    made = call.vault.programs.approve_source(source, function, helper, operator=operator)
    return Reply(made.to_json())


def revoke(call: Call) -> Reply:
    """Revoke an approval."""
    gone = call.vault.programs.revoke(call.path["digest"], operator=call.operator)
    return Reply({"revoked": gone})


ROUTES = (
    Route(
        method="GET",
        path="/admin/programs",
        told="Every approved program, the last approved first.",
        handler=programs,
        scope="admin",
        owner=True,
        refusals=(404,),
        gives={
            "type": "object",
            "properties": {"programs": {"type": "array", "items": _APPROVAL}},
            "required": ["programs"],
        },
    ),
    Route(
        method="POST",
        path="/admin/programs",
        told="Let whoever may send code run this Python program, which you have read.",
        handler=approve,
        scope="admin",
        owner=True,
        status=201,
        takes=(
            Input("program", "The source, byte for byte as it will be sent.", SOURCE, True),
            Input("function", "The function that is called with each block.", NAME, True),
            Input("helper", "The function that makes ranges, if there is one.", NAME),
        ),
        refusals=(404,),
        gives=_APPROVAL,
        example={"program": "def one(rows):\n    return 1", "function": "one"},
    ),
    Route(
        method="DELETE",
        path="/admin/programs/{digest}",
        told="Let a program no longer be run for others.",
        handler=revoke,
        scope="admin",
        owner=True,
        refusals=(404,),
        gives={
            "type": "object",
            "properties": {"revoked": {"type": "string"}},
            "required": ["revoked"],
        },
    ),
)
