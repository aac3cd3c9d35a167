"""The pages and the endpoint of surveys, as an application that stands alone or beside the gate's.

`survey serve` runs it for one round; a gate mounts it for the rounds of its vault. What a report
says is checked in one place, `Collection.receive`; here are only its envelope and its pages.
Decision `surveys`.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from starlette.responses import RedirectResponse, Response
from starlette.routing import Router

from sfumato.errors import InternalError, SfumatoError
from sfumato.methods.local.collection import DEVICE, HAND, REASONS
from sfumato.methods.local.paper_coins import second_throw
from sfumato.methods.local.report_store import RENEWED_EVERY
from sfumato.methods.local.survey_page import (
    SCRIPTS,
    ShownResult,
    ShownRound,
    ThrownByHand,
    chance_of_truth,
    results_page,
    script_facts,
    style,
    survey_page,
    thanks_page,
)
from sfumato.report.palette import sheet
from sfumato.server import problem_json
from sfumato.server.authorization import check_caller
from sfumato.server.path_routes import path_route
from sfumato.server.peers import peer_of
from sfumato.server.problem_json import RequestError
from sfumato.server.rate_limit import ReportPaces, Workers
from sfumato.server.request_body import read_json
from sfumato.server.security_headers import secured
from sfumato.text import dumps

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from datetime import datetime

    from starlette.requests import Request
    from starlette.routing import Route as PathRoute
    from starlette.types import ASGIApp, Receive, Scope, Send

    from sfumato.methods.local.collection import Collection
    from sfumato.server.settings import Setting

    Endpoint = Callable[[Request], Awaitable[Response]]

MOST_ITEMS = 1000
"""Reports, or tickets, in one request."""
_FORM_BYTES = 2048
_HTML = "text/html; charset=utf-8"
_TOO_OFTEN = "from an address that has sent too many reports within an hour"


def survey_site(
    find: Callable[[str], Collection | None], setting: Setting, *, home: str
) -> ASGIApp:
    """The application for the rounds that `find` knows by id; / leads to that of `home`."""
    paces = ReportPaces(setting.limits)
    site = _Site(find, setting, paces)
    endpoints: list[tuple[str, str, Endpoint]] = [
        ("/v1/reports/{round}", "POST", site.reports),
        ("/v1/reports/{round}", "GET", site.estimate),
        ("/v1/reports/{round}/tickets", "POST", site.tickets),
        ("/", "GET", _leading(f"/survey/{home}")),
    ]
    routes = [*survey_pages(find, setting, paces), *site.routes(endpoints)]
    return Router(routes, redirect_slashes=False, default=site.nothing)


def survey_pages(
    find: Callable[[str], Collection | None], setting: Setting, paces: ReportPaces
) -> list[PathRoute]:
    """The pages of the rounds that `find` knows by id; `paces` counts reports by address."""
    site = _Site(find, setting, paces)
    return site.routes(
        [
            ("/survey/{round}", "GET", site.page),
            ("/survey/{round}/results", "GET", site.results),
            ("/survey/{round}/by-hand", "POST", site.by_hand),
            ("/survey/{round}/round.toml", "GET", site.signed),
            ("/survey/{round}/{file}", "GET", site.file),
        ]
    )


def deliver(
    collection: Collection, told: Mapping[str, Any], count_reports: Callable[[int], None]
) -> tuple[int, dict[str, Any]]:
    """Take the reports of a request: the status, and what to say, which quotes none of it.

    `count_reports` is called with their number before anything is looked up or written, and
    refuses where their sender has sent too many.
    """
    items = told.get("reports")
    # A request that is refused as a whole counts as one, so that it is told what is wrong with it.
    is_taken = isinstance(items, list) and 1 <= len(items) <= MOST_ITEMS
    count_reports(len(items) if is_taken and items else 1)
    if set(told) != {"reports"} or not isinstance(items, list) or not items:
        collection.reject("malformed")
        raise RequestError(
            422,
            "request_malformed",
            'The body must be {"reports": [{"ticket": ..., "report": ...}, ...]} and nothing else.',
        )
    if len(items) > MOST_ITEMS:
        collection.reject("too_many", len(items))
        raise RequestError(
            422,
            "request_too_large",
            f"At most {MOST_ITEMS:,} reports come in one request, not {len(items):,}. Send them in "
            "several, or as a batch file to 'sfumato collect'.",
        )
    delivery = collection.receive(items)
    if not delivery.rejected:
        return 200, delivery.to_json()
    refused = RequestError(
        422,
        "reports_rejected",
        f"{len(delivery.rejected):,} of {len(items):,} reports were rejected, each for the reason "
        "told beside its place; the others were kept.",
    )
    return 422, {**problem_json.told(refused), **delivery.to_json()}


def public_estimate(collection: Collection) -> dict[str, Any]:
    """What anybody is told of a round so far, and how often that is renewed."""
    return {**collection.published().to_json(), "renewed_every": RENEWED_EVERY}


class _Site:
    """The endpoints over the rounds that can be found."""

    def __init__(
        self, find: Callable[[str], Collection | None], setting: Setting, paces: ReportPaces
    ) -> None:
        self._find, self._setting, self._crowd = find, setting, Workers(setting.limits)
        self._paces = paces

    def routes(self, endpoints: list[tuple[str, str, Endpoint]]) -> list[PathRoute]:
        """Endpoints by path and method."""
        by_path: dict[str, dict[str, Endpoint]] = {}
        for path, method, endpoint in endpoints:
            by_path.setdefault(path, {})[method] = endpoint
        return [path_route(path, self._guarded(ways)) for path, ways in by_path.items()]

    def _guarded(self, ways: Mapping[str, Endpoint]) -> Endpoint:
        """Endpoints for who comes by a known name; their refusals are told in one form."""

        async def guarded(request: Request) -> Response:
            try:
                check_caller(request.scope, self._setting)
                method = "GET" if request.method == "HEAD" else request.method
                if method not in ways:
                    raise _method_unknown(ways)
                response = await ways[method](request)
            except SfumatoError as error:
                response = _refused(error)
            except Exception:  # noqa: BLE001  whatever it was, its text may quote a report
                response = _refused(problem_json.failed_inside())
            return secured(response, self._setting)

        return guarded

    async def nothing(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer for a path that is none."""
        if scope["type"] == "http":
            response = secured(_refused(problem_json.not_found()), self._setting)
            await response(scope, receive, send)

    async def _round(self, request: Request) -> Collection:
        name = request.path_params["round"]
        found = await self._crowd.look(lambda: self._find(name))
        if found is None:
            raise problem_json.not_found()
        return found

    def _count(self, request: Request, collection: Collection, count: int = 1) -> None:
        """Count reports by the address that sends them; refused where it sends too many."""
        self._paces.check(peer_of(request.scope, self._setting), collection.round.id, count)

    def _shown(self, collection: Collection) -> ShownRound:
        return _shown(collection, self._paces.per_hour)

    async def page(self, request: Request) -> Response:
        """Where people answer."""
        collection = await self._round(request)
        made = await self._crowd.work(lambda: _page(collection, self._shown(collection)))
        return Response(made, media_type=_HTML)

    async def results(self, request: Request) -> Response:
        """The estimate as a page."""
        collection = await self._round(request)
        made = await self._crowd.work(lambda: _results(collection, self._shown(collection)))
        return Response(made, media_type=_HTML)

    async def estimate(self, request: Request) -> Response:
        """The estimate for programs."""
        collection = await self._round(request)
        return _json(await self._crowd.work(lambda: public_estimate(collection)))

    async def signed(self, request: Request) -> Response:
        """The round itself, with its signature."""
        collection = await self._round(request)
        return Response(collection.round.toml(), media_type="application/toml")

    async def file(self, request: Request) -> Response:
        """The style sheet and the scripts."""
        await self._round(request)
        name = request.path_params["file"]
        if name == "survey.css":
            return Response(style(), media_type="text/css; charset=utf-8")
        if name in SCRIPTS:
            return Response(sheet(name), media_type="text/javascript; charset=utf-8")
        raise problem_json.not_found()

    async def reports(self, request: Request) -> Response:
        """Take reports."""
        collection = await self._round(request)
        try:
            told = await read_json(request, seconds=self._setting.limits.body_seconds)
        except SfumatoError:
            self._count(request, collection)  # else each would cost the disk a write
            await self._crowd.work(lambda: collection.reject("malformed"))
            raise
        count_reports = partial(self._count, request, collection)
        status, body = await self._crowd.work(lambda: deliver(collection, told, count_reports))
        return _json(body, status)

    async def tickets(self, request: Request) -> Response:
        """Hand out tickets to a program."""
        collection = await self._round(request)
        told = await read_json(request, seconds=self._setting.limits.body_seconds)
        count = told.get("count", 1)
        if set(told) - {"count"} or type(count) is not int or not 1 <= count <= MOST_ITEMS:
            raise RequestError(
                422,
                "parameter_out_of_range",
                f'Ask for 1 to {MOST_ITEMS:,} tickets, as {{"count": 1}}.',
            )
        return _json({"tickets": await self._crowd.work(lambda: collection.tickets(count))})

    async def by_hand(self, request: Request) -> Response:
        """Take what a person's coins or dice said, from the plain form."""
        collection = await self._round(request)
        item = await _form(request, self._setting.limits.body_seconds)
        shown = await self._crowd.work(lambda: self._shown(collection))
        try:
            self._count(request, collection)
        except RequestError as error:
            return Response(thanks_page(shown, _TOO_OFTEN), error.status, error.headers, _HTML)
        delivery = await self._crowd.work(lambda: collection.receive([item]))
        refused = REASONS[delivery.rejected[0][1]] if delivery.rejected else None
        page = thanks_page(shown, refused)
        return Response(page, 422 if refused else 200, media_type=_HTML)


