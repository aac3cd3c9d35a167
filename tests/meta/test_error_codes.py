"""Every error code is a literal, in snake case, and explained in the reference."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from sfumato import errors

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "sfumato"
REFERENCE = ROOT / "docs" / "reference" / "errors.md"
CLASSES = {
    name
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, errors.SfumatoError)
}


def raised_codes() -> dict[str, str]:
    """Code -> place, for every construction of one of our errors."""
    codes: dict[str, str] = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else None
            name = node.func.id if isinstance(node.func, ast.Name) else name
            first = node.args[0]
            if name in CLASSES and isinstance(first, ast.Constant) and isinstance(first.value, str):
                codes[first.value] = f"{path.relative_to(SOURCE)}:{node.lineno}"
    return codes


def documented_codes() -> set[str]:
    return set(re.findall(r"^\| `([a-z0-9_]+)` \|", REFERENCE.read_text(), flags=re.MULTILINE))


def test_codes_are_snake_case() -> None:
    wrong = {
        code for code in raised_codes() if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", code)
    }
    assert wrong == set()


def test_every_code_is_explained_in_the_reference() -> None:
    missing = {
        code: place for code, place in raised_codes().items() if code not in documented_codes()
    }
    assert missing == {}
