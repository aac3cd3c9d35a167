"""The tables of doors and of tolerances are what operations and tests say."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


@pytest.mark.parametrize("name", ["doors", "tolerances"])
def test_a_table_is_written_anew(name: str) -> None:
    written = runpy.run_path(str(REFERENCE / f"{name}.py"))["page"]()
    assert (REFERENCE / f"{name}.md").read_text() == written, "run: make reference"
