"""Every attack has its page: who attacks, what is computed, an example that runs, what defends."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sfumato.attack.registry import ATTACKS

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
PARTS = (
    "**The attacker**",
    "**What is computed.**",
    "## A worked example",
    "## How to read it",
    "**What defends:**",
    "**Reference:**",
)


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_has_a_page_with_all_its_parts(name: str) -> None:
    page = GUIDE / "attacks" / f"{name}.md"
    assert page.exists(), f"Write {page.relative_to(GUIDE)}, as the other attacks have it."
    text = page.read_text()
    places = [text.find(part) for part in PARTS]
    assert -1 not in places, f"{name} lacks {PARTS[places.index(-1)]}"
    assert places == sorted(places)
    assert text.startswith(f"# {name}: ")
    assert re.search(rf"^    \$ sfumato attack {name} ", text, re.MULTILINE)
    assert f"](attacks/{name}.md)" in (GUIDE / "attacks.md").read_text(), "The overview links it."


def test_every_link_between_pages_of_attacks_leads_somewhere() -> None:
    for page in (GUIDE / "attacks.md", *(GUIDE / "attacks").glob("*.md")):
        for target in re.findall(r"\]\(([^)#\s]+\.md)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links {target}"