def _page(collection: Collection, shown: ShownRound) -> str:
    asked = collection.round
    device, (ticket, hand_ticket) = asked.by_hand, collection.tickets(2)
    mechanism = collection.mechanisms[DEVICE]
    told = {
        "id": asked.id,
        "choices": list(asked.choices),
        "reports": f"/v1/reports/{asked.id}",
        "ticket": ticket,
        **script_facts(mechanism),
    }
    if device is None:
        return survey_page(shown, told, None)
    then, epsilon = second_throw(len(asked.choices)), str(asked.by_hand_epsilon)
    hand = ThrownByHand(device.throw, device.honest, then, epsilon, hand_ticket)
    return survey_page(shown, told, hand)


def _results(collection: Collection, shown: ShownRound) -> str:
    found = collection.published()
    rejected = {REASONS[reason]: items for reason, items in found.rejected.items()}
    result = ShownResult(found.bars(), found.n, rejected, found.closed)
    return results_page(shown, result, renewed_every=RENEWED_EVERY)


def _shown(collection: Collection, reports_per_hour: int) -> ShownRound:
    asked = collection.round
    return ShownRound(
        base=f"/survey/{asked.id}",
        id=asked.id,
        question=asked.question,
        choices=asked.choices,
        mechanism=_NAMES[collection.mechanisms[DEVICE].name],
        epsilon=str(asked.epsilon),
        state=collection.state,
        opens=_moment(asked.opens),
        closes=_moment(asked.closes),
        truth_chance=chance_of_truth(collection.mechanisms[DEVICE]),
        reports_per_hour=reports_per_hour,
    )


