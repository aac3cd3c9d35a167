"""The console inside the server: its table of pages and the checks before each page.

Every request takes the same steps: site of origin, session, permission, rate limit, form within
limits, form token, page. A refusal is shown as a page as early as possible.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.responses import FileResponse, RedirectResponse, Response

from sfumato.console import home, public_pages, rendering, sign_in
from sfumato.console.analyst import datasets, jobs, programs, questions
from sfumato.console.forms import FormValues, check_site, check_token, read_form, read_query
from sfumato.console.owner import (
    consent,
    operation_forms,
    principals,
    releases,
    tables,
)
from sfumato.console.page_request import (
    FORM,
    HOME,
    Audience,
    Download,
    PageRoute,
    Redirect,
    Visit,
    leads_inside,
)
from sfumato.console.sessions import (
    VisitSession,
    device_of,
    find_session,
    send_cookie,
    send_device,
)
from sfumato.console.sign_in import (
    HASHED_AT_A_TIME,
    HASHES_AT_ONCE,
    HASHES_PER_SECOND,
    guesser_of,
    sign_in_paused,
)
from sfumato.server import problem_json
from sfumato.server.authorization import Caller, peer_of, refresh
from sfumato.server.endpoints import (
    is_charging,
    note_charging,
    path_route,
    refusal_headers,
)
from sfumato.server.rate_limit import Buckets, FairWorkers, Paces
from sfumato.server.request_body import check_no_body, is_unread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.routing import Route as PathRoute

    from sfumato.console.forms import SentForm
    from sfumato.errors import SfumatoError
    from sfumato.server.endpoints import Endpoint
    from sfumato.server.rate_limit import Workers
    from sfumato.server.responses import UnsentReplies
    from sfumato.server.settings import Setting
    from sfumato.vault.vault import Vault

PAGES = (
    *home.PAGES,
    *public_pages.PAGES,
    home.TOUR,
    *questions.PAGES,
    *programs.PAGES,
    *datasets.PAGES,
    *jobs.PAGES,
    *tables.PAGES,
    *principals.PAGES,
    *consent.PAGES,
    *releases.PAGES,
    *operation_forms.pages_of(),
    *sign_in.PAGES,
)
"""Every page of the console, in the order of the navigation."""

SIGN_IN = f"{HOME}/sign-in"
_HTML = "text/html; charset=utf-8"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
"""The content security policy of every page: nothing inline, nothing from other servers."""
# A downloaded page that a browser opens anyway may run nothing in our origin.
_DOWNLOAD_POLICY = "sandbox; default-src 'none'"
# Safe, because the name of a static file changes with its content.
_CACHED_FOREVER = "public, max-age=31536000, immutable"


def console_pages(
    vault: Vault,
    setting: Setting,
    workers: Workers,
    unsent: UnsentReplies,
    pages: Sequence[PageRoute] = PAGES,
) -> list[PathRoute]:
    """The routes of a vault's console."""
    console = _Console(vault, setting, workers, unsent, pages)
    pages_at: dict[str, list[PageRoute]] = {}
    for page in pages:
        pages_at.setdefault(page.path, []).append(page)
    return [
        console.route("/", [], GET=_go_home),
        console.route(f"{HOME}/", [], GET=_go_home),
        *(
            console.route(
                path, listed, **{page.method: partial(console.show_page, page) for page in listed}
            )
            for path, listed in pages_at.items()
        ),
        console.route(rendering.STATIC, [], GET=console.static_file),
        # Last: unknown pages of the console are refused as pages, not as JSON.
        console.route("/console/{rest:path}", []),
    ]


