"""Rewriting rules against their fixture file: a comment, the question, what it becomes."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlglot import exp, parse_one

from sfumato.methods.query.sql.rewrite import rewrite

CASES = Path(__file__).with_name("rewrite.sql").read_text().split("\n\n")


@pytest.mark.parametrize("case", CASES, ids=[case.split("\n")[0].strip("- ") for case in CASES])
def test_rule(case: str) -> None:
    _, given, wanted = case.strip().split("\n")
    tree = parse_one(given.removesuffix(";"))
    assert isinstance(tree, exp.Select)
    made = rewrite(tree)
    assert made.sql() == wanted.removesuffix(";")
    assert rewrite(made).sql() == made.sql()
    assert tree.sql() == parse_one(given.removesuffix(";")).sql()
