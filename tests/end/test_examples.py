"""The examples in the documentation run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.end.test_programs import has_chamber
from tests.fixtures.slices import few_fast

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = [
    pytest.param(code, id=f"{page.relative_to(ROOT)}:{number}")
    for page in PAGES
    for number, code in enumerate(
        re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL), start=1
    )
]


@pytest.mark.parametrize("code", few_fast(EXAMPLES, 14))
def test_example_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "assert" in code, "an example shows what comes out of it"
    if "private.run(" in code and not has_chamber():
        pytest.skip("no sandbox holds on this machine")
    exec(compile(code, "example", "exec"), {"__name__": "example"})  # noqa: S102
