"""The questions that are drawn leave out nothing that can be asked."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from sqlglot import ParseError, parse_one
from tests.fixtures.expressions import unlisted
from tests.fixtures.grammar import Grammar

from sfumato.data.schema.unit import Entity, Rows
from sfumato.methods.query.expressions import RULES

DRAWN = 750
"""About two of five can be answered: as many as the brute force over small tables asks."""


def test_the_grammar_is_drawn_whole() -> None:
    """Every rule of expressions, every aggregate, every form of source, filter and key.

    Most questions show nothing new: only those that do are planned, and must be answered.
    """
    draw = np.random.default_rng(3)
    forms = {
        "With", "Subquery", "Join", "Exists", "In", "Rollup", "Cube", "GroupingSets", "Distinct",
        "Having", "Filter", "Count", "Sum", "Avg", "Variance", "Stddev", "Median", "Quantile",
        "Min", "Max", "PercentileCont", "CountIf",
    }  # fmt: skip
    missing = forms | {rule.__name__ for rule in RULES} - unlisted()
    for number in range(DRAWN):
        grammar = Grammar(draw, Entity("who", 3, 2) if number % 4 else Rows())
        words = grammar.words()
        with suppress(ParseError):  # it is refused
            new = missing & {type(node).__name__ for node in parse_one(words).walk()}
            if new and grammar.plan(words) is not None:
                missing -= new
        if not missing:
            break
    assert missing == set()
