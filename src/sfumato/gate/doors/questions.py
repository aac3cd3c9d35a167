"""Questions: what they would cost, and their answers."""

from __future__ import annotations

from typing import Any

from sfumato.gate.answers import ANSWER, answered
from sfumato.gate.forms import family_form, family_values
from sfumato.gate.routing import JSON, Call, Reply, Route
from sfumato.vault.families import FAMILIES, PURPOSE
from sfumato.vault.session import explain

_QUERY = FAMILIES["query"]
_EXAMPLE = {"sql": "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", "epsilon": "0.1"}
_COST = {
    "type": "object",
    "properties": {"charged": {"type": "boolean"}},
    "additionalProperties": True,
}


def asked_of(call: Call, family: Any) -> Any:
    """What the caller may ask for the purpose of the request: of one data set, or of all."""
    who = {"principal": call.caller.principal, "purpose": call.values.get(PURPOSE.name)}
    if family.of_dataset:
        return call.vault.private(call.values["dataset"], **who)
    return call.vault.questions(**who)


def explained(call: Call) -> Reply:
    """What a question would cost, how far off it would be, and what would be left."""
    asked = asked_of(call, _QUERY)
    prepared = asked.prepare(_QUERY, **family_values(_QUERY, call.values))
    after, balance = asked.left_after(prepared)
    told = explain(prepared).to_json()
    return Reply({**told, "remaining_after": after, "balance_after": balance})


def query(call: Call) -> Reply:
    """The answer to a question."""
    asked = asked_of(call, _QUERY)
    prepared = asked.prepare(_QUERY, **family_values(_QUERY, call.values))
    return answered(call, asked.run(_QUERY, prepared, request_id=call.request_id))


ROUTES = (
    Route(
        method="POST",
        path="/explain",
        told="Say what a question would cost and how far off its answer would be; spends nothing.",
        handler=explained,
        scope="plan",
        shape="explain",
        takes=family_form(_QUERY),
        refusals=(402, 403),
        example=_EXAMPLE,
        gives={
            "type": "object",
            "properties": {
                "cost": {"type": "object"},
                "expected": {"type": "array", "items": {"type": "object"}},
                "notes": {"type": "array", "items": {"type": "string"}},
                "improve": {"type": "array", "items": {"type": "string"}},
                "remaining_after": {"type": "object"},
                "balance_after": {"type": "string"},
            },
            "required": ["cost", "expected", "remaining_after"],
        },
    ),
    Route(
        method="POST",
        path="/query",
        told="Answer a question with noise and error bars, charged to your budget.",
        handler=query,
        scope="query",
        shape="query",
        takes=family_form(_QUERY),
        keyed=True,
        refusals=(402, 403, 409),
        media=(JSON, ANSWER),
        example=_EXAMPLE,
        gives={
            "type": "object",
            "properties": {
                "columns": {"type": "array", "items": {"type": "string"}},
                "rows": {"type": "array", "items": {"type": "array"}},
                "error": {"type": ["object", "null"]},
                "cost": _COST,
                "remaining": {"type": "object"},
                "receipt": {"type": "string"},
                "notes": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["columns", "rows", "error", "cost", "remaining", "receipt"],
        },
    ),
)
