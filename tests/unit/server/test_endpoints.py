"""Every path checks the host, answers errors in one form, and sends the security headers."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from starlette.responses import Response

from sfumato.errors import PolicyError
from sfumato.server.endpoints import SECURITY_HEADERS, path_route, problem_response
from sfumato.server.settings import Setting

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.requests import Request

SETTING = Setting(hosts=frozenset({"localhost"}))
SECRET = "canary-4711"


async def answer(request: Request) -> Response:
    """An endpoint that fails as its path says."""
    kind = request.query_params.get("fail")
    if kind == "refused":
        raise PolicyError("scope_missing", "This token does not include that.")
    if kind == "unexpected":
        raise KeyError(SECRET)
    return Response("done", headers={"Cache-Control": "public"})


def ask(
    method: str = "GET", *, query: str = "", host: str = "localhost", log: Path | None = None
) -> tuple[int, dict[str, str], bytes]:
    """Send one request to a path with the endpoint above, without a network."""
    scope: dict[str, Any] = {
        "type": "http", "method": method, "path": "/path", "query_string": query.encode(),
        "headers": [(b"host", host.encode())], "client": ("127.0.0.1", 1),
    }  # fmt: skip
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    route = path_route("/path", {"GET": answer}, SETTING, problem_response, log=log)

    async def request() -> None:
        await route.app(scope, receive, send)

    # In a thread of its own: a browser of another test may keep a loop in this one.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, request()).result()
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, sent[1]["body"]


@pytest.mark.parametrize(
    ("request_of", "status", "code"),
    [
        ({"method": "DELETE"}, 405, "choice_unknown"),
        ({"host": "evil.example"}, 421, "host_unknown"),
        ({"query": "fail=refused"}, 403, "scope_missing"),
        ({"query": "fail=unexpected"}, 500, "internal"),
    ],
)
def test_errors_have_one_form_and_the_security_headers(
    request_of: dict[str, str], status: int, code: str
) -> None:
    answered, headers, body = ask(**request_of)  # type: ignore[arg-type]
    assert (answered, json.loads(body)["code"]) == (status, code)
    assert {name.lower(): value for name, value in SECURITY_HEADERS.items()}.items() <= (
        headers.items()
    )
    assert ("connection" in headers) == (status == 421)
    assert headers.get("allow") == ("GET" if status == 405 else None)


def test_a_response_keeps_headers_of_its_own() -> None:
    status, headers, body = ask()
    assert (status, body) == (200, b"done")
    assert headers["cache-control"] == "public"
    assert headers["x-content-type-options"] == "nosniff"


def test_an_unexpected_failure_is_in_the_log_alone(tmp_path: Path) -> None:
    _, _, body = ask(query="fail=unexpected", log=tmp_path)
    assert SECRET.encode() not in body
    assert any(SECRET in file.read_text() for file in tmp_path.rglob("*") if file.is_file())
