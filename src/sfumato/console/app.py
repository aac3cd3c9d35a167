"""The console as a part of the application: every page goes one way, whatever is on it.

Where the form comes from → who visits → may they → how often → the form, within limits, with the
word of their session → the page. What is refused is refused as early as that, and shown as a page.
"""

from __future__ import annotations

import re
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from traceback import format_exception
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, RedirectResponse, Response

from sfumato.console import rendering
from sfumato.console.forms import asked, check_site, check_word, form
from sfumato.console.page_request import FORM, Download, PageRoute, Redirect, Visit, Who
from sfumato.console.pages import PAGES
from sfumato.console.sessions import (
    VisitSession,
    find_session,
    send_cookie,
    send_device,
    shown_device,
)
from sfumato.console.sign_in import (
    HASHED_AT_A_TIME,
    HASHES_AT_ONCE,
    HASHES_PER_SECOND,
    guesser_of,
    sign_in_paused,
)
from sfumato.errors import SfumatoError
from sfumato.server import problem_json
from sfumato.server.authorization import Caller, check_caller, refresh
from sfumato.server.path_routes import path_route
from sfumato.server.peers import peer_of
from sfumato.server.problem_json import RequestError
from sfumato.server.rate_limit import Buckets, FairWorkers, Paces
from sfumato.server.request_body import check_no_body, is_unread
from sfumato.server.security_headers import secured
from sfumato.vault.failure_log import note_failure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from starlette.routing import Route as PathRoute

    from sfumato.console.forms import Sent
    from sfumato.server.rate_limit import Workers
    from sfumato.server.sending import UnsentReplies
    from sfumato.server.settings import Setting
    from sfumato.vault.principals import Principal
    from sfumato.vault.vault import Vault

    Endpoint = Callable[[Request], Awaitable[Response]]

HOME, SIGN_IN = "/console", "/console/sign-in"
_HTML = "text/html; charset=utf-8"
_PATH = re.compile(r"/console(/[A-Za-z0-9_.~%:-]+)*", re.ASCII)
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
_SAVED = "sandbox; default-src 'none'"
_FOR_GOOD = "public, max-age=31536000, immutable"


def console_pages(
    vault: Vault,
    setting: Setting,
    workers: Workers,
    unsent: UnsentReplies,
    pages: Sequence[PageRoute] = PAGES,
) -> list[PathRoute]:
    """The pages of a vault's console, as parts of the application that answers for it."""
    site = _Site(vault, setting, workers, unsent, pages)
    to_home: dict[str, Endpoint] = {"GET": _leading(HOME)}
    by_path = {"/": to_home, f"{HOME}/": to_home}
    shown: dict[str, list[PageRoute]] = {}
    for route in pages:
        by_path.setdefault(route.path, {})[route.method] = partial(site.page, route)
        shown.setdefault(route.path, []).append(route)
    by_path[rendering.STATIC] = {"GET": site.file}
    by_path["/console/{rest:path}"] = {}
    return [
        path_route(path, site.guarded(ways, shown.get(path, ()))) for path, ways in by_path.items()
    ]


