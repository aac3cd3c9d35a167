"""The pages and the HTTP API of survey rounds.

`survey serve` runs them for one round; the server of a vault adds the pages for all its rounds.
Here only the envelope of a report is checked; `Collection.receive` checks what is in it. Decision
`surveys`.
"""

from __future__ import annotations

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
from sfumato.server.authorization import peer_of
from sfumato.server.endpoints import path_route, problem_response
from sfumato.server.problem_json import RequestError
from sfumato.server.rate_limit import ReportPaces, Workers
from sfumato.server.request_body import read_bytes, read_json
from sfumato.text import dumps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from starlette.requests import Request
    from starlette.routing import Route as PathRoute
    from starlette.types import ASGIApp

    from sfumato.methods.local.collection import Collection
    from sfumato.server.endpoints import Endpoint
    from sfumato.server.settings import Setting

MOST_ITEMS = 1000
"""The most reports, or tickets, of one request."""
_FORM_BYTES = 2048
"""The largest plain form: it has a ticket and a number."""
_HTML = "text/html; charset=utf-8"
_TOO_OFTEN = "from an address that has sent too many reports within an hour"
_MECHANISM_TITLES = {
    "warner": "randomized response (Warner)",
    "k-ary": "randomized response (k-ary)",
}


def survey_site(
    find: Callable[[str], Collection | None], setting: Setting, *, home: str
) -> ASGIApp:
    """Make the application of a server of surveys.

    Parameters
    ----------
    find
        Finds a round by its id.
    setting
        The settings of the server.
    home
        The id of the round that the address / leads to.
    """
    paces = ReportPaces(setting.limits)
    site = _SurveySite(find, setting, paces)
    routes = [
        *survey_pages(find, setting, paces),
        site.route("/v1/reports/{round}", GET=site.estimate, POST=site.receive_reports),
        site.route("/v1/reports/{round}/tickets", POST=site.issue_tickets),
        site.route("/", GET=_redirect_to(f"/survey/{home}")),
    ]
    return Router(routes, redirect_slashes=False, default=site.route("/unknown").app)


def survey_pages(
    find: Callable[[str], Collection | None], setting: Setting, paces: ReportPaces
) -> list[PathRoute]:
    """Make the routes of the pages for people; `paces` counts reports by address."""
    site = _SurveySite(find, setting, paces)
    return [
        site.route("/survey/{round}", GET=site.show_form),
        site.route("/survey/{round}/results", GET=site.show_results),
        site.route("/survey/{round}/by-hand", POST=site.receive_form),
        site.route("/survey/{round}/round.toml", GET=site.send_round),
        site.route("/survey/{round}/{file}", GET=site.send_file),
    ]


def deliver(
    collection: Collection, body: Mapping[str, Any], count_reports: Callable[[int], None]
) -> tuple[int, dict[str, Any]]:
    """Store the reports of a request.

    Parameters
    ----------
    collection
        The round.
    body
        The body of the request.
    count_reports
        Called with the number of reports before any is read or written; raises if their sender has
        sent too many.

    Returns
    -------
    tuple of int and dict
        The HTTP status, and the response, which quotes nothing of the body.
    """
    items = body.get("reports")
    # A request that is refused as a whole counts as one report, so its sender sees the reason.
    is_batch = isinstance(items, list) and 1 <= len(items) <= MOST_ITEMS
    count_reports(len(items) if is_batch and items else 1)
    if set(body) != {"reports"} or not isinstance(items, list) or not items:
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
            f"At most {MOST_ITEMS:,} reports are allowed in one request, not {len(items):,}. Send "
            "several requests, or a batch file to 'sfumato collect'.",
        )
    delivery = collection.receive(items)
    if not delivery.rejected:
        return 200, delivery.to_json()
    rejected = RequestError(
        422,
        "reports_rejected",
        f"{len(delivery.rejected):,} of {len(items):,} reports were rejected, each for the reason "
        "beside its position; the others were stored.",
    )
    return 422, {**problem_json.problem_of(rejected), **delivery.to_json()}


