"""The application: every request goes one way, whatever its route.

Host → path and method → token → permission → rate → form → a free worker → the door → reply. What
is refused is refused as early as that, and nothing of it reaches the vault. Decision `http-routes`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from traceback import format_exception
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route as PathRoute
from starlette.routing import Router

from sfumato.console.app import console_pages
from sfumato.errors import SfumatoError
from sfumato.methods.local.collection import rounds_of
from sfumato.server import problem_json
from sfumato.server.authorization import Caller, admitted, check_caller
from sfumato.server.idempotency_key import request_id_of
from sfumato.server.owner_link import PATH
from sfumato.server.peers import peer_of
from sfumato.server.problem_json import RequestError
from sfumato.server.query_string import check_no_query, read_query
from sfumato.server.rate_limit import Paces, ReportPaces, Workers
from sfumato.server.request_body import check_no_body, is_unread, read_json
from sfumato.server.route_table import ROUTES
from sfumato.server.routing import Call
from sfumato.server.security_headers import secured
from sfumato.server.sending import UnsentReplies
from sfumato.server.survey_app import survey_pages
from sfumato.text import dumps, dumps_in_parts
from sfumato.vault.failure_log import note_failure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

    from sfumato.server.owner_link import OwnerLink
    from sfumato.server.routing import Reply, Route
    from sfumato.server.settings import Setting
    from sfumato.vault.vault import Vault

    _Answering = Callable[[Request], Awaitable[Response]]

VERSION = "/v1"
_LONGEST_KEY = 200
_CHARGING = "sfumato.charging"


def application(
    vault: Vault,
    setting: Setting,
    *,
    routes: Sequence[Route] = ROUTES,
    link: OwnerLink | None = None,
) -> ASGIApp:
    """A vault's routes as an ASGI application; with a `link` for its first owner."""
    gate = _Gate(vault, setting)
    by_path: dict[str, dict[str, _Answering]] = {}
    for route in routes:
        answering = partial(gate.answered, route)
        by_path.setdefault(VERSION + route.path, {})[route.method] = answering
    if link is not None:
        ways: dict[str, Callable[[Request], Response]] = {
            "GET": link.show,
            "POST": partial(link.exchange, vault),
        }
        by_path[PATH] = {method: partial(gate.welcomed, way) for method, way in ways.items()}
        invite = partial(link.invite, vault)
        by_path[f"{PATH}/password"] = {"POST": partial(gate.welcomed, invite)}
    doors = [PathRoute(path, _Endpoint(gate, methods)) for path, methods in by_path.items()]
    doors += survey_pages(rounds_of(vault.config.folder), setting, gate.report_paces)
    doors += console_pages(vault, setting, gate.workers, gate.unsent)
    return gate.guarded(Router(doors, redirect_slashes=False, default=gate.nothing))