class _Site:
    """What all pages of one console share."""

    def __init__(
        self,
        vault: Vault,
        setting: Setting,
        workers: Workers,
        unsent: UnsentReplies,
        pages: Sequence[PageRoute],
    ) -> None:
        self._vault, self._setting, self._pages = vault, setting, pages
        self._unsent = unsent
        self._workers, self._paces = workers, Paces(setting.limits)
        self._hashing = FairWorkers(HASHED_AT_A_TIME)
        self._hashes = Buckets(HASHES_PER_SECOND, HASHES_AT_ONCE)

    def guarded(self, ways: Mapping[str, Endpoint], pages: Sequence[PageRoute]) -> Endpoint:
        """Endpoints of one path, with its lines of the table; what they refuse is shown as a page.

        A path without any way is none.
        """

        async def guarded(request: Request) -> Response:
            session = VisitSession("")
            try:
                check_caller(request.scope, self._setting)
                method = _method(request)
                if method in {"POST", *ways} - {"GET"}:
                    check_site(request)
                session = await self._session(request)
                request.state.session = session
                if method not in ways:
                    raise _method_unknown(ways, pages, session.person)
                response = await ways[method](request)
            except ClientDisconnect:
                return Response(status_code=499)
            except SfumatoError as error:
                response = self._refused(request, session, error)
            except Exception as error:  # noqa: BLE001  whatever it was, its text may quote data
                where = repr(f"{request.method} {request.scope['path']}")
                words = "".join(format_exception(error))
                note_failure(self._vault.config.folder, where, words)
                response = self._refused(request, session, problem_json.failed_inside())
            return self._headed(response)

        return guarded

    async def page(self, route: PageRoute, request: Request) -> Response:
        """What a page gives to who may have it."""
        session: VisitSession = request.state.session
        if route.who is not Who.PUBLIC and session.person is None:
            return self._to_sign_in(request)
        if not route.is_for(session.person):
            raise problem_json.not_found()
        name = "" if session.person is None else session.person.name
        peer = peer_of(request.scope, self._setting)
        caller = Caller(name, f"console {name}" if name else "", peer=peer)
        self._paces.check(caller)
        self._unsent.check(caller)
        async with AsyncExitStack() as kept:
            sent = await self._sent(route, request, session, kept)
            visit = Visit(
                self._vault,
                session,
                self._setting,
                _address(request, self._setting),
                request.path_params,
                sent.values,
                sent.fields,
                sent.files,
                peer,
                shown_device(self._setting, request.headers.getlist("cookie")),
            )
            request.state.charging = route.charging
            if route.hashing:
                return await self._hashed(route, visit)
            response = await self._workers.work(lambda: self._given(route, visit))
            return self._unsent.counted(response, caller)

    async def _hashed(self, route: PageRoute, visit: Visit) -> Response:
        """What a page gives that computes the hash of a password, when it is the visitor's turn."""
        guesser = await self._workers.look(lambda: guesser_of(route, visit))
        # Known callers go before strangers. Somebody who signs in again and again, always rightly,
        # would keep all strangers waiting; wrong tries are counted elsewhere, so that whoever stole
        # a device cannot use up what its owner may do.
        key = f"signed in {guesser.lane}" if guesser.is_known else guesser.key
        wait = self._hashes.take(key)
        if wait:
            raise sign_in_paused(wait)
        known, is_right = replace(visit, guesser=guesser), False
        try:
            response = await self._hashing.work(
                guesser.lane, lambda: self._given(route, known), is_known=guesser.is_known
            )
            is_right = response.status_code == HTTPStatus.SEE_OTHER
        finally:
            # Of strangers right passwords are not counted: many may sign in from one office.
            if is_right != guesser.is_known:
                self._hashes.give_back(key)
        return response

    async def file(self, request: Request) -> Response:
        """The style sheet, the script, the mark; a browser may keep them for good."""
        found = rendering.static_file(request.path_params["file"])
        if found is None:
            raise problem_json.not_found()
        return Response(found.content, 200, {"Cache-Control": _FOR_GOOD}, found.media)

    async def _session(self, request: Request) -> VisitSession:
        cookies = request.headers.getlist("cookie")

        def look() -> VisitSession:
            refresh(self._vault)
            return find_session(self._vault, self._setting, cookies)

        return await self._workers.look(look)

    async def _sent(
        self, route: PageRoute, request: Request, session: VisitSession, kept: AsyncExitStack
    ) -> Sent:
        if _method(request) == "GET":
            check_no_body(request)
            return asked(request)
        seconds = self._setting.limits.body_seconds
        sent = await kept.enter_async_context(form(request, uploads=route.uploads, seconds=seconds))
        check_word(session.word, sent.values.get(FORM, ""))
        return sent

    def _given(self, route: PageRoute, visit: Visit) -> Response:
        """Do what the page is for, and write it; in a thread of its own."""
        made = route.handler(visit)
        session = visit.session
        if isinstance(made, Redirect):
            return self._led_on(session, made)
        if isinstance(made, Download):
            return _saved(made)
        if session.person is not None:
            self._vault.logins.note_use(session.id, shown=bool(session.notices))
        template = made.template or route.template
        facts = {**self._frame(session, route.title, route.path), "visit": visit, **made.facts}
        response = Response(rendering.render(template, facts), made.status, media_type=_HTML)
        if session.is_used and not session.is_sent:
            send_cookie(response, self._setting, session.id)
        return response

    def _frame(self, session: VisitSession, title: str, path: str) -> dict[str, Any]:
        """What every page has around what is its own."""
        person = session.person
        listed = [one for one in self._pages if one.nav is not None and one.is_for(person)]
        return {
            "title": title,
            "person": person,
            "notices": session.notices,
            "session": session,
            "nav": [(one.path, one.nav, one.path == path) for one in listed],
        }

    def _led_on(self, session: VisitSession, made: Redirect) -> Response:
        response = RedirectResponse(made.to, 303)
        current = session.id if made.session is None else made.session
        if made.words is not None and current:
            self._vault.logins.set_notices(current, [made.words])
        if made.device is not None:
            send_device(response, self._setting, made.device)
        if made.session is not None:
            send_cookie(response, self._setting, made.session)
        return response

    def _to_sign_in(self, request: Request) -> Response:
        path = request.scope["path"]
        to = f"?to={quote(path)}" if _method(request) == "GET" and leads_inside(path) else ""
        response = RedirectResponse(f"{SIGN_IN}{to}", 303)
        if is_unread(request):
            response.headers["Connection"] = "close"
        return response

    def _refused(self, request: Request, session: VisitSession, error: SfumatoError) -> Response:
        """A refusal as a page, in the words that every door has."""
        charging = getattr(request.state, "charging", False)
        told = problem_json.told(error, charging=charging)
        headers = problem_json.headers_of(error)
        if is_unread(request):
            headers["Connection"] = "close"
        facts = {
            **self._frame(session, HTTPStatus(told["status"]).phrase, ""),
            "notices": (),
            "told": told,
        }
        return Response(rendering.render("refused.html", facts), told["status"], headers, _HTML)

    def _headed(self, response: Response) -> Response:
        """A response with the headers that all have; what may be kept for good stays so."""
        own = {
            name: response.headers[name]
            for name in ("Cache-Control", "Content-Security-Policy")
            if name in response.headers
        }
        secured(response, self._setting)
        response.headers.update({"Content-Security-Policy": POLICY, **own})
        return response


