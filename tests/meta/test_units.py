"""What a unit is, others read of its properties: a new one is one more class."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "sfumato"
UNITS = {"Rows", "Entity", "Unit"}


def test_nobody_asks_for_the_type_of_a_unit() -> None:
    found = [
        f"{path.relative_to(SOURCE)}: {ast.unparse(node)}"
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if UNITS & asked_types(node) and "schema.unit" in path.read_text()
    ]
    assert found == []


def asked_types(node: ast.AST) -> set[str]:
    """The classes of which a test or a pattern asks whether something is one."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) in {"isinstance", "issubclass"}:
        return {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
    if isinstance(node, ast.MatchClass):
        return {ast.unparse(node.cls)}
    return set()


def test_the_check_itself_finds_what_it_looks_for() -> None:
    asked = ast.parse("isinstance(unit, Rows | int)", mode="eval").body
    assert UNITS & asked_types(asked) == {"Rows"}
