"""What the server itself tells: that it is there, and what may be asked of it."""

from __future__ import annotations

from functools import cache

from sfumato.server.openapi import document
from sfumato.server.routing import Call, Reply, Route
from sfumato.text import dumps


def openapi(_call: Call) -> Reply:
    """Every route, for programs."""
    return Reply(_document())


@cache
def _document() -> bytes:
    from sfumato.server.route_table import ROUTES  # the table that this very route stands in

    return dumps(document(ROUTES), ensure_ascii=False).encode()


def health(_call: Call) -> Reply:
    """That the server answers; nothing of its vault is looked at."""
    return Reply({"status": "ok"})


ROUTES = (
    Route(
        method="GET",
        path="/openapi.json",
        told="What may be asked of this server, as OpenAPI.",
        handler=openapi,
        scope=None,
        gives={"type": "object", "required": ["openapi", "paths"]},
    ),
    Route(
        method="GET",
        path="/health",
        told="Whether the server answers.",
        handler=health,
        scope=None,
        never_waits=True,
        gives={
            "type": "object",
            "properties": {"status": {"const": "ok"}},
            "required": ["status"],
        },
    ),
)
