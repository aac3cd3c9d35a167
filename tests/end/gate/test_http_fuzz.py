"""Every route of the document, asked with what fits its form and what does not, never fails."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from tests.end.gate.people_served import Served, people_served

from sfumato.server.openapi import document
from sfumato.server.route_table import ROUTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.server.routing import Route

FEW, MANY = 5, 150
SOME = {"get-datasets-name", "post-query", "get-jobs", "post-publish", "post-explain-synthesize"}
"""One of each way to ask; the others take their turn in the slow set."""


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with people_served(tmp_path_factory.mktemp("fuzz")) as found:
        yield found


@pytest.fixture(scope="module")
def schema() -> Any:
    import schemathesis  # slow to load, and nothing else needs it

    return schemathesis.openapi.from_dict(document(ROUTES))


def named(route: Route) -> str:
    return route.name


@pytest.mark.parametrize("route", [one for one in ROUTES if one.name in SOME], ids=named)
def test_whatever_is_asked_is_answered_by_the_document(
    gate: Served, schema: Any, route: Route
) -> None:
    ask_all(gate, schema, route, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("route", ROUTES, ids=named)
def test_very_much_is_asked_and_answered_by_the_document(
    gate: Served, schema: Any, route: Route
) -> None:
    ask_all(gate, schema, route, MANY)


def ask_all(gate: Served, schema: Any, route: Route, times: int) -> None:
    from schemathesis import GenerationMode
    from schemathesis.checks import CHECKS, load_all_checks

    load_all_checks()
    checks = CHECKS.get_by_names(
        [
            "not_a_server_error",
            "status_code_conformance",
            "content_type_conformance",
            "response_schema_conformance",
            "negative_data_rejection",
        ]
    )
    path = "/v1" + route.path.replace(":path}", "}")
    operation = schema[path][route.method]
    headers = {"Authorization": f"Bearer {gate.owner.token}"}
    for mode in GenerationMode:

        @settings(
            max_examples=times,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: Any) -> None:
            response = case.call(gate.url, headers=headers)
            if response.status_code != HTTPStatus.REQUEST_ENTITY_TOO_LARGE:  # refused, as it should
                case.validate_response(response, checks=checks)

        with suppress(Unsatisfiable) if mode.is_negative else nullcontext():
            ask()  # nothing can be wrong with a request that says nothing
