"""Writes errors.md: every error code, its exit code and what it says, read from the source."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "sfumato"
PAGE = Path(__file__).with_suffix(".md")
HEAD = """# Error codes

Written by `make reference` from the source. A message is shown with its parts in braces. Exit code
2: the caller's mistake. 3: refused for privacy. 1: our fault, or the machine's.

| code | exit | message |
|---|---|---|
"""


def exit_codes() -> dict[str, int]:
    """The exit code of every error class."""
    from sfumato import errors

    return {
        name: value.exit_code
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.SfumatoError)
    }


def page() -> str:
    """The whole page."""
    from sfumato.privacy.numbers import CODES

    classes = exit_codes()
    found: dict[str, tuple[int, str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                for code, exit_code, message in _codes(node, classes):
                    found.setdefault(code, (exit_code, message))
    for code in CODES:  # built from the name of a parameter and what is wrong with it
        found.setdefault(code, (classes["ParameterError"], "{...}"))
    lines = [f"| `{code}` | {exit_code} | {text} |" for code, (exit_code, text) in found.items()]
    return HEAD + "\n".join(sorted(lines)) + "\n"


def _codes(node: ast.Call, classes: dict[str, int]) -> list[tuple[str, int, str]]:
    """Codes of one call: of an error class, or of a function that refuses on its behalf."""
    name = ast.unparse(node.func).rpartition(".")[2]
    texts = [
        argument.value
        for argument in node.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]
    if name in classes and texts:
        first = node.args[0]
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            message = _message(node.args[1]) if len(node.args) > 1 else ""
            return [(first.value, classes[name], message)]
    if name == "_refusal":
        return [(text, 2, "") for text in texts if text.isidentifier() and "_" in text]
    return []


def _message(node: ast.expr) -> str:
    """The words of a message; what is filled in stands in braces."""
    if isinstance(node, ast.Constant):
        return str(node.value).replace("|", "\\|")
    if isinstance(node, ast.JoinedStr):
        return "".join(
            _message(part) if isinstance(part, ast.Constant) else "{...}" for part in node.values
        )
    if isinstance(node, ast.BinOp):
        return _message(node.left) + _message(node.right)
    return "{...}"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "src"))
    PAGE.write_text(page())