def public_estimate(collection: Collection) -> dict[str, Any]:
    """The estimate of a round so far, which everybody may see, and how often it is renewed."""
    return {**collection.published().to_json(), "renewed_every": RENEWED_EVERY}


class _SurveySite:
    """The endpoints of the rounds that `find` knows by their ids."""

    def __init__(
        self, find: Callable[[str], Collection | None], setting: Setting, paces: ReportPaces
    ) -> None:
        self._find, self._setting, self._paces = find, setting, paces
        self._workers = Workers(setting.limits)

    def route(self, path: str, **by_method: Endpoint) -> PathRoute:
        """Make the route of a path; HEAD is answered like GET, and the server drops the body."""
        if "GET" in by_method:
            by_method["HEAD"] = by_method["GET"]
        return path_route(path, by_method, self._setting, _refuse)

    async def show_form(self, request: Request) -> Response:
        """Show the page where people answer."""
        collection = await self._round(request)
        page = await self._workers.work(lambda: self._form_page(collection))
        return Response(page, media_type=_HTML)

    async def show_results(self, request: Request) -> Response:
        """Show the estimate."""
        collection = await self._round(request)
        page = await self._workers.work(lambda: self._results_page(collection))
        return Response(page, media_type=_HTML)

    async def estimate(self, request: Request) -> Response:
        """Send the estimate as JSON."""
        collection = await self._round(request)
        return _json(await self._workers.work(lambda: public_estimate(collection)))

    async def send_round(self, request: Request) -> Response:
        """Send the round with its signature."""
        collection = await self._round(request)
        return Response(collection.round.toml(), media_type="application/toml")

    async def send_file(self, request: Request) -> Response:
        """Send the style sheet or a script."""
        await self._round(request)  # without the round its files do not exist either
        name = request.path_params["file"]
        if name == "survey.css":
            return Response(style(), media_type="text/css; charset=utf-8")
        if name in SCRIPTS:
            return Response(sheet(name), media_type="text/javascript; charset=utf-8")
        raise problem_json.not_found()

    async def receive_reports(self, request: Request) -> Response:
        """Store reports that were sent as JSON."""
        collection = await self._round(request)
        try:
            body = await read_json(request, seconds=self._setting.limits.body_seconds)
        except SfumatoError:
            # Counted first: every rejection is written to the disk.
            self._count(request, collection)
            await self._workers.work(lambda: collection.reject("malformed"))
            raise
        count_reports = partial(self._count, request, collection)
        status, delivery = await self._workers.work(
            lambda: deliver(collection, body, count_reports)
        )
        return _json(delivery, status)

    async def issue_tickets(self, request: Request) -> Response:
        """Issue tickets to a program."""
        collection = await self._round(request)
        body = await read_json(request, seconds=self._setting.limits.body_seconds)
        count = body.get("count", 1)
        if set(body) - {"count"} or type(count) is not int or not 1 <= count <= MOST_ITEMS:
            raise RequestError(
                422,
                "parameter_out_of_range",
                f'Ask for 1 to {MOST_ITEMS:,} tickets, as {{"count": 1}}.',
            )
        return _json({"tickets": await self._workers.work(lambda: collection.tickets(count))})

    async def receive_form(self, request: Request) -> Response:
        """Store a report that was randomized with coins or dice and sent by the plain form."""
        collection = await self._round(request)
        item = await _read_form(request, self._setting.limits.body_seconds)
        shown = await self._workers.work(lambda: self._shown(collection))
        try:
            self._count(request, collection)
        except RequestError as error:
            return Response(thanks_page(shown, _TOO_OFTEN), error.status, error.headers, _HTML)
        delivery = await self._workers.work(lambda: collection.receive([item]))
        reason = REASONS[delivery.rejected[0][1]] if delivery.rejected else None
        return Response(thanks_page(shown, reason), 422 if reason else 200, media_type=_HTML)

    async def _round(self, request: Request) -> Collection:
        round_id = request.path_params["round"]
        collection = await self._workers.look(lambda: self._find(round_id))
        if collection is None:
            raise problem_json.not_found()
        return collection

    def _count(self, request: Request, collection: Collection, count: int = 1) -> None:
        """Count reports for their address, which is refused if it sends too many."""
        self._paces.check(peer_of(request.scope, self._setting), collection.round.id, count)

    def _form_page(self, collection: Collection) -> str:
        survey_round, shown = collection.round, self._shown(collection)
        # Issued when the page is loaded: a page that is sent twice is still counted once.
        ticket, hand_ticket = collection.tickets(2)
        data = {
            "id": survey_round.id,
            "choices": list(survey_round.choices),
            "reports": f"/v1/reports/{survey_round.id}",
            "ticket": ticket,
            **script_facts(collection.mechanisms[DEVICE]),
        }
        device = survey_round.by_hand
        if device is None:
            return survey_page(shown, data, None)
        second = second_throw(len(survey_round.choices))
        epsilon = str(survey_round.by_hand_epsilon)
        hand = ThrownByHand(device.throw, device.honest, second, epsilon, hand_ticket)
        return survey_page(shown, data, hand)

    def _results_page(self, collection: Collection) -> str:
        estimate = collection.published()
        rejected = {REASONS[reason]: count for reason, count in estimate.rejected.items()}
        result = ShownResult(estimate.bars(), estimate.n, rejected, estimate.closed)
        return results_page(self._shown(collection), result, renewed_every=RENEWED_EVERY)

    def _shown(self, collection: Collection) -> ShownRound:
        survey_round, mechanism = collection.round, collection.mechanisms[DEVICE]
        return ShownRound(
            base=f"/survey/{survey_round.id}",
            id=survey_round.id,
            question=survey_round.question,
            choices=survey_round.choices,
            mechanism=_MECHANISM_TITLES[mechanism.name],
            epsilon=str(survey_round.epsilon),
            state=collection.state,
            opens=_minute(survey_round.opens),
            closes=_minute(survey_round.closes),
            truth_chance=chance_of_truth(mechanism),
            reports_per_hour=self._paces.per_hour,
        )


