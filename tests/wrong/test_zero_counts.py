"""Keys of which a person keeps no row, planted into a threshold: the registry harness sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp
from tests.registry.cells import Cell, pairs, run_pair
from tests.registry.methods import METHODS
from tests.registry.tables import Relation

from sfumato.data.counting import frequencies
from sfumato.data.counting.contribution import COUNT, bound

if TYPE_CHECKING:
    import pytest


def with_zero_counts(*positional: Any, **named: Any) -> exp.Query:
    """The bounded rows of everybody, with combinations that keep no row."""
    query = bound(*positional, **named)
    for condition in list(query.find_all(exp.GT)):
        if condition.left == exp.column(COUNT) and condition.right == exp.convert(0):
            condition.replace(exp.true())
    return query


def test_a_person_with_more_texts_than_count_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    title = "synthesize independent open text"
    method = next(one for one in METHODS if one.title == title)
    cell = Cell(method, "person", Relation.ADD_REMOVE, "approximate")
    assert run_pair(cell, pairs(cell)[0]).findings == ()
    monkeypatch.setattr(frequencies, "bound", with_zero_counts)
    findings = run_pair(cell, pairs(cell)[0]).findings
    assert "count of zero" in findings[0] or "pass with chance" in findings[0]
