"""Code and guides name decisions by their pages. Every named page exists; the index lists all."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "decisions"
PAGES = {path.stem for path in FOLDER.glob("*.md")} - {"README"}
_NAMED = re.compile(r"\b[Dd]ecisions?[\s#*]+((?:`[\w-]+`(?:,|\s|#|\band\b)*)+)")


def test_pages_have_a_title_a_date_and_three_parts() -> None:
    for name in PAGES:
        lines = (FOLDER / f"{name}.md").read_text().splitlines()
        assert lines[0].startswith("# "), name
        assert lines[1].startswith("Decided 2026-"), name
        assert [line for line in lines if line.startswith("## ")] == [
            "## Context",
            "## Choice",
            "## Price",
        ], name


def test_the_index_lists_every_page_once() -> None:
    listed = re.findall(r"\]\(([\w-]+)\.md\)", (FOLDER / "README.md").read_text())
    assert sorted(listed) == sorted(PAGES)


def test_decisions_that_code_and_guides_name_exist() -> None:
    named = {
        (str(path.relative_to(ROOT)), name)
        for path in _texts()
        for names in _NAMED.findall(path.read_text())
        for name in re.findall(r"`([\w-]+)`", names)
    }
    assert named
    assert sorted((path, name) for path, name in named if name not in PAGES) == []


def _texts() -> list[Path]:
    folders = ("src", "tests", "docs", "bench")
    return [
        path
        for folder in folders
        for ending in ("*.py", "*.md")
        for path in (ROOT / folder).rglob(ending)
    ]
