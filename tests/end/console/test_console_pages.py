"""Every page of the table: for whom it is there, on screens, without script and by keyboard."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from tests.end.browsing import SCREENS, needs_chromium, open_page, words_at_fault
from tests.end.console.conftest import consoled
from tests.end.console.visitors import PASSWORD, Console, Visitor
from tests.end.gate.people_served import HEAD, ROWS

from sfumato.console.app import PAGES
from sfumato.console.page_request import Audience

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from sfumato.console.page_request import PageRoute

READ = [one for one in PAGES if one.method == "GET"]
PEOPLE = ("owner", "alice", "bob", "buyer", "reader")
_DRAWN = re.compile(
    rb'(name="(?:form|request)" value="|/console/answers/|invitation/)[\w-]+|'
    rb"127\.0\.0\.1:\d+|\d{4}-\d\d-\d\d \d\d:\d\d",
)
ASKED = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"


def filled(route: PageRoute, name: str) -> str:
    return re.sub(r"\{[^}]*\}", name, route.path)


def test_every_page_is_there_for_whom_the_table_says(console: Console) -> None:
    for who in (None, *PEOPLE):
        visitor = console.visitor(who)
        person = None if who is None else console.vault.people.get(who)
        for route in PAGES:
            path = filled(route, "nothing")
            reply = (
                visitor.get(path)
                if route.method == "GET"
                else visitor.post(path, {"form": "0" * 64})
            )
            if person is None and route.audience is not Audience.PUBLIC:
                assert (reply.status, reply.headers["location"][:16]) == (303, "/console/sign-in")
            elif route.method == "POST":
                assert reply.status in {403, 404, 415}, path
            elif not route.is_for(person):
                assert reply.status == 404, path
            else:
                assert reply.status in {200, 303, 404}, path


def test_what_is_not_theirs_is_not_there_in_the_same_bytes(console: Console) -> None:
    alice = console.visitor("alice")
    replies = {
        alice.get(f"/console/{path}").body
        for path in ("datasets/others", "datasets/nothing", "answers/x", "nothing/at/all")
    }
    assert len(replies) == 1
    for who, path in (("reader", "ask"), ("reader", "history"), ("alice", "owner/people")):
        visitor = console.visitor(who)
        for method in ("GET", "DELETE", "TRACE"):
            found, nothing = (
                visitor.told(method, f"/console/{one}") for one in (path, "nothing/at/all")
            )
            assert (found.status, found.body) == (nothing.status, nothing.body), (method, path)
            assert found.status == 404


def test_every_way_to_ask_for_a_page(console: Console) -> None:
    alice = console.visitor("alice")
    for path in ("/console", "/console/ask", "/console/nothing", "/"):
        page, head = alice.get(path), alice.told("HEAD", path)
        assert (head.status, head.body) == (page.status, b""), path
        assert head.headers.get("content-length") == page.headers.get("content-length")
    assert alice.get("/console/").headers["location"] == "/console"
    for method in ("TRACE", "PUT", "PROPFIND"):
        reply = alice.told(method, "/console/ask")
        assert (reply.status, reply.headers["allow"]) == (405, "GET, HEAD, POST")
        assert "content-security-policy" in reply.headers
    assert console.visitor().told("DELETE", "/console/owner/people").status == 404


def crawl(console: Console) -> Iterator[tuple[str, object]]:
    """Every page and every form of questions, for everybody."""
    for who in (None, *PEOPLE):
        visitor = console.visitor(who)
        for route in READ:
            if who == "owner" and route.audience is Audience.OWNER:
                continue  # what an owner looks at there is rows of theirs
            for name in ("people", "nothing"):
                path = filled(route, name)
                reply = visitor.get(path)
                yield f"{who} {path}", (reply.status, _DRAWN.sub(b"*", reply.body))
        if who is not None:
            yield from ((f"{who} {asked}", one) for asked, one in asking(visitor))


def asking(visitor: Visitor) -> Iterator[tuple[str, object]]:
    if visitor.get("/console/ask").status != 200:
        return
    for number, sql in enumerate(
        (ASKED, "SELECT SUM(LN(age - 7)) FROM people", "SELECT MAX(age) FROM people", "nonsense")
    ):
        said = {"page": "/console/ask", "sql": sql, "epsilon": "0.1", "request": f"n{number}"}
        for do in ("explain", "ask"):
            reply = visitor.send("/console/ask", do=do, **said)
            yield f"{do} {sql}", (reply.status, _DRAWN.sub(b"*", reply.body))
        reply = visitor.get(f"/console/answers/n{number}")
        # The figures of an answer are noise; what stands around them is not.
        body = re.sub(rb"(?s)<(figure|table|svg).*?</\1>", b"*", reply.body)
        body = re.sub(rb"(?s)<li>&#39;\w+&#39; is too noisy.*?</li>", b"", body)
        yield f"answer {sql}", (reply.status, _DRAWN.sub(b"*", body))


def test_neighbours_look_alike_on_every_page(tmp_path: Path) -> None:
    found = []
    for place, rows in enumerate((ROWS, (*ROWS, "neither,abc,'; DROP"))):
        with consoled(tmp_path / str(place)) as console:
            file = tmp_path / str(place) / "people.csv"
            file.write_text("\n".join([HEAD, *rows]) + "\n")
            found.append(list(crawl(console)))
    for (asked, one), (also, other) in zip(*found, strict=True):
        assert asked == also
        assert one == other, asked


@needs_chromium
def test_axe_finds_nothing_and_words_stay_in_their_place(
    console: Console, visit: Callable[..., Page]
) -> None:
    alice = console.visitor("alice")
    alice.send("/console/ask", page="/console/ask", sql=ASKED, request="axe", do="ask")
    few = ["", "/ask", "/answers/axe", "/history"]
    more = ["/datasets", "/datasets/people", "/jobs", "/releases", "/password"]
    for screen, paths in (("light 1280", [*few, *more]), ("dark 390", few)):
        page = visit("alice", screen=screen)
        for path in paths:
            page.goto(f"{console.url}/console{path}")
            bad = [
                (one["id"], [node["html"] for node in one["nodes"]])
                for one in Axe().run(page).response["violations"]
            ]
            assert bad == [], (path, screen)
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= int(screen.split()[1]), (path, screen)
            assert words_at_fault(page) == [], (path, screen)


@needs_chromium
def test_the_owners_tables_are_no_wider_than_a_phone(
    console: Console, visit: Callable[..., Page]
) -> None:
    asked: dict[str, Any] = {"kind": "histogram", "columns": ["sex"], "epsilon": "0.01"}
    console.vault.jobs.wait(console.vault.jobs.submit("publish", "people", **asked), seconds=30)
    page = visit("owner", screen="light 390")
    for path in ("jobs", "releases", "owner/releases", "owner/people"):
        page.goto(f"{console.url}/console/{path}")
        assert page.locator("td").count() > 0, path
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path


@needs_chromium
def test_without_a_script_one_reads_and_asks(console: Console, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{console.url}/console/ask")
    page.fill("#name", "bob")
    page.fill("#password", PASSWORD)
    page.click("main button")
    assert page.url == f"{console.url}/console/ask"
    page.fill("#sql", "SELECT COUNT(*) AS n FROM others")
    page.fill("#epsilon", "0.5")
    page.click("text=Show the cost")
    assert "Cost: epsilon 0.5" in page.inner_text("#explained")
    page.click("text=Ask and pay")
    assert "/console/answers/" in page.url
    assert "±" in page.inner_text("main")
    page.click("nav >> text=Data sets")
    page.click("main >> text=others")
    assert "Columns of others" in page.inner_text("table")
    context.close()


@needs_chromium
def test_everything_can_be_reached_by_keys(console: Console, visit: Callable[..., Page]) -> None:
    page = visit()
    page.goto(f"{console.url}/console/sign-in")
    for text in ("bob", PASSWORD):
        while page.evaluate("document.activeElement.tagName") != "INPUT" or page.evaluate(
            "document.activeElement.value"
        ):
            page.keyboard.press("Tab")
        page.keyboard.type(text)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{console.url}/console")
    page.goto(f"{console.url}/console/ask")
    reached = set()
    for _ in range(30):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.value"))
        tag, outlined = page.evaluate(
            "(one => [one.tagName, getComputedStyle(one).outlineStyle])(document.activeElement)"
        )
        assert tag == "BODY" or outlined != "none", tag
    assert {"sql", "epsilon", "delta", "explain", "ask"} <= reached


@needs_chromium
@pytest.mark.slow
@pytest.mark.parametrize("screen", SCREENS)
def test_pictures_of_every_page(
    console: Console, browser: Browser, screen: str, tmp_path: Path
) -> None:
    console.visitor("alice").send(
        "/console/ask", page="/console/ask", sql=ASKED, request="shot", do="ask"
    )
    page = open_page(browser, screen)
    page.goto(f"{console.url}/console/sign-in")
    page.screenshot(path=tmp_path / "sign-in.png", full_page=True)
    page.fill("#name", "alice")
    page.fill("#password", PASSWORD)
    page.click("main button")
    for path in ("", "/ask", "/datasets/people", "/answers/shot", "/history"):
        page.goto(f"{console.url}/console{path}")
        name = path.strip("/").replace("/", "-") or "home"
        page.screenshot(path=tmp_path / f"{name}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= int(screen.split()[1])
    page.context.close()
