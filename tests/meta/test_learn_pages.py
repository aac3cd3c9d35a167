"""The pages of learning: each can be found from the first, and none has a mark left to fill."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
PAGES = sorted(GUIDE.glob("learn*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda one: one.name)
def test_links_lead_somewhere_and_no_mark_is_left(page: Path) -> None:
    text = page.read_text()
    for target, _, place in re.findall(r"\]\(([^)#\s]+\.md)(#([^)]*))?\)", text):
        found = page.parent / target
        assert found.exists(), target
        heads = re.findall(r"^#+ (.+)$", found.read_text(), re.MULTILINE)
        assert not place or place in {one.lower().replace(" ", "-") for one in heads}, place
    assert re.findall(r"^[A-Z]{3,}$", text, re.MULTILINE) == []


def test_every_page_is_linked_from_the_first() -> None:
    first = (GUIDE / "learn.md").read_text()
    assert len(PAGES) > 3
    for page in PAGES:
        assert page.name == "learn.md" or f"]({page.name})" in first, page.name
