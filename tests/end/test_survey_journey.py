"""People answer a survey in a real browser: nothing leaves it but randomized reports."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request as Asked
from urllib.request import urlopen

import pytest
from scipy.stats import binom
from tests.end.browsing import needs_chromium, open_page
from tests.end.survey_draws import draws
from tests.end.survey_served import serving

from sfumato.methods.local.rounds import new_round

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page, Request
    from tests.end.survey_served import Served

pytestmark = needs_chromium

SMOKERS = 0.35
TRUE = math.exp(2) / (math.exp(2) + 1)
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


@pytest.fixture(scope="module", params=[8, pytest.param(200, marks=pytest.mark.slow)])
def people(request: pytest.FixtureRequest) -> int:
    """How many answer."""
    return int(request.param)


@pytest.fixture(scope="module")
def served(people: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A question of two answers at epsilon 2."""
    file = tmp_path_factory.mktemp(f"survey{people}") / "smoking.toml"
    made = new_round(file, "Do you smoke?", ("Certainly", "Never ever"), epsilon=2)
    with serving(file, made) as found:
        yield found


@pytest.fixture(scope="module")
def log(people: int) -> NetworkLog:
    assert people
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
    page.evaluate("localStorage.clear()")
    page.goto(served.page)
    page.get_by_label(choice, exact=True).check()
    page.get_by_role("button", name="Randomize here and send").click()
    page.get_by_text("Thank you.").wait_for()
    return page.inner_text("#status")


@pytest.fixture(scope="module")
def journey(page: Page, served: Served, log: NetworkLog, people: int) -> list[tuple[int, int]]:
    """The true answer and the report of each of them."""
    pairs = []
    for person in range(people):
        truth = 0 if person * 37 % people < SMOKERS * people else 1
        answered(page, served, served.round.choices[truth])
        posted = [one for one in log.sent if one["method"] == "POST"]
        assert len(posted) == person + 1
        pairs.append((truth, json.loads(posted[-1]["body"])["reports"][0]["report"]))
    return pairs


def test_nothing_leaves_the_browser_but_a_ticket_and_a_randomized_report(
    journey: list[tuple[int, int]], log: NetworkLog, served: Served, people: int
) -> None:
    posted = [one for one in log.sent if one["method"] != "GET"]
    assert len(posted) == len(journey) == people
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
    assert len({json.loads(one["body"])["reports"][0]["ticket"] for one in posted}) == people


def test_what_was_sent_is_the_truth_as_often_as_the_round_says(
    journey: list[tuple[int, int]], people: int
) -> None:
    """At epsilon 2 with chance 0.88, not always. False alarms 1e-6."""
    same = sum(truth == report for truth, report in journey)
    assert binom.cdf(same, people, TRUE) > 1e-6
    assert same < people or people < 200


def test_the_estimate_is_that_of_what_was_sent_and_lies_within_its_interval(
    journey: list[tuple[int, int]], served: Served, people: int
) -> None:
    found = served.exactly()
    assert found["n"] == people == len(journey)
    assert served.estimate()["n"] == people // 20 * 20  # the public sees whole groups
    row = found["estimate"]["Certainly"]
    odds = math.exp(2)
    assert row["sd"] == pytest.approx((odds / (odds - 1) ** 2 / people) ** 0.5, rel=1e-6)
    said = sum(report == 0 for _, report in journey) / people
    assert row["share"] == pytest.approx((said - (1 - TRUE)) / (2 * TRUE - 1), rel=1e-6)
    if people >= 200:  # few people are off by more than a normal law says
        assert abs(row["share"] - SMOKERS) < 4.9 * row["sd"]  # 1e-6


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
    assert _posted(served, many)["code"] == "request_too_large"
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


@pytest.mark.usefixtures("page")
def test_the_browser_was_content(log: NetworkLog) -> None:
    """No error, no script or style that the page's own policy stopped."""
    assert [one for one in log.said if "favicon" not in one and "404" not in one] == []
