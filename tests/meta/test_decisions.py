"""A module may name the decision that explains its shape; then there is one of that number."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "sfumato"
PAGES = sorted((ROOT / "docs" / "decisions").glob("*.md"))
_NAMED = re.compile(r"\b[Dd]ecisions? ((?:\d+(?:, | and )?)+)")


def test_every_decision_has_a_number_of_its_own_and_says_it() -> None:
    numbers = Counter(path.name[:4] for path in PAGES)
    assert [number for number, count in numbers.items() if count > 1] == []
    for path in PAGES:
        first = path.read_text().partition("\n")[0]
        assert re.match(rf"# 0*{int(path.name[:4])}[.:]? \S", first), path.name


def test_decisions_that_modules_name_exist() -> None:
    known = {path.name[:4] for path in PAGES}
    named = {
        (str(path.relative_to(SOURCE)), number)
        for path in SOURCE.rglob("*.py")
        for found in _NAMED.findall(path.read_text())
        for number in re.findall(r"\d+", found)
    }
    assert named
    assert sorted((path, number) for path, number in named if number not in known) == []