class _Console:
    """What all pages of one console share: vault, settings, rate limits and workers."""

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

    def route(self, path: str, pages: Sequence[PageRoute], **by_method: Endpoint) -> PathRoute:
        """Make the route of a path. HEAD is answered like GET, and the server drops the body."""
        if "GET" in by_method:
            by_method["HEAD"] = by_method["GET"]

        async def admit(request: Request) -> None:
            if _method(request) in {"POST", *by_method} - {"GET", "HEAD"}:
                check_site(request)
            session = request.state.session = await self._session(request)
            person = session.person
            # Pages for signed-in visitors are no secret; the owner's pages are. So a wrong method
            # for one of them is answered like a path that does not exist.
            is_hidden = any(
                not page.is_for(person) and (person is not None or page.audience is Audience.OWNER)
                for page in pages
            )
            if request.method not in by_method and is_hidden:
                raise problem_json.not_found()

        return path_route(
            path,
            by_method,
            self._setting,
            self._refuse,
            admit=admit,
            log=self._vault.config.folder,
            policy=POLICY,
        )

    async def show_page(self, route: PageRoute, request: Request) -> Response:
        """Answer a request for a page; visitors who must sign in first are sent there."""
        session: VisitSession = request.state.session
        if route.audience is not Audience.PUBLIC and session.person is None:
            return self._to_sign_in(request)
        if not route.is_for(session.person):
            raise problem_json.not_found()  # to others the owner's pages do not exist
        name = "" if session.person is None else session.person.name
        peer = peer_of(request.scope, self._setting)
        caller = Caller(name, f"console {name}" if name else "", peer=peer)
        # Before the body is read: a refused visitor costs almost nothing.
        self._paces.check(caller)
        self._unsent.check(caller)
        async with AsyncExitStack() as stack:
            form = await self._form(route, request, session, stack)
            visit = Visit(
                self._vault,
                session,
                self._setting,
                _address(request, self._setting),
                request.path_params,
                form.values,
                form.fields,
                form.files,
                peer,
                device_of(self._setting, request.headers.getlist("cookie")),
            )
            if route.charging:
                note_charging(request)
            if route.hashing:
                return await self._hash(route, visit)
            response = await self._workers.work(lambda: self._respond(route, visit))
            return self._unsent.counted(response, caller)

    async def _hash(self, route: PageRoute, visit: Visit) -> Response:
        """Answer a page that hashes a password, when it is the visitor's turn."""
        guesser = await self._workers.look(lambda: guesser_of(route, visit))
        # Known sources go before unknown ones. A source that signs in again and again with the
        # right password would block all unknown ones, so its sign-ins are counted. Its wrong
        # guesses are limited in `logins`: the thief of a device must not use up its owner's hashes.
        key = f"signed in {guesser.lane}" if guesser.is_known else guesser.key
        wait = self._hashes.take(key)
        if wait:
            raise sign_in_paused(wait)
        visit, is_right = replace(visit, guesser=guesser), False
        try:
            response = await self._hashing.work(
                guesser.lane, lambda: self._respond(route, visit), is_known=guesser.is_known
            )
            is_right = response.status_code == HTTPStatus.SEE_OTHER
        finally:
            # Right passwords of unknown sources are free: a whole office may share one address.
            if is_right != guesser.is_known:
                self._hashes.give_back(key)
        return response

    async def static_file(self, request: Request) -> Response:
        """The style sheet, the script or the logo, to be cached forever."""
        file = rendering.static_file(request.path_params["file"])
        if file is None:
            raise problem_json.not_found()
        return Response(file.content, 200, {"Cache-Control": _CACHED_FOREVER}, file.media)

    async def _session(self, request: Request) -> VisitSession:
        cookies = request.headers.getlist("cookie")

        def look() -> VisitSession:
            refresh(self._vault)  # permissions may have changed through another server
            return find_session(self._vault, self._setting, cookies)

        return await self._workers.look(look)

    async def _form(
        self, route: PageRoute, request: Request, session: VisitSession, stack: AsyncExitStack
    ) -> SentForm:
        if _method(request) == "GET":
            check_no_body(request)
            return read_query(request)
        seconds = self._setting.limits.body_seconds
        form = await stack.enter_async_context(
            read_form(request, uploads=route.uploads, seconds=seconds)
        )
        check_token(session.form_token, form.values.get(FORM, ""))
        return form

    def _respond(self, route: PageRoute, visit: Visit) -> Response:
        """Call the handler of a page and send its result. This blocks, so it runs in a thread."""
        result = route.handler(visit)
        session = visit.session
        if isinstance(result, Redirect):
            return self._redirect(session, result)
        if isinstance(result, Download):
            return _download(result)
        if session.person is not None:
            # Idle time counts from the last page, and a notice is shown once.
            self._vault.logins.note_use(session.id, shown=bool(session.notices))
        template = result.template or route.template
        facts = {
            **self._frame(session, route.title, route.path),
            "visit": visit,
            "values": FormValues(result.values or {}),
            "errors": FormValues(result.errors or {}),
            **result.facts,
        }
        response = Response(rendering.render(template, facts), result.status, media_type=_HTML)
        if session.is_used and not session.is_sent:
            send_cookie(response, self._setting, session.id)
        return response

    def _frame(self, session: VisitSession, title: str, path: str) -> dict[str, Any]:
        """The facts around every page: title, visitor, notices and navigation."""
        person = session.person
        return {
            "title": title,
            "person": person,
            "notices": session.notices,
            "session": session,
            "nav": [
                (page.path, page.nav, page.path == path)
                for page in self._pages
                if page.nav is not None and page.is_for(person)
            ],
        }

    def _redirect(self, session: VisitSession, result: Redirect) -> Response:
        response = RedirectResponse(result.to, 303)
        current = session.id if result.session is None else result.session
        # In the session, not in the address: a link must not make our page say something.
        if result.notice is not None and current:
            self._vault.logins.set_notices(current, [result.notice])
        if result.device is not None:
            send_device(response, self._setting, result.device)
        if result.session is not None:
            send_cookie(response, self._setting, result.session)
        return response

    def _to_sign_in(self, request: Request) -> Response:
        path = request.scope["path"]
        # Only a GET can be repeated after the sign-in.
        to = f"?to={quote(path)}" if _method(request) == "GET" and leads_inside(path) else ""
        response = RedirectResponse(f"{SIGN_IN}{to}", 303)
        if is_unread(request):
            # The rest of the body is never read, so the connection cannot be used again.
            response.headers["Connection"] = "close"
        return response

    def _refuse(self, request: Request, error: SfumatoError) -> Response:
        """Show an error as a page, with the message that commands and HTTP show too."""
        problem = problem_json.problem_of(error, charging=is_charging(request))
        # Before the session was looked up (a foreign host, say) the page shows no visitor.
        session = getattr(request.state, "session", VisitSession(""))
        facts = {
            **self._frame(session, HTTPStatus(problem["status"]).phrase, ""),
            "notices": (),
            "problem": problem,
        }
        headers = refusal_headers(request, error)
        return Response(rendering.render("refused.html", facts), problem["status"], headers, _HTML)


def _download(result: Download) -> Response:
    headers = {"Content-Security-Policy": _DOWNLOAD_POLICY}
    if isinstance(result.content, Path):
        return FileResponse(result.content, 200, headers, result.media, filename=result.name)
    # RFC 6266: quoted, so that a name cannot add a header or a second file name.
    name = quote(result.name, safe="")
    headers["Content-Disposition"] = f"attachment; filename*=utf-8''{name}"
    return Response(result.content, 200, headers, result.media)


def _address(request: Request, setting: Setting) -> str:
    scheme = "https" if setting.is_encrypted else "http"
    return f"{scheme}://{request.headers['host']}"


def _method(request: Request) -> str:
    """The method of a request. HEAD is answered like GET, and the server drops the body."""
    return "GET" if request.method == "HEAD" else request.method


async def _go_home(_request: Request) -> Response:
    return RedirectResponse(HOME, 303)
