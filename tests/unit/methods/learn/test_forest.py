"""Forests of random questions."""

from __future__ import annotations

from fractions import Fraction

import pytest
from tests.fixtures.class_learning import FEATURES, STAGE, learnt, planned, spread, table

from sfumato.errors import ParameterError
from sfumato.privacy.accounting.composition import basic_price, total


@pytest.mark.parametrize(("rows", "trees"), [(20, 4), (6, 1), (500, 16), (5_000, 64), (None, 64)])
def test_the_number_of_trees_follows_from_public_facts(rows: int | None, trees: int) -> None:
    plan = planned("forest", rows=rows, cost={"epsilon": 3})
    assert plan.method.parameters["trees"] == trees
    assert total(plan.event, basic_price) == (Fraction(3), Fraction(0))


def test_gaussian_noise_is_taken_where_it_is_less() -> None:
    few = planned("forest", trees=1, cost={"epsilon": 1, "delta": "1e-6"})
    many = planned("forest", trees=64, cost={"epsilon": 1, "delta": "1e-6"})
    assert few.error["count"]["sd"] == pytest.approx(2**0.5, rel=0.1)
    assert many.error["count"]["sd"] < 64


def test_a_forest_tells_classes() -> None:
    plan = planned("forest", target=STAGE, features=FEATURES[:1], trees=8, cost={"epsilon": 8})
    model = learnt(plan, table(spread(600)))
    held = table(spread(100))
    assert model.score(held, held.column("stage").to_pylist()) > 0.8
    assert model.tables["leaves"].num_rows == 8 * 32 * 3


def test_too_many_trees_are_refused() -> None:
    with pytest.raises(ParameterError, match="trees must be a whole number from 1 to 256"):
        planned("forest", trees=257)
