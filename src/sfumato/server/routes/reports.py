"""Randomized reports for the survey rounds of a vault, from anybody who has a ticket.

No token is required. Nothing here reads a row of the vault, and nothing is charged: reports are
randomized before they leave a device. The pages for people are those of `server.survey_app`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from sfumato.methods.local.collection import rounds_of
from sfumato.operations.fields import Request, arg, read
from sfumato.server import problem_json
from sfumato.server.routing import JSON, Call, Reply, Route
from sfumato.server.survey_app import MOST_ITEMS, deliver, public_estimate

if TYPE_CHECKING:
    from sfumato.methods.local.collection import Collection


class SendReports(Request):
    """Send randomized reports."""

    reports: Annotated[
        Annotated[list[Any], Meta(min_length=1, max_length=MOST_ITEMS)],
        arg("Reports, as {ticket, report}; where one is rejected, the others are stored."),
    ]


class TakeTickets(Request):
    """Take tickets, one for each report."""

    count: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_ITEMS)], arg("The number of tickets; by default 1.")
    ] = 1


_REJECTED = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"index": {"type": "integer"}, "code": {"type": "string"}},
        "required": ["index", "code"],
    },
}


def _round(call: Call) -> Collection:
    """The round of the path; refused if there is none."""
    collection = rounds_of(call.vault.config.folder)(call.path["round"])
    if collection is None:
        raise problem_json.not_found()
    return collection


def take(call: Call) -> Reply:
    """Store reports, each by itself."""
    read(SendReports, call.values, remote=True)
    status, body = deliver(
        _round(call),
        call.values,
        lambda count: call.count_reports(call.caller.peer, call.path["round"], count),
    )
    return Reply(body, JSON if status == 200 else problem_json.MEDIA, status)


def tickets(call: Call) -> Reply:
    """Return new tickets."""
    request = read(TakeTickets, call.values, remote=True)
    return Reply({"tickets": _round(call).tickets(request.count)})


def estimate(call: Call) -> Reply:
    """The estimate from the reports so far."""
    return Reply(public_estimate(_round(call)))


ROUTES = (
    Route(
        method="POST",
        path="/reports/{round}",
        summary="Send randomized reports to a round of a survey, each with its ticket.",
        handler=take,
        scope=None,
        request=SendReports,
        answer_schema={
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
        summary="Take tickets, one for each report.",
        handler=tickets,
        scope=None,
        request=TakeTickets,
        answer_schema={
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
        summary="Estimate the share of each choice from the reports so far, with its error. The "
        "estimate is renewed by groups of reports.",
        handler=estimate,
        scope=None,
        answer_schema={
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
