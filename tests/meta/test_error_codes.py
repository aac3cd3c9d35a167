"""Every error code is snake case and explained, with cause and cure, in the reference."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "errors.py"


def test_codes_are_snake_case() -> None:
    codes = re.findall(r"^\| `(.+?)` \|", REFERENCE.with_suffix(".md").read_text(), re.MULTILINE)
    assert len(codes) > 50
    assert [code for code in codes if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", code)] == []


def test_every_code_has_a_cause_and_a_cure() -> None:
    module = runpy.run_path(str(REFERENCE))
    listed = [code for code, words in module["kinds"]().items() if all(words)]
    assert listed == sorted({code for _, code, *_ in module["codes"]()}), (
        "Add a line to docs/reference/errors.tsv for a new kind of mistake; better, use one of "
        "the kinds that are there."
    )


def test_every_code_that_a_test_has_met_is_in_the_reference() -> None:
    """What tests saw raised, an independent list: none of it may be missing on the page."""
    tests = Path(__file__).parents[1]
    met = {
        code
        for path in tests.rglob("test_*.py")
        for code in re.findall(r"""code"?\]? == "([a-z0-9_]+)\"""", path.read_text())
    }
    assert len(met) > 100
    page = REFERENCE.with_suffix(".md").read_text()
    assert sorted(code for code in met if f"| `{code}` |" not in page) == []


def test_the_reference_says_what_the_source_says() -> None:
    written = runpy.run_path(str(REFERENCE))["page"]()
    assert REFERENCE.with_suffix(".md").read_text() == written, "run: make reference"


def test_codes_of_errors_that_are_declared_elsewhere_are_in_the_reference() -> None:
    assert "| `too_many_combinations` | 2 |" in REFERENCE.with_suffix(".md").read_text()
