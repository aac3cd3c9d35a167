"""The table of routes as OpenAPI 3.1.

It is made from the table alone and says nothing about any vault, so it needs no token.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from sfumato import __version__
from sfumato.operations.fields import body_schema
from sfumato.server import problem_json
from sfumato.server.routing import JSON

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.operations.fields import Request
    from sfumato.server.routing import Route

_PATH_FIELD = re.compile(r"\{(\w+)(?::\w+)?\}")
_ALWAYS = (400, 403, 421, 429, 431, 503)
"""The statuses of refusals that every route may send, by the server itself and by its limits."""
_OF_TOKENS = (401,)
"""Besides these: refusals of routes with a token, with a body, and with a query string."""
_OF_BODIES = (408, 411, 413, 415, 422)
_OF_QUERIES = (422,)
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": (
        "Makes it safe to repeat: same key and body, same answer, charged once. Characters beyond "
        "printable ASCII are written as in utf-8''gr%C3%B6%C3%9Fe."
    ),
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[ -~]+$"},
}


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """All routes as one OpenAPI document."""
    paths: dict[str, dict[str, Any]] = {}
    bodies: dict[str, Any] = {}
    for route in routes:
        path = "/v1" + _PATH_FIELD.sub(r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, bodies)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Sfumato",
            "version": __version__,
            "description": "Queries about people under a privacy budget, and releases.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Problem": problem_json.SCHEMA, **bodies},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "bearerFormat": "sfu_..."}
            },
        },
    }


def _operation(route: Route, bodies: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [route.path.strip("/").partition("/")[0]],
        "parameters": _parameters(route),
        "responses": _responses(route),
        "security": _security(route),
    }
    if route.shape is not None:
        operation["x-shape"] = route.shape
    if route.owner:
        operation["x-owner"] = True
    if route.has_body:
        content: dict[str, Any] = {"schema": _body(route, bodies)}
        if route.example is not None:
            content["example"] = route.example
        operation["requestBody"] = {"required": True, "content": {JSON: content}}
    return operation


def _body(route: Route, bodies: dict[str, Any]) -> dict[str, Any]:
    """The schema of a body; those of the kinds of a method go into `bodies`, each once."""
    assert route.request is not None
    if route.kind_requests is None:
        return body_schema(route.request, route.path_parts)
    mapping = {kind: _shared(request, bodies) for kind, request in route.kind_requests().items()}
    return {
        "oneOf": [{"$ref": reference} for reference in mapping.values()],
        "discriminator": {"propertyName": "kind", "mapping": mapping},
    }


def _shared(request: type[Request], bodies: dict[str, Any]) -> str:
    bodies.setdefault(request.__name__, body_schema(request))
    return f"#/components/schemas/{request.__name__}"


def _parameters(route: Route) -> list[dict[str, Any]]:
    named: list[dict[str, Any]] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "minLength": 1},
        }
        for name in route.path_parts
    ]
    if route.request is not None and not route.has_body:
        in_query = body_schema(route.request, route.path_parts)
        named += [
            {
                "name": name,
                "in": "query",
                "required": name in in_query.get("required", ()),
                "description": schema["description"],
                "schema": schema,
            }
            for name, schema in in_query["properties"].items()
        ]
    return [*named, *([_KEY] if route.keyed else [])]


def _responses(route: Route) -> dict[str, Any]:
    success: dict[str, Any] = {"description": route.summary}
    if route.status != HTTPStatus.NO_CONTENT:
        schema = {"schema": route.answer_schema}
        success["content"] = {media: schema if media == JSON else {} for media in route.media}
    statuses = {
        *_ALWAYS,
        *(_OF_TOKENS if route.scope is not None else ()),
        *(_OF_BODIES if route.has_body else _OF_QUERIES),
        *route.refusals,
    }
    refused = {
        str(status): {
            "description": HTTPStatus(status).phrase,
            "content": {problem_json.MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in sorted(statuses)
    }
    return {str(route.status): success, **refused}


def _security(route: Route) -> list[dict[str, list[str]]]:
    """The tokens that a route requires; an empty entry where it works without one."""
    if route.scope is None:
        return []
    return [{"token": [route.scope]}, *([{}] if route.open else [])]