def leads_inside(path: str) -> bool:
    """Whether a path is one of the console's, and of no other server."""
    return _PATH.fullmatch(path) is not None and "%" not in path and ".." not in path


def _saved(made: Download) -> Response:
    headers = {"Content-Security-Policy": _SAVED}
    name = quote(made.name, safe="")
    if isinstance(made.content, Path):
        return FileResponse(made.content, 200, headers, made.media, filename=made.name)
    headers["Content-Disposition"] = f"attachment; filename*=utf-8''{name}"
    return Response(made.content, 200, headers, made.media)


def _address(request: Request, setting: Setting) -> str:
    scheme = "https" if setting.is_encrypted else "http"
    return f"{scheme}://{request.headers['host']}"


def _method(request: Request) -> str:
    """How a page is asked for: its head alone is asked for as the page is, and sent without."""
    return "GET" if request.method == "HEAD" else request.method


def _method_unknown(
    ways: Mapping[str, Endpoint], pages: Sequence[PageRoute], person: Principal | None
) -> RequestError:
    """What a path takes, for whom it is there; that others may sign in to most is no secret."""
    hidden = (
        not one.is_for(person) and (person is not None or one.who is Who.OWNER) for one in pages
    )
    if not ways or any(hidden):
        return problem_json.not_found()
    allowed = ", ".join(sorted({*ways, *(["HEAD"] if "GET" in ways else [])}))
    headers = {"Allow": allowed}
    return RequestError(405, "method_unknown", f"This path takes {allowed}.", headers=headers)


def _leading(path: str) -> Endpoint:
    async def leading(_request: Request) -> Response:
        return RedirectResponse(path, 303)

    return leading