def _minute(time: datetime) -> str:
    return f"{time.day} {time:%B %Y, %H:%M} UTC"


async def _read_form(request: Request, seconds: float) -> dict[str, object]:
    """Read the plain form as an item like those of JSON; `receive` rejects a malformed one."""
    body = await read_bytes(request, "application/x-www-form-urlencoded", seconds=seconds)
    if len(body) > _FORM_BYTES:
        raise RequestError(
            413, "request_too_large", f"The form may have {_FORM_BYTES:,} bytes at most."
        )
    try:
        pairs = parse_qsl(body.decode("ascii", errors="replace"), max_num_fields=2)
    except ValueError:
        pairs = []
    fields = dict(pairs)
    # Of a repeated field nobody can say which value the person meant.
    has_repeated_field = len(fields) < len(pairs)
    number = "" if has_repeated_field else fields.get("number", "")
    is_number = number.isascii() and number.isdigit() and len(number) < 9
    report = int(number) - 1 if is_number else None
    return {"ticket": fields.get("ticket"), "report": report, "way": HAND}


def _refuse(request: Request, error: SfumatoError) -> Response:
    # An internal error is most likely a full disk, which may be better in a while.
    return problem_response(request, error, 503 if isinstance(error, InternalError) else None)


def _json(data: object, status: int = 200) -> Response:
    media = "application/json" if status == 200 else problem_json.MEDIA
    return Response(dumps(data, ensure_ascii=False), status, media_type=media)


def _redirect_to(path: str) -> Endpoint:
    async def redirect(_request: Request) -> Response:
        return RedirectResponse(path, 303)

    return redirect
