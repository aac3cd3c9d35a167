"""The table of operations and doors is what the operations and their tests say."""

from __future__ import annotations

import runpy
from pathlib import Path

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "doors.py"


def test_the_table_of_doors_is_written_anew() -> None:
    written = runpy.run_path(str(REFERENCE))["page"]()
    assert REFERENCE.with_suffix(".md").read_text() == written, "run: make reference"
