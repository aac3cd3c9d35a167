"""Every error code is snake case and explained in the reference, which is up to date."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "errors.py"


def test_codes_are_snake_case() -> None:
    codes = re.findall(r"^\| `(.+?)` \|", REFERENCE.with_suffix(".md").read_text(), re.MULTILINE)
    assert len(codes) > 50
    assert [code for code in codes if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", code)] == []


def test_the_reference_says_what_the_source_says() -> None:
    written = runpy.run_path(str(REFERENCE))["page"]()
    assert REFERENCE.with_suffix(".md").read_text() == written, "run: make reference"
