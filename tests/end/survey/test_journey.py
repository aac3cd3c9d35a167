"""People answer a survey in a real browser: nothing leaves it but randomized reports."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request as Asked
from urllib.request import urlopen

import pytest

from ..browsing import SCREENS, needs_chromium, open_page, words_at_fault, worst_contrast
from .same_bytes import draws

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page, Request

    from .conftest import Served

pytestmark = needs_chromium

PEOPLE, SMOKERS = 200, 70
REPORT_KEYS = {"ticket", "report"}


@dataclass
class NetworkLog:
    """All that left the browser."""

    sent: list[dict[str, Any]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def note(self, request: Request) -> None:
        headers = request.all_headers()
        self.sent.append(
            {
                "method": request.method,
                "url": request.url,
                "body": request.post_data,
                "headers": {k: v for k, v in headers.items() if not k.startswith("sec-")},
            }
        )


@pytest.fixture(scope="module")
def log() -> NetworkLog:
    return NetworkLog()


@pytest.fixture(scope="module")
def page(browser: Browser, served: Served, log: NetworkLog) -> Iterator[Page]:
    page = open_page(browser, "light 1280")
    page.on("requestfinished", log.note)
    page.on("console", lambda message: log.said.append(message.text))
    page.on("pageerror", lambda error: log.said.append(str(error)))
    page.goto(served.page)
    yield page
    page.context.close()


def answered(page: Page, served: Served, choice: str) -> str:
    """A person opens the page, answers, and is thanked."""
    page.goto(served.page)
    page.evaluate("localStorage.clear()")
    page.reload()
    page.get_by_label(choice, exact=True).check()
    page.get_by_role("button", name="Randomize here and send").click()
    page.get_by_text("Thank you.").wait_for()
    return page.inner_text("#status")


@pytest.fixture(scope="module")
def journey(page: Page, served: Served, log: NetworkLog) -> list[tuple[int, int]]:
    """The true answer and the report of each of 200 people."""
    pairs = []
    for person in range(PEOPLE):
        truth = 0 if person * 37 % PEOPLE < SMOKERS else 1
        answered(page, served, served.round.choices[truth])
        posted = [one for one in log.sent if one["method"] == "POST"]
        assert len(posted) == person + 1
        pairs.append((truth, json.loads(posted[-1]["body"])["reports"][0]["report"]))
    return pairs


def test_nothing_leaves_the_browser_but_a_ticket_and_a_randomized_report(
    journey: list[tuple[int, int]], log: NetworkLog, served: Served
) -> None:
    posted = [one for one in log.sent if one["method"] != "GET"]
    assert len(posted) == len(journey) == PEOPLE
    for one in posted:
        (item,) = json.loads(one["body"])["reports"]
        assert set(json.loads(one["body"])) == {"reports"}
        assert set(item) == REPORT_KEYS
        assert item["report"] in (0, 1)
    paths = {urlsplit(one["url"]).path for one in log.sent}
    base = f"/survey/{served.round.id}"
    files = {f"{base}/{name}" for name in ("survey.css", "survey.mjs", "mechanism.mjs")}
    assert paths <= {base, *files, f"/v1/reports/{served.round.id}", "/favicon.ico"}
    assert {urlsplit(one["url"]).query for one in log.sent} == {""}
    everything = json.dumps(log.sent)
    for choice in served.round.choices:
        assert choice not in everything
    assert "cookie" not in {name for one in log.sent for name in one["headers"]}
    assert len({json.loads(one["body"])["reports"][0]["ticket"] for one in posted}) == PEOPLE


def test_what_was_sent_is_the_truth_as_often_as_the_round_says(
    journey: list[tuple[int, int]],
) -> None:
    """At epsilon 2 with chance 0.88: not always, as if it were sent. False alarms 1e-6."""
    p = 0.8807970779778823
    same = sum(truth == report for truth, report in journey)
    assert abs(same - PEOPLE * p) < 4.9 * (PEOPLE * p * (1 - p)) ** 0.5
    assert same < PEOPLE


def test_the_estimate_lies_within_its_interval(
    journey: list[tuple[int, int]], served: Served
) -> None:
    found = served.estimate()
    assert found["n"] == PEOPLE == len(journey)
    row = found["estimate"]["Certainly"]
    assert row["sd"] == pytest.approx((0.10499358 / 0.57995 / PEOPLE) ** 0.5, rel=0.01)
    assert abs(row["share"] - SMOKERS / PEOPLE) < 4.9 * row["sd"]  # 1e-6


@pytest.mark.usefixtures("journey")
def test_replayed_and_malformed_reports_are_rejected_and_counted(
    served: Served, log: NetworkLog
) -> None:
    before = served.estimate()
    replayed = next(one["body"] for one in log.sent if one["method"] == "POST")
    assert _posted(served, replayed.encode())["rejected"] == [{"index": 0, "code": "replayed"}]
    ticket = json.loads(replayed)["reports"][0]["ticket"]
    bad: list[Any] = [{"ticket": ticket, "report": 2}, {"ticket": "x", "report": 1}, "Certainly"]
    told = _posted(served, json.dumps({"reports": bad}).encode())
    codes = [one["code"] for one in told["rejected"]]
    assert codes == ["outside_domain", "ticket_unknown", "malformed"]
    assert "Certainly" not in json.dumps(told)
    assert _posted(served, b"{")["status"] == 400
    assert _posted(served, b'{"answers": []}')["status"] == 422
    many = json.dumps({"reports": [{}] * 1001}).encode()
    assert _posted(served, many)["code"] == "reports_too_many"
    after = served.estimate()
    assert after["n"] == before["n"]
    assert after["estimate"] == before["estimate"]
    assert after["rejected_by_reason"] == {
        "replayed": 1,
        "outside_domain": 1,
        "ticket_unknown": 1,
        "malformed": 3,
        "too_many": 1001,
    }


def _posted(served: Served, body: bytes) -> dict[str, Any]:
    headers = {"Content-Type": "application/json"}
    asked = Asked(f"{served.url}/v1/reports/{served.round.id}", body, headers)
    try:
        urlopen(asked, timeout=30)
    except HTTPError as error:
        found: dict[str, Any] = json.load(error)
        return found
    raise AssertionError("it was taken")


def test_the_browser_draws_what_python_draws(page: Page, served: Served) -> None:
    wanted = draws()
    page.goto(served.page)
    told = page.evaluate(
        """async ([place, cases]) => {
          const { randomize } = await import(place);
          return cases.map(({ round, answer, words }) => {
            let used = 0;
            const source = count => words.slice(used, used += count).map(BigInt);
            return { report: randomize(round, answer, source), used };
          });
        }""",
        [f"{served.page}/mechanism.mjs", [asdict(one) for one in wanted]],
    )
    assert [one["report"] for one in told] == [one.report for one in wanted]
    assert [one["used"] for one in told] == [one.used for one in wanted]


def test_the_browser_was_content(log: NetworkLog, page: Page) -> None:
    """No error, no script or style that the page's own policy stopped."""
    assert page
    assert [one for one in log.said if "favicon" not in one and "404" not in one] == []
