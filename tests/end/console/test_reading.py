"""The public side: what is open is there for everybody, and nothing else is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from tests.end.browsing import needs_chromium
from tests.end.console.visitors import Console

from sfumato.console.app import PAGES
from sfumato.console.home import STEPS
from sfumato.testing.servers import served
from sfumato.vault.vault import create_vault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Page

SCHEMA = """\
table = "visits"
[columns.day]
kind = "date"
bounds = [2024-01-01, 2024-06-30]
nullable = false
[columns.sex]
kind = "text"
values = ["f", "m"]
nullable = false
"""
SHELF = "/console/open"


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """A vault with a feed and a release that are open, and one of each that are not."""
    home = tmp_path_factory.mktemp("reading")
    rows = [f"2024-0{1 + at % 6}-{1 + at % 28:02},{'fm'[at % 2]}" for at in range(3000)]
    (home / "visits.csv").write_text("\n".join(["day,sex", *rows]) + "\n")
    (home / "visits.toml").write_text(SCHEMA)
    with create_vault(home / "clinic") as vault:
        vault.add("visits", home / "visits.csv", home / "visits.toml", epsilon=8)
        told = {"column": "day", "every": "month", "epsilon": "0.1", "operator": "Ann"}
        vault.feed_registry.add("open", "SELECT COUNT(*) AS n FROM visits", to="public", **told)
        vault.feed_registry.add("shut", "SELECT COUNT(*) AS n FROM visits", **told)
        asked: dict[str, Any] = {"kind": "histogram", "columns": ["sex"]}
        for price in (1, 2):
            vault.jobs.submit("publish", "visits", request_id=str(price), epsilon=price, **asked)
        vault.jobs.work()
        vault.feed_registry.work()
        with served(vault) as server:
            assert server.owner_link is not None
            yield Console(vault, server.url, server.owner_link)


def test_where_the_owner_let_nobody_in_nothing_is_open(console: Console) -> None:
    visitor = console.visitor()
    shelf = visitor.get(SHELF)
    assert shelf.status == 200
    assert b"Nothing is open yet" in shelf.body
    assert visitor.get(f"{SHELF}/feeds/open").status == 404


def test_what_is_open_is_shown_and_saved_and_nothing_else_is_there(
    console: Console,
) -> None:
    console.vault.people.add("everybody", "public", operator="Ann")
    shown, hidden = (one.id for one in console.vault.releases.list())
    console.vault.releases.open_to(shown, "public", operator="Ann")
    visitor = console.visitor()
    shelf = visitor.get(SHELF).body.decode()
    assert f"/releases/{shown}" in shelf
    assert "/feeds/open" in shelf
    assert "times as likely or unlikely" in shelf
    assert not any(one in shelf for one in (hidden, "/feeds/shut", "feed/open"))
    for path in (
        *(f"feeds/{name}" for name in ("shut", "none", "shut/shut.csv", "open/shut.csv")),
        *(f"feeds/open/{name}" for name in ("open.xml", "..%2Fledger.sqlite")),
        *(f"releases/{name}" for name in (hidden, f"{hidden}/release.csv", f"{shown}/vault.toml")),
    ):
        assert visitor.get(f"{SHELF}/{path}").status == 404, path
    for path, begins in (
        ("feeds/open/open.csv", b"period,"),
        ("feeds/open/open.atom", b"<?xml"),
        ("feeds/open/open.json", b"{"),
        (f"releases/{shown}/release.csv", b"sex"),
        (f"releases/{shown}/report.html", b"<!doctype html>"),
    ):
        saved = visitor.get(f"{SHELF}/{path}")
        assert saved.status == 200
        assert saved.headers["content-disposition"].startswith("attachment")
        assert saved.headers["content-security-policy"].startswith("sandbox")
        assert saved.body.lower().replace(b'"sex"', b"sex").startswith(begins), path


def test_every_step_of_the_tour_leads_to_a_page(console: Console) -> None:
    assert len(STEPS) == 10
    paths = {one.path for one in PAGES if one.method == "GET"}
    assert {one.path for one in STEPS} <= paths
    tour = console.visitor().get("/console/tour").body.decode()
    assert tour.count("<li><a href=") >= 10


@needs_chromium
def test_it_is_read_on_a_phone_and_a_desk(console: Console, visit: Callable[..., Page]) -> None:
    for screen in ("light 390", "dark 1280"):
        page = visit(screen=screen)
        page.goto(f"{console.url}{SHELF}")
        assert page.locator("main li").count() == 2
        page.get_by_role("link", name="open", exact=True).click()
        page.wait_for_url("**/feeds/open")
        assert page.locator("main figure").count() == 1
        assert page.locator("main tbody tr").count() >= 6
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= int(screen.split()[1])
        for path in ("/console/tour", SHELF, f"{SHELF}/feeds/open"):
            page.goto(f"{console.url}{path}")
            found = Axe().run(page).response["violations"]
            assert [one["id"] for one in found if one["impact"] in {"serious", "critical"}] == []
