"""Write tolerances.md: every tolerance of tests that draw at random, and where it comes from.

A tolerance is `rel=` or `abs=` of `pytest.approx`, or `rtol=` and `atol=` of NumPy. Its derivation
is the comment at its line, or else the docstring of its test or of the module.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGE = Path(__file__).with_suffix(".md")
DRAWS = ("SeededEntropy", "SystemEntropy", "default_rng", "testing.audit")
NAMES = {"rel", "abs", "rtol", "atol"}
ROUNDING = 1e-6
HEAD = """# Tolerances of tests that draw at random

Written by `make reference` from the tests. `tests/fixtures/statistics.py` states the rate of false
alarms (1e-6 for each test and fresh seed) and the power of the common limits; audits compare with
limits of Clopper and Pearson at that rate and have no tolerance. Tolerances up to 1e-6 are left
out: they allow for the rounding of floats. The rest is listed here with what the test says of it.
Where it says nothing, no derivation is written down yet.

| tests | tolerance | what the test says |
|---|---|---|
"""


def page() -> str:
    """The whole page."""
    lines = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if any(word in source for word in DRAWS):
            inside = path.relative_to(ROOT)
            rows = dict.fromkeys(tolerances(source))
            lines += [f"| `{inside}` | {value} | {why} |" for value, why in rows]
    return HEAD + "\n".join(lines) + "\n"


def tolerances(source: str) -> Iterator[tuple[str, str]]:
    """Each tolerance of a module, with its derivation."""
    text = source.splitlines()
    tree = ast.parse(source)
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        told = (ast.get_docstring(function) or "").partition("\n\n")[0]
        for node in ast.walk(function):
            for keyword in node.keywords if isinstance(node, ast.Call) else ():
                if keyword.arg in NAMES and not _is_rounding(keyword.value):
                    comment = text[keyword.lineno - 1].partition("  # ")[2]
                    why = " ".join((comment or told).split()).replace("|", "/")
                    yield f"`{keyword.arg}={ast.unparse(keyword.value)}`".replace("|", "/"), why


def _is_rounding(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and float(str(value.value)) <= ROUNDING


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
