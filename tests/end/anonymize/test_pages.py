"""The reports of a release in a real browser: on every screen, and on paper, nothing is cut."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from tests.end.anonymize.conftest import Shell

CHROMIUM = Path("/usr/bin/chromium")
PAPER = 794 - 2 * 60
"""The width of A4 between its margins, in pixels."""

pytestmark = pytest.mark.skipif(
    not CHROMIUM.exists(), reason="needs Chromium (apt-get install chromium)"
)


def test_nothing_is_cut_and_words_of_the_field_open_without_a_script(
    shell: Shell, browser: Browser
) -> None:
    words = ("--k", 4, "--l", 2, "--suppress", "5%", "-o", "out.csv", "--report", "mine.html")
    shell.found(shell.anonymize(*words, "--public-report", "public.html"))
    for name in ("mine.html", "public.html"):
        page = browser.new_page()
        page.goto(Path(name).absolute().as_uri())
        for width, media in ((390, "screen"), (1280, "screen"), (PAPER, "print")):
            page.emulate_media(media=media)  # type: ignore[arg-type]
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (name, width)
        widest = "Math.max(...[...document.querySelectorAll('table')].map(t => t.scrollWidth))"
        assert page.evaluate(widest) <= PAPER, name
        page.emulate_media(media="screen")
        term = page.locator("details.terms dt").first
        assert not term.is_visible()
        page.locator("details.terms summary").first.click()
        assert term.is_visible()
    assert page.locator(".signature").count() == 0  # the public one is not signed
