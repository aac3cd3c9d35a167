"""An analyst in the console: what may be asked, what it costs, answers, and those before."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from tests.end.browsing import needs_chromium
from tests.end.console.visitors import Visitor

from sfumato.testing.servers import Client

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest
    from playwright.sync_api import Page
    from tests.end.console.visitors import Console

BY_SEX = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"


@needs_chromium
def test_a_question_is_explained_while_typed_then_paid_for_once(
    console: Console, visit: Callable[..., Page]
) -> None:
    page = visit("alice")
    page.click("nav >> text=Ask")
    page.fill("#sql", BY_SEX)
    page.fill("#epsilon", "0.5")
    page.wait_for_selector("#explained strong")
    assert "Cost: epsilon 0.5" in page.inner_text("#explained")
    page.fill("#sql", "SELECT age FROM people")
    page.wait_for_selector("#explained .warning")
    before = console.vault.accounts(principal="alice")
    page.fill("#sql", BY_SEX)
    page.click("text=Ask and pay")
    page.wait_for_url(re.compile(r".*/console/answers/.*"))
    assert before != (after := console.vault.accounts(principal="alice"))
    assert page.locator("svg.picture:visible").count() == 1
    assert page.locator("tbody >> text=± ").count() >= 2
    answer = page.inner_text("main")
    page.reload()
    assert page.inner_text("main") == answer
    page.click("nav >> text=History")
    page.click("td a")
    assert page.inner_text("main") == answer
    assert "OPTIONS (epsilon = 0.5)" in answer
    assert console.vault.accounts(principal="alice") == after


def test_a_form_that_is_sent_twice_is_paid_for_once(console: Console) -> None:
    bob = console.visitor("bob")
    word = bob.word("/console/ask")
    sql = "SELECT COUNT(*) AS n FROM others"
    said = {"form": word, "request": "r1", "sql": sql, "epsilon": "0.25", "do": "ask"}
    first, second = (bob.post("/console/ask", said) for _ in range(2))
    assert first.status == second.status == 303
    assert first.headers["location"] == second.headers["location"] == "/console/answers/r1"
    other = bob.post("/console/ask", said | {"sql": f"{sql} WHERE age < 9"})
    assert other.status == 409  # a request is one question for good
    [account] = console.vault.accounts(principal="bob")
    assert account["spent"] == "epsilon 0.25"
    assert bob.get("/console/answers/r1").status == 200
    assert console.visitor("alice").get("/console/answers/r1").status == 404


def test_a_form_whose_request_stands_for_another_question_is_refused_before_it_is_paid(
    console: Console,
) -> None:
    console.vault.people.add(
        "twice", "permanent-staff", epsilon=1, population="people", operator="Ann"
    )
    visitor = Visitor(Client(console.url), console.vault.logins.begin("twice"))
    word, sql = visitor.word("/console/ask"), "SELECT COUNT(*) AS n FROM people"
    console.vault.query(sql, epsilon="0.25", principal="twice")
    said = {"form": word, "request": "free", "sql": sql, "epsilon": "0.25", "do": "ask"}
    assert visitor.post("/console/ask", said).status == 303  # nothing is charged under it
    other = visitor.post("/console/ask", said | {"sql": f"{sql} WHERE age < 9"})
    assert other.status == 409
    assert b'value="free"' not in other.body  # the next try is another request
    [account] = console.vault.accounts(principal="twice")
    assert account["spent"] == "epsilon 0.25"


def test_two_forms_of_one_request_at_once_are_both_shown(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, history = console.visitor("alice"), console.vault.history
    monkeypatch.setattr(history, "get", lambda *_: None)  # neither is kept yet
    said = {"form": alice.word("/console/ask"), "request": "race", "epsilon": "0.01", "do": "ask"}
    where = []
    console.vault.query(BY_SEX, epsilon="0.01", principal="alice")
    for sql in (BY_SEX, "SELECT COUNT(*) AS n FROM people WHERE age < 30"):
        reply = alice.post("/console/ask", said | {"sql": sql})
        assert reply.status == 303
        where.append((reply.headers["location"], sql))
    monkeypatch.undo()
    for place, sql in where:
        assert escape(sql) in alice.get(place).body.decode()


def test_at_zero_a_question_is_refused_on_its_page(console: Console) -> None:
    buyer = console.visitor("buyer")
    page = {"page": "/console/ask", "sql": BY_SEX, "do": "ask", "epsilon": "1"}
    assert buyer.send("/console/ask", request="z1", **page).status == 303
    more = page | {"sql": "SELECT COUNT(*) AS n FROM people"}
    refused = buyer.send("/console/ask", request="z2", **more)
    assert refused.status == 402
    assert b'role="alert"' in refused.body
    assert b"z2" not in refused.body  # the next try is another request
