"""Releases: what jobs gave, to look at and to download, and to open to others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.server.problem_json import not_found
from sfumato.server.request_schemas import NAME, Input
from sfumato.server.responses import ANSWER, packed
from sfumato.server.routing import JSON, Call, Reply, Route
from sfumato.vault.jobs.anonymize_job import ANONYMIZE
from sfumato.vault.stored_release import MEDIA

if TYPE_CHECKING:
    from sfumato.vault.releases import KeptRelease

_ABOUT: dict[str, Any] = {
    "release": {"type": "string"},
    "family": {"type": "string"},
    "dataset": {"type": "string"},
    "made": {"type": ["string", "null"], "format": "date"},
    "own": {"type": "boolean"},
    "principal": {"type": "string"},
    "opened_to": {"type": "array", "items": {"type": "string"}},
}
_NEEDED = ["release", "family", "dataset", "made", "own"]
_SHORT = {"type": "object", "properties": _ABOUT, "required": _NEEDED}
_WHOLE = {
    "type": "object",
    "properties": {
        **_ABOUT,
        "guarantee": {"type": "string"},
        "error": {"type": ["object", "null"]},
        "tables": {"type": "object", "additionalProperties": {"type": "object"}},
        "files": {"type": "array", "items": {"type": "string"}},
        "receipt": {"type": ["string", "null"]},
    },
    "required": [*_NEEDED, "guarantee", "tables", "files"],
}
_COPIES, _SECONDS = 4, 60.0
"""How many times the memory of its tables a file takes while it is written; how long to wait."""
_TO = Input(
    "to",
    'To whom it is open from now on: principals by name, or "public"; none shuts it again.',
    {"type": "array", "items": NAME, "maxItems": 1000},
    required=True,
)


def listed(call: Call) -> Reply:
    """What the caller may have."""
    found = call.vault.releases.list(principal=call.caller.principal)
    return Reply({"releases": [one.to_json() for one in found]})


def shown(call: Call) -> Reply:
    """One release; whole, for whom it was made and who takes it so."""
    found = _release(call)
    if call.wants(ANSWER) and found.is_own and found.family != ANONYMIZE:
        answer = found.answer()
        return Reply(packed(answer, paid=answer.charged), ANSWER)
    return Reply(found.described())


def downloaded(call: Call) -> Reply:
    """One file of a release, to be saved."""
    found, name = _release(call), call.path["file"]
    if name not in found.files:
        raise not_found()
    weight = _COPIES * sum(table.nbytes for table in found.release.tables.values())
    asker = call.vault.asker(call.caller.principal, None, ())
    with call.vault.gatekeeper.heavy.room(weight, asker, _SECONDS):
        file = found.file(name)
    return Reply(file.content, file.media, file_name=file.name)


def opened(call: Call) -> Reply:
    """A release that is open to others from now on."""
    found, to = _release(call), call.values[_TO.name]
    call.vault.releases.open_to(found.id, to, operator=call.operator)
    return Reply(_release(call).to_json())


def _release(call: Call) -> KeptRelease:
    found = call.vault.releases.look_up(call.path["release"], principal=call.caller.principal)
    if found is None:
        raise not_found()
    return found


ROUTES = (
    Route(
        method="GET",
        path="/releases",
        told="The releases that you may have: your own, and those that were opened to you.",
        handler=listed,
        scope="query",
        gives={
            "type": "object",
            "properties": {"releases": {"type": "array", "items": _SHORT}},
            "required": ["releases"],
        },
    ),
    Route(
        method="GET",
        path="/releases/{release}",
        told="A release: what it guarantees, how far off it is, and as which files it can be had.",
        handler=shown,
        scope="query",
        media=(JSON, ANSWER),
        gives=_WHOLE,
        refusals=(403, 404),
    ),
    Route(
        method="GET",
        path="/releases/{release}/{file}",
        told="A release as a file: CSV, Parquet, Arrow, GeoJSON, a page for people, or a bundle.",
        handler=downloaded,
        scope="query",
        media=tuple(one.partition(";")[0] for one in MEDIA.values()),
        refusals=(403, 404),
    ),
    Route(
        method="POST",
        path="/admin/releases/{release}/open",
        told="Open a release to principals or to the public, or shut it again; for the owner.",
        handler=opened,
        scope="admin",
        owner=True,
        takes=(_TO,),
        gives=_SHORT,
        refusals=(403, 404),
        example={"to": ["ann"]},
    ),
)
