"""Programs in a real browser: tried, mended, priced, handed in, and the answer looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.end.browsing import SCREENS, needs_chromium, words_at_fault
from tests.end.console.test_office_journey import serious
from tests.unit.methods.programs.chambers import OpenChamber

from sfumato.methods.programs import request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Page
    from tests.end.console.visitors import Console

pytestmark = needs_chromium
WRONG = "def f(rows):\n    return rows['agee'].to_numpy().mean()\n"
RIGHT = WRONG.replace("agee", "age")


@pytest.fixture(autouse=True)
def room() -> Iterator[OpenChamber]:
    """The programs of this test are ours, and run in this process at once."""
    made = OpenChamber()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(request, "chamber", lambda _choice: made)
        patch.setattr(request, "_wait_until", lambda _moment: None)
        yield made


def look(page: Page, screen: str) -> None:
    """Nobody is kept out, and nothing stands beyond the edge."""
    assert serious(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= int(screen.split()[1])
    assert words_at_fault(page) == []


def test_a_program_from_its_first_mistake_to_its_answer(
    console: Console, visit: Callable[..., Page], tmp_path: Path
) -> None:
    (tmp_path / "wrong.py").write_text(WRONG)
    (tmp_path / "p.py").write_text(RIGHT)
    console.vault.programs.approve(tmp_path / "wrong.py", function="f", operator="Ann")
    page = visit("alice")
    page.get_by_role("link", name="Program").first.click()
    page.fill("#program", WRONG)
    page.fill("#function", "f")
    page.fill("#epsilon", "2")
    page.fill("#blocks", "10")
    page.get_by_role("button", name="Try it on synthetic rows").click()
    refusal = page.locator("#refusal")
    refusal.wait_for()
    assert "KeyError in line 2" in refusal.inner_text()
    assert page.input_value("#program") == WRONG  # nothing is to be typed again
    look(page, "light 1280")
    page.fill("#program", RIGHT)
    page.get_by_role("button", name="Try it on synthetic rows").click()
    page.get_by_text("sfumato program approve").wait_for()
    console.vault.programs.approve(tmp_path / "p.py", function="f", operator="Ann")
    page.get_by_role("button", name="Try it on synthetic rows").click()
    page.get_by_text("Cost: epsilon 2").wait_for()
    assert "Expected error" in page.inner_text("main")
    assert console.vault.jobs.list() == []
    page.fill("#program", "")
    page.set_input_files("#file", tmp_path / "p.py")
    page.get_by_role("button", name="Run it and pay").click()
    page.wait_for_url("**/console/jobs")
    [job] = console.vault.jobs.list()
    assert console.vault.jobs.wait(job, seconds=60).error is None
    page.goto(f"{console.url}/console/jobs")
    page.get_by_role("link", name="View").first.click()
    value = console.vault.releases.get(job.id).answer().table["value"][0].as_py()
    cells = page.locator("main td").all_inner_texts()
    assert float(cells[1]) == pytest.approx(value, abs=1)  # no more digits than noise leaves
    look(page, "light 1280")


def test_a_strict_program_needs_nobody(
    console: Console, visit: Callable[..., Page], tmp_path: Path
) -> None:
    strict = "def f(rows):\n    return sum(rows['age']) / len(rows['age'])\n"
    page = visit("alice")
    page.goto(f"{console.url}/console/code")
    page.select_option("#language", "starlark")
    page.fill("#program", strict)
    page.fill("#function", "f")
    page.fill("#epsilon", "0.5")
    page.fill("#blocks", "10")
    page.get_by_role("button", name="Try it on synthetic rows").click()
    page.get_by_text("Cost: epsilon 0.5").wait_for()
    assert page.input_value("#language") == "starlark"
    look(page, "light 1280")
    (tmp_path / "p.star").write_text(strict)
    page.select_option("#language", "python")  # the file's ending goes first
    page.set_input_files("#file", tmp_path / "p.star")
    page.get_by_role("button", name="Run it and pay").click()
    page.wait_for_url("**/console/jobs")
    assert console.vault.jobs.wait(console.vault.jobs.list()[0], seconds=60).error is None


@pytest.mark.slow
@pytest.mark.parametrize("screen", SCREENS)
def test_the_page_on_every_screen(
    visit: Callable[..., Page], console: Console, screen: str
) -> None:
    page = visit("alice", screen=screen)
    page.goto(f"{console.url}/console/code?template=kmeans")
    assert "def kmeans" in page.input_value("#program")
    look(page, screen)
