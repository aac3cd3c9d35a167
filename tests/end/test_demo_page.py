"""The demo page in a real browser: it reads well on every screen and asks nothing of anyone."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from tests.end.browsing import SCREENS, needs_chromium, open_page, words_at_fault, worst_contrast

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def page_file(demo: tuple[Path, Any]) -> Path:
    return demo[0] / "index.html"


@dataclass(frozen=True)
class Visit:
    """The page as opened on one screen, what it said on the console and what it asked for."""

    page: Page
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@pytest.fixture(scope="module", params=SCREENS)
def visit(request: pytest.FixtureRequest, browser: Browser, page_file: Path) -> Iterator[Visit]:
    visit = Visit(open_page(browser, request.param))
    visit.page.on("console", lambda message: visit.said.append(message.text))
    visit.page.on("pageerror", lambda error: visit.said.append(str(error)))
    visit.page.on("request", lambda one: visit.asked.append(one.url))
    visit.page.goto(page_file.as_uri())
    yield visit
    visit.page.context.close()


@pytest.fixture
def page(visit: Visit) -> Page:
    return visit.page


def test_nothing_reaches_beyond_the_screen(page: Page) -> None:
    width = page.evaluate("document.documentElement.scrollWidth")
    assert page.viewport_size
    assert width <= page.viewport_size["width"]


def test_headings_go_down_one_step_at_a_time(page: Page) -> None:
    levels = page.evaluate(
        "[...document.querySelectorAll('h1,h2,h3,h4')].map(one => Number(one.tagName[1]))"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_the_figure_stands_out(page: Page) -> None:
    figure = page.locator(".headline .figure")
    assert figure.inner_text() == "87\u00a0%"
    size = figure.evaluate("one => parseFloat(getComputedStyle(one).fontSize)")
    assert size >= 60


def test_every_chart_is_seen_once_and_said_in_words(page: Page) -> None:
    shown = [one for one in page.locator("figure div > svg").all() if one.is_visible()]
    assert len(shown) == page.locator("figure:not(:has(figure))").count() >= 3
    assert page.viewport_size
    for drawing in shown:
        box = drawing.bounding_box()
        assert box
        assert box["height"] > 60
        assert box["x"] + box["width"] <= page.viewport_size["width"]
        assert drawing.locator("..").get_attribute("aria-label")


def test_no_words_of_a_drawing_are_cut_or_lie_on_others(page: Page) -> None:
    assert words_at_fault(page) == []


def test_text_has_contrast_enough(page: Page) -> None:
    """All text, in drawings too, stands out from its ground by 4.5 to 1."""
    worst = worst_contrast(page)
    assert 4.5 <= worst["ratio"] <= 21, worst


def test_links_lead_to_files_beside_the_page(page: Page, page_file: Path) -> None:
    names = page.locator("ul.files a").evaluate_all(
        "links => links.map(link => link.getAttribute('href'))"
    )
    assert names
    assert all((page_file.parent / name).is_file() for name in names)


def test_tables_fold_out(page: Page) -> None:
    details = page.locator("details").first
    assert not details.locator("table").is_visible()
    details.locator("summary").click()
    assert details.locator("table").is_visible()


def test_the_page_complained_of_nothing_and_asked_no_one(visit: Visit, page_file: Path) -> None:
    assert visit.said == []
    assert visit.asked == [page_file.as_uri()]
