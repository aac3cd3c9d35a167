"""The demo page in a real browser: it reads well on every screen and asks nothing of anyone."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

CHROMIUM = Path("/usr/bin/chromium")

pytestmark = pytest.mark.skipif(
    not CHROMIUM.exists(), reason="needs Chromium (apt-get install chromium)"
)


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("demo")
    command = [str(Path(sys.executable).with_name("sfumato")), "demo", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out / "index.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM))
        yield browser
        browser.close()


@dataclass(frozen=True)
class Visit:
    """The page as opened on one screen, what it said on the console and what it asked for."""

    page: Page
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@pytest.fixture(scope="module", params=["light 1280", "dark 1280", "light 400", "dark 400"])
def visit(request: pytest.FixtureRequest, browser: Browser, page_file: Path) -> Iterator[Visit]:
    scheme, width = request.param.split()
    context = browser.new_context(
        viewport={"width": int(width), "height": 900}, color_scheme=scheme
    )
    visit = Visit(context.new_page())
    visit.page.on("console", lambda message: visit.said.append(message.text))
    visit.page.on("pageerror", lambda error: visit.said.append(str(error)))
    visit.page.on("request", lambda one: visit.asked.append(one.url))
    visit.page.goto(page_file.as_uri())
    yield visit
    context.close()


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


def test_text_has_contrast_enough(page: Page) -> None:
    """All text, in drawings too, stands out from its ground by 4.5 to 1."""
    worst = page.evaluate(_CONTRAST)
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


_CONTRAST = """() => {
  const parse = colour => colour.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => {
    const linear = c => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4;
    const [x, y, z] = [r, g, b].map(c => linear(c / 255));
    return .2126 * x + .7152 * y + .0722 * z;
  };
  const ground = node => {
    for (; node; node = node.parentElement) {
      const colour = parse(getComputedStyle(node).backgroundColor);
      if (colour.length < 4 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  let worst = {ratio: 99, text: ''};
  for (const node of document.querySelectorAll('body *')) {
    const words = [...node.childNodes].filter(child => child.nodeType === 3);
    const text = words.map(word => word.data.trim()).join('');
    if (!text || !node.getClientRects().length) continue;
    const style = getComputedStyle(node);
    const ink = parse(node.namespaceURI.endsWith('svg') ? style.fill : style.color);
    const [a, b] = [luminance(ink), luminance(ground(node))].sort((p, q) => q - p);
    const ratio = (a + .05) / (b + .05);
    if (ratio < worst.ratio) worst = {ratio, text};
  }
  return worst;
}"""