class _Gate:
    """What all routes of one application share."""

    def __init__(self, vault: Vault, setting: Setting) -> None:
        self.vault, self.setting, self.limits = vault, setting, setting.limits
        self.workers, self.paces = Workers(self.limits), Paces(self.limits)
        self.report_paces = ReportPaces(self.limits)
        self.unsent = UnsentReplies(self.limits)

    def guarded(self, router: ASGIApp) -> ASGIApp:
        """The routes, open to those alone who came by a known name and a known way."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                return
            try:
                check_caller(scope, self.setting)
            except RequestError as problem:
                await self.send(self.refuse(problem, close=True), scope, receive, send)
                return
            await router(scope, receive, send)

        return guarded

    async def nothing(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer for a path that is none."""
        close = is_unread(Request(scope))
        await self.send(self.refuse(problem_json.not_found(), close=close), scope, receive, send)

    async def answered(self, route: Route, request: Request) -> Response:
        """The reply of a route's door to a request that may come so far."""
        caller = Caller("")
        if route.never_waits:
            return _sent(route, _spelled(route.handler(await self._call(route, request, caller))))
        if route.scope is not None:
            shown = request.headers.getlist("authorization")
            caller = await self.workers.look(lambda: admitted(self.vault, route, shown))
        caller = replace(caller, peer=peer_of(request.scope, self.setting))
        self.paces.check(caller)
        self.unsent.check(caller)
        call = await self._call(route, request, caller)
        if route.keyed and route.status == HTTPStatus.OK:  # jobs are charged when they are run
            request.scope[_CHARGING] = True
        reply = await self.workers.work(lambda: _spelled(route.handler(call)))
        return self.unsent.counted(_sent(route, reply), caller)

    async def welcomed(self, way: Callable[[Request], Response], request: Request) -> Response:
        """What the link for the first owner gives."""
        return await self.workers.work(lambda: way(request))

    async def _call(self, route: Route, request: Request, caller: Caller) -> Call:
        """The request as its handler takes it."""
        raw_query = request.scope["query_string"]
        values: dict[str, Any] = {}
        if route.has_body:
            check_no_query(raw_query)
            values = await read_json(request, seconds=self.limits.body_seconds)
        else:
            check_no_body(request)
            if route.request is None:
                check_no_query(raw_query)
            else:
                values = read_query(raw_query)
        return Call(
            self.vault,
            caller,
            request.path_params,
            values,
            _request_id(request) if route.keyed else None,
            request.headers.get("accept", "*/*"),
            self.setting.data,
            self.report_paces.check,
        )

    def refuse(
        self, error: SfumatoError, *, close: bool = False, charging: bool = False
    ) -> Response:
        """A refusal as it is sent; of a request for which something is charged, or of another."""
        headers = {**problem_json.headers_of(error), **({"Connection": "close"} if close else {})}
        body = dumps(problem_json.told(error, charging=charging), ensure_ascii=False)
        return Response(body, problem_json.status_of(error), headers, problem_json.MEDIA)

    async def send(self, response: Response, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a response with the headers that all have."""
        await secured(response, self.setting)(scope, receive, send)

    def tell_operator(self, request: Request, error: Exception) -> None:
        """Note a failure that nobody foresaw, where callers do not see it."""
        where = f"{request.method} {request.scope['path']}"
        words = "".join(format_exception(error))
        note_failure(self.vault.config.folder, repr(where), words)


class _Endpoint:
    """All that may be asked under one path; its refusals are all sent in one form."""

    def __init__(self, gate: _Gate, methods: Mapping[str, _Answering]) -> None:
        self._gate, self._methods = gate, methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._answering(request)(request)
        except ClientDisconnect:
            return
        except SfumatoError as error:
            charging = _CHARGING in request.scope
            response = self._gate.refuse(error, close=is_unread(request), charging=charging)
        except Exception as error:  # noqa: BLE001  whatever it was, its text may quote data
            self._gate.tell_operator(request, error)
            response = self._gate.refuse(problem_json.failed_inside(), close=is_unread(request))
        await self._gate.send(response, scope, receive, send)

    def _answering(self, request: Request) -> _Answering:
        if request.method in self._methods:
            return self._methods[request.method]
        allowed = ", ".join(sorted(self._methods))
        raise RequestError(
            405,
            "choice_unknown",
            f"This path takes {allowed}, not {request.method[:20]}.",
            headers={"Allow": allowed},
        )


def _request_id(request: Request) -> str | None:
    keys = request.headers.getlist("idempotency-key")
    if not keys:
        return None
    found = request_id_of(keys[0]) if keys[0].isascii() else None
    if (
        len(keys) > 1
        or found is None
        or not (1 <= len(found) <= _LONGEST_KEY and found.isprintable())
    ):
        raise RequestError(
            422,
            "name_invalid",
            f"An Idempotency-Key must be one text of 1 to {_LONGEST_KEY} printable ASCII "
            "characters, or other characters as utf-8''gr%C3%B6%C3%9Fe. Make a new one for each "
            "new request.",
        )
    return found


def _spelled(reply: Reply) -> Reply:
    """A reply as bytes or a file: JSON is written by the worker, as the loop answers for all."""
    if isinstance(reply.body, bytes | Path):
        return reply
    return replace(reply, body=dumps_in_parts(reply.body).encode())


def _sent(route: Route, reply: Reply) -> Response:
    status, headers = reply.status or route.status, {**reply.headers}
    if isinstance(reply.body, Path):
        return FileResponse(reply.body, status, headers, reply.media, filename=reply.file_name)
    if reply.file_name is not None:
        headers["Content-Disposition"] = f'attachment; filename="{reply.file_name}"'
    return Response(reply.body, status, headers, reply.media)
