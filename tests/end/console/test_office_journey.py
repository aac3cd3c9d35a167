"""An owner's day in a real browser, without a script: a table, its risk, people, a release."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from tests.end.browsing import SCREENS, needs_chromium
from tests.end.console.test_office_pages import ROWS
from tests.end.console.visitors import PASSWORD

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Browser, Page
    from tests.end.console.visitors import Console

pytestmark = needs_chromium
OFFICE = "/console/owner"
LOOKED_AT = ("tables", "people", "people/alice", "budgets", "consent", "releases",
             "releases/new/people", "feeds", "tables/people")  # fmt: skip


def serious(page: Page) -> list[str]:
    """What axe finds that keeps somebody out."""
    found = Axe().run(page).response["violations"]
    return [one["id"] for one in found if one["impact"] in ("serious", "critical")]


def typed(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def test_an_owner_adds_a_table_and_releases_from_it_without_a_script(
    browser: Browser, console: Console, tmp_path: Path
) -> None:
    (tmp_path / "town.csv").write_text(ROWS)
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{console.url}/console/sign-in")
    page.fill("#name", "owner")
    page.fill("#password", PASSWORD)
    typed(page, "Enter")
    page.wait_for_url(f"{console.url}/console")
    page.goto(f"{console.url}{OFFICE}/tables")
    page.set_input_files("#file", tmp_path / "town.csv")
    page.get_by_role("button", name="Send the file").press("Enter")
    page.wait_for_url("**/drafts/*")
    draft = page.url
    page.get_by_label("Minimum", exact=True).nth(1).fill("old")
    page.get_by_role("button", name="Save the schema").press("Enter")
    page.locator("[id='c1.low-problem']").wait_for(timeout=5000)
    page.get_by_label("Minimum", exact=True).nth(1).fill("0")
    page.get_by_label("Maximum", exact=True).nth(1).fill("99")
    page.get_by_role("button", name="Save the schema").press("Enter")
    page.get_by_text("The schema is saved.").wait_for(timeout=5000)
    page.get_by_role("link", name="Re-identification risk").press("Enter")
    page.locator("figure .wide svg").first.wait_for(timeout=5000)
    page.goto(f"{draft}/add")
    page.fill("#name", "town")
    page.fill("#epsilon", "2")
    typed(page, "Enter")
    page.wait_for_url(f"{console.url}{OFFICE}/tables/town")
    page.get_by_role("link", name="Make a release").press("Enter")
    page.fill("[id='publish.epsilon']", "0.5")
    page.locator("form", has_text="Publish statistics").get_by_label("age").check()
    page.get_by_role("button", name="Publish").press("Enter")
    page.wait_for_url(f"{console.url}{OFFICE}/releases")
    [job] = [one for one in console.vault.jobs.list() if one.dataset == "town"]
    assert console.vault.jobs.wait(job, seconds=60).error is None
    page.goto(f"{console.url}{OFFICE}/releases/{job.id}")
    with page.expect_download() as saved:
        page.get_by_role("link", name="release.csv").click()
    assert saved.value.path().stat().st_size > 0
    page.get_by_label("public", exact=True).check()
    page.get_by_label("I looked at this release").check()
    page.get_by_role("button", name="Open it to these").press("Enter")
    page.get_by_text("It is open to public.").wait_for(timeout=5000)
    assert console.vault.releases.get(job.id).opened_to == ("public",)
    page.get_by_role("button", name="Sign out").press("Enter")
    page.get_by_role("link", name="Sign in").first.wait_for(timeout=5000)
    page.goto(f"{console.url}{OFFICE}/tables")
    assert "/sign-in" in page.url
    context.close()


@pytest.mark.slow
@pytest.mark.parametrize("screen", SCREENS)
def test_every_page_of_the_office_can_be_used_by_everybody(
    visit: Callable[..., Page], console: Console, screen: str
) -> None:
    page = visit("owner", screen=screen)
    for name in LOOKED_AT:
        page.goto(f"{console.url}{OFFICE}/{name}")
        assert serious(page) == [], name
        wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        assert not page.evaluate(wide), name
