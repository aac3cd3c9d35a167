"""Randomized reports for the rounds of a vault, from anybody who has a ticket: no token is asked.

Nothing here reads a row of the vault, and nothing is charged: what comes in was randomized before
it left its device. The pages where people answer are those of `gate.surveys`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.methods.local.collection import rounds_of
from sfumato.server import problem_json
from sfumato.server.request_schemas import Input
from sfumato.server.routing import JSON, Call, Reply, Route
from sfumato.server.survey_app import MOST_ITEMS, deliver, public_estimate

if TYPE_CHECKING:
    from sfumato.methods.local.collection import Collection

_REJECTED = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"index": {"type": "integer"}, "code": {"type": "string"}},
        "required": ["index", "code"],
    },
}
_ITEMS = {"type": "array", "minItems": 1, "maxItems": MOST_ITEMS, "items": {}}
_COUNT = {"type": "integer", "minimum": 1, "maximum": MOST_ITEMS}


def _round(call: Call) -> Collection:
    found = rounds_of(call.vault.config.folder)(call.path["round"])
    if found is None:
        raise problem_json.not_found()
    return found


def take(call: Call) -> Reply:
    """Keep reports, each by itself."""
    status, body = deliver(
        _round(call),
        call.values,
        lambda count: call.count_reports(call.caller.peer, call.path["round"], count),
    )
    return Reply(body, JSON if status == 200 else problem_json.MEDIA, status)


def tickets(call: Call) -> Reply:
    """Hand tickets out."""
    return Reply({"tickets": _round(call).tickets(call.values.get("count", 1))})


def estimate(call: Call) -> Reply:
    """What the reports tell."""
    return Reply(public_estimate(_round(call)))


ROUTES = (
    Route(
        method="POST",
        path="/reports/{round}",
        told="Send randomized reports to a round of a survey, each with its ticket.",
        handler=take,
        scope=None,
        takes=(
            Input(
                "reports",
                "Reports, as {ticket, report}; the others are kept where one is rejected.",
                _ITEMS,
                required=True,
            ),
        ),
        gives={
            "type": "object",
            "properties": {"accepted": {"type": "integer"}, "rejected": _REJECTED},
            "required": ["accepted", "rejected"],
        },
        refusals=(404, 429),
        example={"reports": [{"ticket": "5hKPbWy7siWkHNLl-Lny_w", "report": 0}]},
    ),
    Route(
        method="POST",
        path="/reports/{round}/tickets",
        told="Ask for tickets, one for each report.",
        handler=tickets,
        scope=None,
        takes=(Input("count", "How many; one by default.", _COUNT),),
        gives={
            "type": "object",
            "properties": {"tickets": {"type": "array", "items": {"type": "string"}}},
            "required": ["tickets"],
        },
        refusals=(404,),
        example={"count": 10},
    ),
    Route(
        method="GET",
        path="/reports/{round}",
        told="What the reports of a round tell so far: the share of each choice, with its error. "
        "It is renewed by groups of reports.",
        handler=estimate,
        scope=None,
        gives={
            "type": "object",
            "properties": {
                "n": {"type": "integer"},
                "rejected": {"type": "integer"},
                "renewed_every": {"type": "integer"},
                "estimate": {"type": "object"},
            },
            "required": ["n", "rejected", "mechanism", "epsilon", "estimate"],
        },
        refusals=(404,),
    ),
)
