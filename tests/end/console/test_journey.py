"""A vault's first day in a real browser, across everybody: owner, analyst and the public."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.end.browsing import needs_chromium

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Page
    from tests.end.console.visitors import Console

pytestmark = [needs_chromium, pytest.mark.slow]

PEOPLE = "\n".join(["who,age", *(f"p{n},{n % 90}" for n in range(400))]) + "\n"
COUNT = "SELECT COUNT(*) AS n FROM town"
CHOSEN = "words that dina chose"


def test_owner_analyst_and_public_from_the_first_table_to_the_last_page(
    console: Console, visit: Callable[..., Page], tmp_path: Path
) -> None:
    (tmp_path / "town.csv").write_text(PEOPLE)
    office = f"{console.url}/console/owner"
    owner = visit("owner")
    add_table(owner, office, tmp_path / "town.csv")
    consent(owner, office, [f"p{n}" for n in range(300)], "yes", tmp_path)
    dina = visit()
    dina.goto(invite(owner, office))
    dina.fill("#password", CHOSEN)
    dina.fill("#again", CHOSEN)
    dina.keyboard.press("Enter")
    dina.get_by_text("Your password is set").wait_for()
    first = ask(dina, console.url, COUNT)
    assert "±" in first
    refused = ask(dina, console.url, f"{COUNT} WHERE age < 50")
    assert "Nothing was charged" in refused or "left" in refused
    release(owner, office, console)
    console.vault.people.add("everybody", "public", operator="Ann")
    public = visit()
    public.goto(f"{console.url}/console")
    public.get_by_role("link", name=re.compile("open", re.IGNORECASE)).first.click()
    public.locator("main a[href*='/releases/']").first.click()
    with public.expect_download() as saved:
        public.get_by_role("link", name=re.compile(r"release\.csv")).click()
    assert "age" in saved.value.path().read_text().splitlines()[0]
    consent(owner, office, ["p0"], "no", tmp_path)
    assert console.vault.consent("town").show("p0")["purposes"] == {"care": "no"}
    for page in (owner, dina):
        page.get_by_role("button", name="Sign out").click()
        page.get_by_role("link", name="Sign in").first.wait_for()
    dina.goto(f"{console.url}/console/history")
    assert "/sign-in" in dina.url


def add_table(page: Page, office: str, file: Path) -> None:
    page.goto(f"{office}/tables")
    page.set_input_files("#file", file)
    page.get_by_role("button", name="Send the file").click()
    page.wait_for_url("**/drafts/*")
    draft = page.url
    page.select_option("[id='unit']", "who")
    page.fill("[id='max_rows']", "1")
    page.fill("[id='max_groups']", "1")
    page.get_by_label("Minimum", exact=True).nth(1).fill("0")
    page.get_by_label("Maximum", exact=True).nth(1).fill("99")
    page.get_by_role("button", name="Save the schema").click()
    page.get_by_text("The schema is saved.").wait_for()
    page.goto(f"{draft}/risk")
    assert page.locator("svg.picture:visible").count() > 0
    page.goto(f"{draft}/add")
    page.fill("#name", "town")
    page.fill("#epsilon", "4")
    page.fill("#purposes", "care")
    page.get_by_role("button", name="Add it").click()
    page.wait_for_url(f"{office}/tables/town")


def consent(page: Page, office: str, people: list[str], answer: str, folder: Path) -> None:
    page.goto(f"{office}/consent/town")
    if len(people) == 1:
        page.fill("[id='say.person']", people[0])
        page.select_option("[id='say.purpose']", "care")
        page.select_option("[id='say.answer']", answer)
        page.get_by_role("button", name="Record it").click()
        page.wait_for_load_state()
        return
    file = folder / "consent.csv"
    file.write_text("\n".join(["person,purpose,agreed", *(f"{one},care,yes" for one in people)]))
    page.set_input_files("[id='file.']", file)
    page.get_by_role("button", name="Import the file").click()
    page.locator(".notice").wait_for()


def invite(page: Page, office: str) -> str:
    page.goto(f"{office}/people")
    page.fill("#name", "dina")
    page.select_option("#population", "town")
    page.fill("#epsilon", "1")
    page.get_by_role("button", name="Add the principal").click()
    page.goto(f"{office}/people/dina")
    page.get_by_role("button", name="Make a link").click()
    return page.inner_text("#link").strip()


def ask(page: Page, url: str, sql: str) -> str:
    page.goto(f"{url}/console/ask")
    page.fill("#sql", sql)
    page.fill("#epsilon", "1")
    page.select_option("#purpose", "care")
    page.get_by_role("button", name="Ask and pay").click()
    page.locator("[role=alert], #main figure, #main table").first.wait_for()
    return page.inner_text("main")


def release(page: Page, office: str, console: Console) -> None:
    page.goto(f"{office}/releases/new/town")
    page.fill("[id='publish.epsilon']", "0.5")
    form = page.locator("form", has_text="Publish statistics")
    form.get_by_label("age").check()
    if form.get_by_label("Purpose").count():
        form.get_by_label("Purpose").select_option("care")
    form.get_by_role("button", name="Publish").click()
    page.wait_for_url(f"{office}/releases")
    [job] = [one for one in console.vault.jobs.list() if one.dataset == "town"]
    assert console.vault.jobs.wait(job, seconds=60).error is None
    page.goto(f"{office}/releases/{job.id}")
    page.get_by_label("public", exact=True).check()
    page.get_by_label("I looked at this release").check()
    page.get_by_role("button", name="Open it to these").click()
    page.get_by_text("It is open to public.").wait_for()
