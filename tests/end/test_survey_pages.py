"""The pages of a survey on every screen, without a script, on bad networks, and when it is over."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from tests.end.browsing import SCREENS, needs_chromium, open_page, words_at_fault, worst_contrast
from tests.end.survey_draws import PreparedWords
from tests.end.survey_served import served_here

from sfumato.methods.local import oracle
from sfumato.methods.local.collection import Collection
from sfumato.methods.local.report_store import RENEWED_EVERY
from sfumato.methods.local.reports import to_wire
from sfumato.methods.local.rounds import new_round

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page
    from tests.end.survey_served import Served

pytestmark = needs_chromium

QUICK = ("light 390", "dark 1280")
"""Both colours and both widths; the other two pairs take their turn in the slow set."""
CHOICES = ("Every day", "<b>Sometimes</b>", "Never in my whole life, " + "really " * 8 + "not")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    file = tmp_path_factory.mktemp("pages") / "smoking.toml"
    made = new_round(file, 'Do you "smoke" & drink?', CHOICES, epsilon="log(4)")
    with served_here(file, made) as found:
        yield found


@pytest.fixture(
    scope="module",
    params=[one if one in QUICK else pytest.param(one, marks=pytest.mark.slow) for one in SCREENS],
)
def screen(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    page = open_page(browser, request.param)
    yield page
    page.context.close()


@pytest.mark.parametrize("path", ["", "/results"])
def test_a_page_reads_well_on_every_screen(screen: Page, served: Served, path: str) -> None:
    with closing(Collection(served.file)) as collection:
        tickets = collection.tickets(RENEWED_EVERY)
        collection.receive([{"ticket": one, "report": 1} for one in tickets])
    screen.goto(served.page + path)
    width = screen.evaluate("document.documentElement.scrollWidth")
    assert screen.viewport_size
    assert width <= screen.viewport_size["width"]
    assert worst_contrast(screen)["ratio"] >= 4.5
    assert words_at_fault(screen) == []
    assert "<b>Sometimes</b>" in screen.inner_text("main")


def test_without_a_script_people_send_what_their_coins_said(
    browser: Browser, served: Served
) -> None:
    before = served.held()
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    posted = []
    page.on("request", lambda one: posted.append(one.post_data) if one.post_data else None)
    page.goto(served.page)
    assert not page.locator("#ask").is_visible()
    told = page.inner_text("#by-hand")
    # Three choices at odds of at most 4 to 1: the truth with 1/2, else any of the three.
    assert "Flip a coin." in told
    assert "epsilon log(4), exactly" in told
    assert "If it shows more than 3, roll again." in told
    page.get_by_label("2. <b>Sometimes</b>").check()
    page.get_by_role("button", name="Send this").click()
    page.get_by_role("heading", name="Thank you").wait_for()
    assert len(posted) == 1
    assert posted[0].endswith("&number=2")
    assert served.held() == before + 1
    page.go_back()
    page.get_by_label("1. Every day").check()
    page.get_by_role("button", name="Send this").click()
    # Going back shows the old page with its old ticket, or loads a new one: never both counted.
    page.get_by_role("heading", level=1).wait_for()
    context.close()
    assert served.held() <= before + 2


def test_after_a_failure_of_the_network_the_same_report_is_sent_again(
    browser: Browser, served: Served
) -> None:
    """A second report of one answer would tell more of a person than the first."""
    before = served.held()
    page = open_page(browser, "light 390")
    bodies: list[str] = []
    page.on("request", lambda one: bodies.append(one.post_data) if one.post_data else None)
    page.goto(served.page)
    page.route("**/v1/reports/*", lambda route: route.abort())
    page.get_by_label(CHOICES[0]).first.check()
    page.get_by_role("button", name="Randomize").click()
    page.get_by_text("The network failed.").wait_for()
    page.reload()
    page.get_by_text("An answer waits to be sent").wait_for()
    assert page.locator("#ask input:checked").count() == 0
    page.unroute("**/v1/reports/*")
    # This time it arrives, but nobody hears of it.
    page.route("**/v1/reports/*", lambda route: (route.fetch(), route.abort()))
    page.get_by_role("button", name="Randomize").click()
    page.get_by_text("The network failed.").wait_for()
    page.unroute("**/v1/reports/*")
    page.get_by_role("button", name="Randomize").click()
    page.get_by_text("Thank you.").wait_for()
    assert len(bodies) == 3
    assert len(set(bodies)) == 1
    assert served.held() == before + 1
    page.reload()
    page.get_by_text("Thank you.").wait_for()
    assert not page.locator("#ask").is_visible()
    page.context.close()


def test_a_report_that_is_rejected_is_sent_again_as_it_was(
    browser: Browser, served: Served
) -> None:
    """One round is one report on a device, for ever: a new ticket is no new draw."""
    before = served.held()
    page = open_page(browser, "light 390")
    sent: list[dict[str, object]] = []
    page.on(
        "request",
        lambda one: sent.extend(json.loads(one.post_data)["reports"]) if one.post_data else None,
    )
    # Each draw tells by its value which it is: a second one would be another choice.
    page.add_init_script(
        "let draws = 0; Crypto.prototype.getRandomValues = one => one.fill(draws++ ? 0xEC : 0x17)"
    )
    page.goto(served.page)
    rejection = {"accepted": 0, "rejected": [{"index": 0, "code": "ticket_unknown"}]}
    page.route("**/v1/reports/*", lambda route: route.fulfill(status=422, json=rejection))
    page.locator("#ask input").nth(0).check()
    page.get_by_role("button", name="Randomize").click()
    page.get_by_text("This could not be counted.").wait_for()
    page.unroute("**/v1/reports/*")
    page.add_init_script("Crypto.prototype.getRandomValues = one => one.fill(0xEC)")
    page.reload()
    page.get_by_text("An answer waits to be sent").wait_for()
    page.locator("#ask input").nth(1).check()
    page.get_by_role("button", name="Randomize").click()
    page.get_by_text("Thank you.").wait_for()
    assert page.locator("#by-hand").count() == 0
    page.context.close()
    assert len(sent) == 2
    assert sent[0]["report"] == sent[1]["report"]
    assert sent[0]["ticket"] != sent[1]["ticket"]
    assert served.held() == before + 1


def test_the_page_sends_what_python_draws_from_the_same_bytes(
    browser: Browser, served: Served
) -> None:
    """Whole visits with known bytes: the report is often another choice than the answer."""
    mechanism = oracle("k-ary", domain=list(CHOICES), epsilon=served.round.epsilon)
    sent, drawn = [], []
    for answer, byte in ((0, 0x17), (2, 0x01), (0, 0xEC), (1, 0x20)):
        page = open_page(browser, "light 390")
        page.add_init_script(f"Crypto.prototype.getRandomValues = one => one.fill({byte})")
        page.goto(served.page)
        page.locator("#ask input").nth(answer).check()
        with page.expect_request("**/v1/reports/*") as asked:
            page.get_by_role("button", name="Randomize").click()
        sent.append(json.loads(asked.value.post_data or "")["reports"][0]["report"])
        page.context.close()
        words = PreparedWords([int.from_bytes(bytes([byte]) * 8, "little")] * 8)
        row = mechanism.randomize([CHOICES[answer]], words).rows[0]
        drawn.append(to_wire(mechanism.layout, row))
    assert sent == drawn
    assert sent == [0, 1, 1, 0]


def test_headers_let_nothing_else_run_and_nothing_be_kept(served: Served) -> None:
    for path in ("", "/results", "/survey.mjs", "/round.toml"):
        with urlopen(served.page + path, timeout=30) as answer:
            policy = answer.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert answer.headers["Cache-Control"] == "no-store"
            assert answer.headers["Referrer-Policy"] == "no-referrer"
            assert "set-cookie" not in answer.headers
    for method in ("PUT", "TRACE"):
        with pytest.raises(HTTPError) as refused:
            urlopen(Request(served.page, method=method), timeout=30)
        with refused.value as answer:
            assert (answer.code, json.load(answer)["code"]) == (405, "choice_unknown")


def test_when_it_is_closed_nobody_is_asked(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "smoking.toml"
    made = new_round(file, "Do you smoke?", ("yes", "no"), epsilon=1)
    with served_here(file, made) as served:
        with closing(Collection(file)) as collection:
            collection.close_round()
        page = open_page(browser, "light 1280")
        page.goto(served.page)
        assert "This round is closed." in page.inner_text("header")
        assert page.locator("input").count() == 0
        page.goto(f"{served.page}/results")
        assert "The final result" in page.inner_text("header")
        assert page.locator("meta[http-equiv=refresh]").count() == 0
        page.context.close()
