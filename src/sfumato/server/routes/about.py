"""Routes about the server itself: its health and its OpenAPI document."""

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
    from sfumato.server.route_table import ROUTES  # which holds this route

    return dumps(document(ROUTES), ensure_ascii=False).encode()


def health(_call: Call) -> Reply:
    """State that the server answers; the vault is not read."""
    return Reply({"status": "ok"})


ROUTES = (
    Route(
        method="GET",
        path="/openapi.json",
        summary="All routes of this server, as OpenAPI.",
        handler=openapi,
        scope=None,
        answer_schema={"type": "object", "required": ["openapi", "paths"]},
    ),
    Route(
        method="GET",
        path="/health",
        summary="Whether the server answers.",
        handler=health,
        scope=None,
        never_waits=True,
        answer_schema={
            "type": "object",
            "properties": {"status": {"const": "ok"}},
            "required": ["status"],
        },
    ),
)
