"""What strangers, other sites and other people try on the console, and do not get."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from tests.end.console.visitors import PASSWORD, SAME, Console, Visitor

from sfumato.console.sessions import ABSOLUTE_SECONDS, IDLE_SECONDS
from sfumato.console.sign_in import SHORTEST
from sfumato.testing.servers import Client

if TYPE_CHECKING:
    from collections.abc import Mapping

ASK = {"sql": "SELECT COUNT(*) AS n FROM people", "request": "x", "do": "ask", "epsilon": "0.1"}


def test_a_cookie_cannot_be_read_sent_across_sites_or_outlive_the_browser(
    console: Console,
) -> None:
    visitor = Visitor(Client(console.url))
    given = visitor.get("/console/sign-in").headers["set-cookie"].lower()
    parts = {one.strip() for one in given.split(";")[1:]}
    assert parts == {"httponly", "samesite=strict", "path=/"}
    assert len(visitor.cookie) == 43


def test_who_only_reads_gets_no_cookie(console: Console) -> None:
    assert "set-cookie" not in console.visitor().get("/console").headers


def test_a_session_has_a_new_id_whoever_planted_the_one_before(console: Console) -> None:
    planted = "A" * 43
    victim = Visitor(Client(console.url), planted)
    victim.send("/console/sign-in", name="alice", password=PASSWORD)
    assert victim.cookie != planted
    assert b"Welcome, alice" in victim.get("/console").body
    assert b"Welcome" not in Visitor(Client(console.url), planted).get("/console").body


def test_two_cookies_of_one_name_are_none(console: Console) -> None:
    alice = console.visitor("alice")
    for both in (("A" * 43, alice.cookie), (alice.cookie, "A" * 43)):
        cookies = "; ".join(f"sfumato={one}" for one in both)
        assert b"Welcome" not in alice.get("/console", {"Cookie": cookies}).body


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"},
        {"Origin": "null"},
        {},
    ],
    ids=str,
)
def test_a_form_of_another_site_does_nothing(console: Console, headers: Mapping[str, str]) -> None:
    alice = console.visitor("alice")
    form = {"form": alice.word("/console/ask"), **ASK}
    before = console.vault.accounts(principal="alice")
    alice.headers = headers
    reply = alice.post("/console/ask", form)
    assert reply.status == 403
    assert b"form_foreign" in reply.body
    assert console.vault.accounts(principal="alice") == before


def test_a_form_without_the_word_of_its_session_does_nothing(console: Console) -> None:
    alice, bob = console.visitor("alice"), console.visitor("bob")
    for word in ("", "0" * 64, bob.word("/console/ask")):
        reply = alice.post("/console/ask", {"form": word, **ASK})
        assert reply.status == 403
        assert b"form_foreign" in reply.body


def test_no_page_can_be_framed_or_run_code_or_be_read_by_others(console: Console) -> None:
    alice = console.visitor("alice")
    for path in ("/console", "/console/ask", "/console/nothing", "/console/static/none.css"):
        headers = alice.get(path, {"Origin": "https://evil.example"}).headers
        policy = headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert not [one for one in headers if one.startswith("access-control")]


@pytest.mark.parametrize(
    "path",
    [
        "/console/static/../app.py",
        "/console/static/%2e%2e/console.css",
        "/console/static/console.css",
        "/console/releases/..%2f..%2fvault.toml/x",
        "/console/releases/people/..%2fvault.toml",
        "/console/answers/..",
        "/console/datasets/..%2fothers",
        "/console//ask",
    ],
)
def test_path_tricks_find_nothing(console: Console, path: str) -> None:
    assert console.visitor("alice").get(path).status == 404


@pytest.mark.parametrize(
    "to", ["https://evil.example", "//evil.example", "/\\evil.example", "/console/../x", "/v1/a"]
)
def test_who_signs_in_is_led_nowhere_else(console: Console, to: str) -> None:
    visitor = console.visitor()
    reply = visitor.send("/console/sign-in", name="bob", password=PASSWORD, to=to)
    assert reply.status == 303
    assert reply.headers["location"] == "/console"


def test_five_tries_a_minute_whether_or_not_somebody_has_the_name(console: Console) -> None:
    for name in ("reader", "nobody at all"):
        replies = []
        for _ in range(7):
            visitor = console.visitor()
            replies.append(visitor.send("/console/sign-in", name=name, password="wrong" * 4))
        assert {one.status for one in replies[:4]} == {403}
        assert replies[-1].status == 429
        assert replies[-1].headers["retry-after"] == "60"
    # Who is in stays in, and others are not kept out.
    assert console.visitor("buyer").get("/console").status == 200


def test_a_session_ends_by_age_by_idleness_by_password_and_with_its_person(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    logins, vault = console.vault.logins, console.vault
    vault.people.add("temp", "purchaser", epsilon=1, population="people", operator="Ann")
    clock = time.time()
    monkeypatch.setattr(logins, "_clock", lambda: clock)

    def signed_in() -> Visitor:
        return Visitor(Client(console.url), logins.begin("temp"))

    idle = signed_in()
    assert idle.get("/console/ask").status == 200
    clock += IDLE_SECONDS
    assert idle.get("/console/ask").headers["location"].startswith("/console/sign-in")
    old, began = signed_in(), clock
    while clock < began + ABSOLUTE_SECONDS - 1700:
        clock += 1700
        assert old.get("/console/ask").status == 200
    clock += 1700
    assert old.get("/console/ask").status == 303
    changed = signed_in()
    logins.change("temp", "another hash")
    assert changed.get("/console/ask").status == 303
    ended = signed_in()
    vault.people.expire("temp", operator="Ann")
    assert ended.get("/console/ask").status == 303


def test_signing_out_ends_the_session_itself(console: Console) -> None:
    buyer = console.visitor("buyer")
    kept = buyer.cookie
    assert buyer.send("/console/sign-out", page="/console").status == 303
    assert b"Welcome" not in Visitor(Client(console.url), kept).get("/console").body


def test_an_invitation_is_good_once_and_short_passwords_are_refused(console: Console) -> None:
    console.vault.people.add("new", "purchaser", operator="Ann")
    path = f"/console/invitation/{console.vault.logins.invite('new')}"
    visitor = console.visitor()
    short, good = "x" * (SHORTEST - 1), "y" * SHORTEST
    assert visitor.send(path, password=short, again=short).status == 422
    assert visitor.send(path, password=good, again=short).status == 422
    reply = visitor.send(path, password=good, again=good)
    assert reply.status == 303
    assert b"Welcome, new" in visitor.get("/console").body
    assert visitor.get(path).status == 404
    assert visitor.post(path, {"form": "x"}).status in {403, 404}


def test_the_first_owner_sets_a_password_by_the_link(console: Console) -> None:
    link = console.owner_link.removeprefix(console.url)
    client = Client(console.url)
    assert b"Set my password" in client.ask("GET", link).body
    reply = client.ask("POST", f"{link}/password", b"", SAME)
    assert reply.status == 303
    assert reply.headers["location"].startswith("/console/invitation/")
    assert client.ask("GET", link).status == 404
    page = client.ask("GET", reply.headers["location"])
    assert b"Your name here is <strong>owner</strong>" in page.body
