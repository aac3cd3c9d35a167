"""The table of routes as OpenAPI 3.1, so that programs can read what people read.

It is made of the table alone and tells nothing of any vault, which is why it needs no token.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from sfumato import __version__
from sfumato.server import problem_json
from sfumato.server.request_schemas import described
from sfumato.server.routing import JSON

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.server.routing import Route

_PART = re.compile(r"\{(\w+)(?::\w+)?\}")
_ALWAYS = (400, 403, 421, 429, 431, 503)
"""The refusals that every route may give, whoever asks: of the server itself, and of its limits."""
_OF_TOKENS = (401,)
_OF_BODIES = (408, 411, 413, 415, 422)
_OF_QUERIES = (422,)
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": (
        "Makes it safe to repeat: same key and body, same answer, paid for once. What is not "
        "printable ASCII is written as in utf-8''gr%C3%B6%C3%9Fe."
    ),
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[ -~]+$"},
}


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """All routes as one OpenAPI document."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        path = "/v1" + _PART.sub(r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Sfumato",
            "version": __version__,
            "description": "Questions about people under a privacy budget, and releases of it.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Problem": problem_json.SCHEMA},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "bearerFormat": "sfu_..."}
            },
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.told,
        "tags": [route.path.strip("/").partition("/")[0]],
        "parameters": _parameters(route),
        "responses": _responses(route),
        "security": _security(route),
    }
    if route.shape is not None:
        found["x-shape"] = route.shape
    if route.owner:
        found["x-owner"] = True
    if route.has_body:
        content: dict[str, Any] = {"schema": described(route.takes)}
        if route.example is not None:
            content["example"] = route.example
        found["requestBody"] = {"required": True, "content": {JSON: content}}
    return found


def _parameters(route: Route) -> list[dict[str, Any]]:
    named: list[dict[str, Any]] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "minLength": 1},
        }
        for name in _PART.findall(route.path)
    ]
    asked = () if route.has_body else route.takes
    named += [
        {
            "name": one.name,
            "in": "query",
            "required": one.required,
            "description": one.told,
            "schema": one.schema,
        }
        for one in asked
    ]
    return [*named, *([_KEY] if route.keyed else [])]


def _responses(route: Route) -> dict[str, Any]:
    good: dict[str, Any] = {"description": route.told}
    content = {one: {"schema": route.gives} if one == JSON else {} for one in route.media}
    if JSON in content and route.answer_example is not None:
        content[JSON]["example"] = route.answer_example
    if route.status != HTTPStatus.NO_CONTENT:
        good["content"] = content
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
    return {str(route.status): good, **refused}


def _security(route: Route) -> list[dict[str, list[str]]]:
    """The tokens that a route asks for; an empty one where it does without."""
    if route.scope is None:
        return []
    return [{"token": [route.scope]}, *([{}] if route.open else [])]
