"""Unit tests lie where what they test lies."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "tests" / "unit"


def test_every_folder_of_unit_tests_is_a_package() -> None:
    folders = {
        path.parent.relative_to(UNIT) for path in UNIT.rglob("*") if path.suffix in {".py", ".sql"}
    }
    strays = [one for one in folders if not (ROOT / "src/sfumato" / one / "__init__.py").exists()]
    assert strays == []
