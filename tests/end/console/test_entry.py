"""Coming into the console and going out of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.end.browsing import needs_chromium

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page
    from tests.end.console.visitors import Console


@needs_chromium
def test_each_kind_of_principal_has_a_first_page(
    console: Console, visit: Callable[..., Page]
) -> None:
    for name in ("owner", "alice", "reader"):
        page = visit(name)
        assert page.inner_text("h1") == f"Welcome, {name}"
        page.click("text=Sign out")
        assert page.inner_text("h1") == "Sfumato"
        page.goto(f"{console.url}/console/password")
        assert page.url == f"{console.url}/console/sign-in?to=/console/password"
