"""The document of all routes, and that each of them is whole."""

from __future__ import annotations

import pytest

from sfumato.operations.fields import fields, read
from sfumato.server.openapi import document
from sfumato.server.route_table import ROUTES
from sfumato.server.routing import JSON, Route
from sfumato.vault.principals import SHAPES
from sfumato.vault.tokens import SCOPES


def named(route: Route) -> str:
    return route.name


def test_every_route_is_in_the_document_once() -> None:
    found = document(ROUTES)["paths"]
    names = [one["operationId"] for methods in found.values() for one in methods.values()]
    assert sorted(names) == sorted(route.name for route in ROUTES)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("route", ROUTES, ids=named)
def test_a_route_says_all_that_must_be_said(route: Route) -> None:
    assert route.summary.endswith(".")
    assert route.scope is None or route.scope in SCOPES
    assert route.shape is None or route.shape in SHAPES
    assert route.owner == (route.scope == "admin"), "administration is for owners"
    assert JSON not in route.media or route.answer_schema
    if route.has_body:
        assert route.example is not None, "whoever reads the document wants something to try"
        kinds = {} if route.kind_requests is None else route.kind_requests()
        request = kinds.get(route.example.get("kind", ""), route.request)
        assert request is not None
        named = {field.name for field in fields(request)}
        parts = dict.fromkeys(named.intersection(route.path_parts), "ann")
        read(request, {**parts, **route.example}, remote=True)


def test_what_needs_no_token_is_named_here() -> None:
    free = {route.name for route in ROUTES if route.scope is None}
    assert {one for one in free if "reports" not in one} == {"get-openapi.json", "get-health"}
