"""A vault with a console before it, in a real browser, and those who may visit it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from argon2 import PasswordHasher
from tests.end.browsing import open_page
from tests.end.console.visitors import PASSWORD, Console
from tests.end.gate.people_served import ROWS, people_vault

from sfumato.console import sign_in as passwords
from sfumato.testing.servers import served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from playwright.sync_api import Browser, ConsoleMessage, Page


@contextmanager
def consoled(home: Path, rows: Sequence[str] = ROWS) -> Iterator[Console]:
    """A server before a vault in which everybody has a password."""
    with people_vault(home, rows) as vault, served(vault) as server:
        vault.people.add("buyer", "purchaser", epsilon=1, population="people", operator="Ann")
        vault.people.add("reader", "public", operator="Ann")
        for name in ("owner", "alice", "bob", "buyer", "reader"):
            hashed = passwords.hasher().hash(PASSWORD)
            assert vault.logins.accept(vault.logins.invite(name), hashed) == name
        assert server.owner_link is not None
        yield Console(vault, server.url, server.owner_link)


@pytest.fixture(scope="module", autouse=True)
def _quick_hashes() -> Iterator[None]:
    """Hashes that take a millisecond: what they cost is tried once, elsewhere."""
    quick = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "hasher", lambda: quick)
        yield


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    with consoled(tmp_path_factory.mktemp("console")) as found:
        yield found


def _is_error(told: ConsoleMessage) -> bool:
    """Whether a browser complains; a form that we refuse, and say why, is no complaint."""
    # A program without approval is refused with 403, on its own page alone.
    codes = (402, 403, 422) if told.location["url"].endswith("/console/code") else (402, 422)
    refused = any(f"status of {one} " in told.text for one in codes)
    return told.type == "error" and not refused


@pytest.fixture
def visit(browser: Browser, console: Console) -> Iterator[Callable[..., Page]]:
    """A browser's page, of somebody who has signed in or of nobody; it may say no word of error."""
    opened, said = [], []

    def visit(name: str | None = None, *, screen: str = "light 1280") -> Page:
        page = open_page(browser, screen)
        page.on("console", lambda one: said.append(one.text) if _is_error(one) else None)
        page.on("pageerror", lambda one: said.append(str(one)))
        opened.append(page)
        if name is not None:
            page.goto(f"{console.url}/console/sign-in")
            page.fill("#name", name)
            page.fill("#password", PASSWORD)
            page.click("main button")
            page.wait_for_url(f"{console.url}/console")
        return page

    yield visit
    for page in opened:
        page.context.close()
    assert said == []
