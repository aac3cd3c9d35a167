"""What claims to protect people says exactly how: the headings of its docstring."""

from __future__ import annotations

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "sfumato"
HEADINGS = {
    "privacy/mechanisms": ("sample", ("Guarantee", "Sensitivity", "Error", "Edges", "Reference")),
    "anonymize/criteria": ("holds", ("Guarantee", "Edges", "Reference")),
}


def missing(folder: str, method: str, headings: tuple[str, ...]) -> dict[str, list[str]]:
    """For each class with that method, the headings its docstring lacks."""
    found = {}
    for path in sorted((SOURCE / folder).rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if not isinstance(node, ast.ClassDef) or _is_protocol(node):
                continue
            methods = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
            text = ast.get_docstring(node) or ""
            lacking = [word for word in headings if not re.search(rf"\b{word}\*?:", text)]
            if method in methods and lacking:
                found[f"{path.name}:{node.name}"] = lacking
    return found


def _is_protocol(node: ast.ClassDef) -> bool:
    return any("Protocol" in ast.unparse(base) for base in node.bases)


def test_every_mechanism_states_its_guarantee() -> None:
    assert missing("privacy/mechanisms", *HEADINGS["privacy/mechanisms"]) == {}


def test_every_publication_states_its_guarantee() -> None:
    # These only carry what others promise: a request's method, a kind's tree, a strategy.
    carriers = {
        *("spatial_tree.py:Decomposition", "strategy.py:StrategyMethod"),
        *("strategy.py:DiagonalStrategy", "measurement.py:SingleNoise"),
    }
    headings = HEADINGS["privacy/mechanisms"][1]
    assert missing("methods/publish", "event", headings).keys() == carriers
    assert missing("methods/publish", "release", headings).keys() <= carriers
    assert missing("methods/publish", "estimate", headings) == {}


def test_every_criterion_states_its_guarantee() -> None:
    assert missing("anonymize/criteria", *HEADINGS["anonymize/criteria"]) == {}


def test_every_local_oracle_states_its_guarantee() -> None:
    # These only carry what others promise.
    carriers = {"mechanism.py:Oracle", "frequency_oracles.py:UnaryEncoding", "means.py:MeanOracle"}
    assert missing("methods/local", "_draw", HEADINGS["privacy/mechanisms"][1]).keys() <= carriers


def test_the_check_itself_finds_what_is_missing() -> None:
    assert missing("privacy/mechanisms", "sample", ("Nonsense",)) != {}
