"""The HTTP application of a vault: its API, the pages of its surveys and its console.

A request to the API passes these steps in this order: host, path and method, token, permission,
rate limit, form, a free worker, handler, response. It is refused at the first step that fails, so a
refused request costs little and never reaches the vault. Decision `operations`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.responses import FileResponse, Response
from starlette.routing import Router

from sfumato.console.app import console_pages
from sfumato.methods.local.collection import rounds_of
from sfumato.server.authorization import Caller, authorize, peer_of
from sfumato.server.endpoints import note_charging, path_route, problem_response
from sfumato.server.idempotency_key import read_request_id
from sfumato.server.owner_link import PATH
from sfumato.server.query_string import check_no_query, read_query
from sfumato.server.rate_limit import Paces, ReportPaces, Workers
from sfumato.server.request_body import check_no_body, read_json
from sfumato.server.responses import UnsentReplies
from sfumato.server.route_table import ROUTES
from sfumato.server.routing import Call
from sfumato.server.survey_app import survey_pages
from sfumato.text import dumps_in_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from sfumato.server.endpoints import Endpoint
    from sfumato.server.owner_link import OwnerLink
    from sfumato.server.routing import Reply, Route
    from sfumato.server.settings import Setting
    from sfumato.vault.vault import Vault

VERSION = "/v1"


def application(
    vault: Vault,
    setting: Setting,
    *,
    routes: Sequence[Route] = ROUTES,
    link: OwnerLink | None = None,
) -> ASGIApp:
    """Make the ASGI application of a vault; `link` is the sign-in link of its first owner."""
    api = _Api(vault, setting)
    by_path: dict[str, dict[str, Endpoint]] = {}
    for route in routes:
        by_path.setdefault(VERSION + route.path, {})[route.method] = partial(api.respond, route)
    if link is not None:
        by_path[PATH] = {
            "GET": api.in_worker(link.show),
            "POST": api.in_worker(partial(link.exchange, vault)),
        }
        by_path[f"{PATH}/password"] = {"POST": api.in_worker(partial(link.invite, vault))}
    make_route = partial(
        path_route, setting=setting, refuse=problem_response, log=vault.config.folder
    )
    all_routes = [make_route(path, by_method) for path, by_method in by_path.items()]
    all_routes += survey_pages(rounds_of(vault.config.folder), setting, api.report_paces)
    all_routes += console_pages(vault, setting, api.workers, api.unsent)
    # Not Starlette's own 404, which would lack our headers and the check of the host.
    unknown = make_route("/", {}).app
    return Router(all_routes, redirect_slashes=False, default=unknown)


class _Api:
    """The routes below /v1 of one application, with the limits that they share."""

    def __init__(self, vault: Vault, setting: Setting) -> None:
        self._vault, self._setting = vault, setting
        limits = setting.limits
        self.workers, self._paces = Workers(limits), Paces(limits)
        self.report_paces, self.unsent = ReportPaces(limits), UnsentReplies(limits)

    async def respond(self, route: Route, request: Request) -> Response:
        """Check a request, have a worker run the handler of its route, and make the response."""
        caller = Caller("")
        # Health checks take no token and no worker: a busy server must not look dead.
        if route.never_waits:
            call = await self._read_call(route, request, caller)
            return _make_response(route, _encode(route.handler(call)))
        if route.scope is not None:
            tokens = request.headers.getlist("authorization")
            caller = await self.workers.look(lambda: authorize(self._vault, route, tokens))
        caller = replace(caller, peer=peer_of(request.scope, self._setting))
        # Before the body is read: a refused request costs almost nothing.
        self._paces.check(caller)
        self.unsent.check(caller)
        call = await self._read_call(route, request, caller)
        if route.keyed and route.status == HTTPStatus.OK:  # a job is charged later, when it runs
            note_charging(request)
        reply = await self.workers.work(lambda: _encode(route.handler(call)))
        return self.unsent.counted(_make_response(route, reply), caller)

    def in_worker(self, handler: Callable[[Request], Response]) -> Endpoint:
        """Make an endpoint of a function that may block."""

        async def endpoint(request: Request) -> Response:
            return await self.workers.work(lambda: handler(request))

        return endpoint

    async def _read_call(self, route: Route, request: Request, caller: Caller) -> Call:
        """Read what the handler of a route is given."""
        query = request.scope["query_string"]
        values: dict[str, Any] = {}
        if route.has_body:
            # A parameter in the wrong place would be ignored in silence.
            check_no_query(query)
            values = await read_json(request, seconds=self._setting.limits.body_seconds)
        else:
            check_no_body(request)
            if route.request is None:
                check_no_query(query)
            else:
                values = read_query(query)
        return Call(
            self._vault,
            caller,
            request.path_params,
            values,
            read_request_id(request.headers.getlist("idempotency-key")) if route.keyed else None,
            request.headers.get("accept", "*/*"),
            self._setting.data,
            self.report_paces.check,
        )


def _encode(reply: Reply) -> Reply:
    """Write a reply as JSON. A worker does it: the event loop would stop for large answers."""
    if isinstance(reply.body, bytes | Path):
        return reply
    return replace(reply, body=dumps_in_parts(reply.body).encode())


def _make_response(route: Route, reply: Reply) -> Response:
    status, headers = reply.status or route.status, {**reply.headers}
    if isinstance(reply.body, Path):
        return FileResponse(reply.body, status, headers, reply.media, filename=reply.file_name)
    # As an attachment: a browser must not show a downloaded page in our origin.
    if reply.file_name is not None:
        headers["Content-Disposition"] = f'attachment; filename="{reply.file_name}"'
    return Response(reply.body, status, headers, reply.media)
