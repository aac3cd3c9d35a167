"""Paths of the server: the checks, the errors and the security headers that all of them share.

The API, the pages of surveys and the console make their routes here. A request under a foreign host
name is refused first: answered, it would defeat every same-origin rule of the browser.
"""

from __future__ import annotations

from traceback import format_exception
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as PathRoute

from sfumato.errors import SfumatoError
from sfumato.server import problem_json
from sfumato.server.authorization import check_caller
from sfumato.server.problem_json import RequestError
from sfumato.server.request_body import is_unread
from sfumato.text import dumps
from sfumato.vault.failure_log import note_failure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from sfumato.server.settings import Setting

    Endpoint = Callable[[Request], Awaitable[Response]]

_POLICY = "Content-Security-Policy"
SECURITY_HEADERS = {
    # No scripts, styles or requests from elsewhere, no frames, no forms to other servers.
    _POLICY: (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # Answers are for one person, so neither browsers nor proxies may keep them.
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""The headers of every response that does not set its own."""
_ENCRYPTED = {"Strict-Transport-Security": "max-age=31536000"}


def path_route(
    path: str,
    by_method: Mapping[str, Endpoint],
    setting: Setting,
    refuse: Callable[[Request, SfumatoError], Response],
    *,
    admit: Callable[[Request], Awaitable[None]] | None = None,
    log: Path | None = None,
    policy: str | None = None,
) -> PathRoute:
    """Make the route of a path for all its methods.

    Parameters
    ----------
    path
        The path, with named parts such as {name}.
    by_method
        The endpoints by method. A path without any is answered as unknown.
    setting
        The hosts and proxies of the server.
    refuse
        Makes the response of an error.
    admit
        Further checks of a request before its method is looked up.
    log
        The folder of the vault in whose log unexpected failures are noted.
    policy
        Another content security policy than that of the API.
    """

    async def endpoint(request: Request) -> Response:
        try:
            check_caller(request.scope, setting)
            if admit is not None:
                await admit(request)
            if not by_method:
                raise problem_json.not_found()
            if request.method not in by_method:
                allowed = ", ".join(sorted(by_method))
                raise RequestError(
                    405,
                    "choice_unknown",
                    f"This path takes {allowed}, not {request.method[:20]}.",
                    headers={"Allow": allowed},
                )
            response = await by_method[request.method](request)
        except ClientDisconnect:
            response = Response(status_code=499)  # nobody reads it
        except SfumatoError as error:
            response = refuse(request, error)
        except Exception as error:  # noqa: BLE001  its text may quote data: only the log has it
            if log is not None:
                address = repr(f"{request.method} {request.scope['path']}")
                note_failure(log, address, "".join(format_exception(error)))
            response = refuse(request, problem_json.failed_inside())
        always = SECURITY_HEADERS | (_ENCRYPTED if setting.is_encrypted else {})
        if policy is not None:
            response.headers.setdefault(_POLICY, policy)
        for name, value in always.items():
            response.headers.setdefault(name, value)
        return response

    route = PathRoute(path, endpoint)
    route.methods = None  # all methods: Starlette's own refusal would lack the headers
    return route


def problem_response(request: Request, error: SfumatoError, status: int | None = None) -> Response:
    """Make the response of an error as problem+json; `status` replaces that of its kind."""
    problem = problem_json.problem_of(error, charging=is_charging(request), status=status)
    body = dumps(problem, ensure_ascii=False)
    headers = refusal_headers(request, error)
    return Response(body, problem["status"], headers, problem_json.MEDIA)


def refusal_headers(request: Request, error: SfumatoError) -> dict[str, str]:
    """The headers of a refusal. Where a body was left unread, the connection must be closed.

    The unread bytes would otherwise be taken for the next request (request smuggling).
    """
    close = {"Connection": "close"} if is_unread(request) or error.code == "host_unknown" else {}
    return {**problem_json.headers_of(error), **close}


def note_charging(request: Request) -> None:
    """Note that a failure from here on may have charged a budget; its refusal must say so."""
    request.state.charging = True


def is_charging(request: Request) -> bool:
    """Whether a failure of this request may have charged a budget."""
    return getattr(request.state, "charging", False)
