"""Feeds over HTTP: read by who may, as JSON, Atom, JSON Feed and CSV; decided by owners.

Programs that read feeds show no token; they read in the name of the vault's principal of kind
public, where there is one. Decision 0312.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.server.problem_json import not_found
from sfumato.server.request_schemas import FLAG, NAME, NAMES, TEXT, WHOLE, Input
from sfumato.server.routing import JSON, Call, Reply, Route
from sfumato.vault.feeds.feed import CONTINUAL, FORMATS, written

if TYPE_CHECKING:
    from sfumato.vault.feeds.feed import Feed

_MOST_ITEMS = 1000
_FEED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "feed": {"type": "string"},
        "family": {"type": "string"},
        "dataset": {"type": "string"},
        "every": {"type": "string"},
        "cost": {"type": "object"},
        "whole_cost": {"type": "object"},
        "periods": {"type": ["integer", "null"]},
        "answered": {"type": "integer"},
    },
    "required": ["feed", "family", "dataset", "every", "cost", "whole_cost", "periods", "answered"],
}
_LIMIT = Input(
    "limit", "At most so many periods, the newest.", {**WHOLE, "minimum": 1, "maximum": _MOST_ITEMS}
)
_ADD = (
    Input("name", "What it is called.", NAME, required=True),
    Input("sql", "A question, asked of the rows of each period.", TEXT),
    Input("family", "Or a family such as publish.", NAME),
    Input("continual", "Or the rows from the beginning on, for one price.", FLAG),
    Input("dataset", "Of which data set, where no question says it.", NAME),
    Input("asked", "What it is asked: a price, and what the family takes.", {"type": "object"}),
    Input("column", "The column of dates that rows belong to periods by.", NAME, required=True),
    Input("every", "day, week, month, quarter, year, or days such as 10d.", NAME, required=True),
    Input("begins", "Its first day.", NAME),
    Input("ends", "Its last day, or never.", NAME),
    Input("delay", "How many days late rows are waited for.", WHOLE),
    Input("principal", "Who pays.", NAME),
    Input("purpose", "What for.", NAME),
    Input("to", "Who may read it; 'public' for all.", NAMES),
)
_TO = Input("to", "Who may read it from now on; 'public' for all.", NAMES, required=True)


def listed(call: Call) -> Reply:
    """The feeds that the caller may read."""
    found = call.vault.feeds.list(principal=call.caller.principal)
    return Reply({"feeds": [_told(call, one) for one in found]})


def shown(call: Call) -> Reply:
    """One feed with its newest periods; with an ending, as programs read feeds."""
    name, dot, ending = call.path["name"].partition(".")
    feed = call.vault.feeds.look_up(name, principal=call.caller.principal)
    if feed is None or (dot and ending not in FORMATS):
        raise not_found()
    limit = call.values.get(_LIMIT.name, None if ending == "csv" else 100)
    items = call.vault.feeds.read(name, principal=call.caller.principal, limit=limit)
    if not dot:
        return Reply({**_told(call, feed), "items": [one.to_json() for one in items]})
    media, body = written(feed, items, ending, f"/v1/feeds/{name}")
    return Reply(body, media)


def added(call: Call) -> Reply:
    """A new feed, with what all of it will cost."""
    said = dict(call.values)
    asked, continual = said.pop("asked", {}), said.pop("continual", False)
    if continual:
        said["family"] = CONTINUAL
    feed = call.vault.feeds.add(
        said.pop("name"), said.pop("sql", None), operator=call.operator, **said, **asked
    )
    return Reply(_told(call, feed))


def stopped(call: Call) -> Reply:
    """A feed that answers nothing more from now on."""
    return Reply(_told(call, call.vault.feeds.stop(_known(call), operator=call.operator)))


def opened(call: Call) -> Reply:
    """A feed, open to others from now on."""
    return Reply(
        _told(
            call,
            call.vault.feeds.open_to(_known(call), call.values["to"], operator=call.operator),
        )
    )


def _known(call: Call) -> str:
    if call.vault.feeds.look_up(call.path["name"], principal=call.caller.principal) is None:
        raise not_found()
    return call.path["name"]


def _told(call: Call, feed: Feed) -> dict[str, Any]:
    return call.vault.feeds.described(feed, principal=call.caller.principal)


ROUTES = (
    Route(
        method="GET",
        path="/feeds",
        told="The feeds that you may read; without a token, those that are open to the public.",
        handler=listed,
        scope="query",
        open=True,
        gives={
            "type": "object",
            "properties": {"feeds": {"type": "array", "items": _FEED}},
            "required": ["feeds"],
        },
    ),
    Route(
        method="GET",
        path="/feeds/{name}",
        told="A feed with its newest periods; ending in .atom, .json or .csv as feeds are read.",
        handler=shown,
        scope="query",
        open=True,
        takes=(_LIMIT,),
        gives=_FEED,
        media=(JSON, *(media.partition(";")[0] for media, _ in FORMATS.values())),
        refusals=(404,),
    ),
    Route(
        method="POST",
        path="/admin/feeds",
        told="Have a question answered for every period; for the owner.",
        handler=added,
        scope="admin",
        owner=True,
        takes=_ADD,
        gives=_FEED,
        refusals=(402, 403),
        example={
            "name": "visits-by-month",
            "sql": "SELECT COUNT(*) AS n FROM people",
            "column": "day",
            "every": "month",
            "asked": {"epsilon": "0.1"},
        },
    ),
    Route(
        method="POST",
        path="/admin/feeds/{name}/stop",
        told="Answer no period of a feed that ends from now on; for the owner.",
        handler=stopped,
        scope="admin",
        owner=True,
        gives=_FEED,
        refusals=(404,),
        example={},
    ),
    Route(
        method="POST",
        path="/admin/feeds/{name}/open",
        told="Let others read a feed, or nobody else any more; for the owner.",
        handler=opened,
        scope="admin",
        owner=True,
        takes=(_TO,),
        gives=_FEED,
        refusals=(404,),
        example={"to": ["public"]},
    ),
)