_NAMES = {"warner": "randomized response (Warner)", "k-ary": "randomized response (k-ary)"}


def _moment(when: datetime) -> str:
    return f"{when.day} {when:%B %Y, %H:%M} UTC"


async def _form(request: Request, seconds: float) -> dict[str, object]:
    """An item out of the plain form; what is none of it is rejected where all items are."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise RequestError(
            415, "request_malformed", "Send the form of the page, as a browser does."
        )
    raw = b""
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                raw += part
                if len(raw) > _FORM_BYTES:
                    raise RequestError(
                        413, "request_too_large", f"A form has {_FORM_BYTES:,} bytes at most."
                    )
    except TimeoutError:
        raise RequestError(
            408, "request_slow", "The form did not arrive in time. Send it again."
        ) from None
    try:
        pairs = parse_qsl(raw.decode("ascii", errors="replace"), max_num_fields=2)
    except ValueError:
        pairs = []
    fields = dict(pairs)
    number = fields.get("number", "") if len(fields) == len(pairs) else ""  # each field once
    report = int(number) - 1 if number.isascii() and number.isdigit() and len(number) < 9 else None
    return {"ticket": fields.get("ticket"), "report": report, "way": HAND}


def _method_unknown(ways: Mapping[str, Endpoint]) -> RequestError:
    allowed = ", ".join(sorted(ways))
    headers = {"Allow": allowed}
    return RequestError(405, "choice_unknown", f"This path takes {allowed}.", headers=headers)


def _refused(error: SfumatoError) -> Response:
    told = problem_json.told(error)
    if isinstance(error, InternalError):  # the disk, most likely: it may be better in a while
        told |= {"status": 503, "title": "Service Unavailable"}
    unread = told["status"] in {404, 408, 411, 413, 415, 421}
    headers = {**getattr(error, "headers", {}), **({"Connection": "close"} if unread else {})}
    body = dumps(told, ensure_ascii=False)
    return Response(body, told["status"], headers, media_type=problem_json.MEDIA)


def _json(body: object, status: int = 200) -> Response:
    media = "application/json" if status == 200 else problem_json.MEDIA
    return Response(dumps(body, ensure_ascii=False), status, media_type=media)


def _leading(path: str) -> Endpoint:
    async def leading(_request: Request) -> Response:
        return RedirectResponse(path, 303)

    return leading
