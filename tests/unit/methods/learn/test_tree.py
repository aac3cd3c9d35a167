"""Trees: how they are grown, by public facts, and what they tell."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.fixtures.class_learning import ILL, STAGE, learnt, planned, spread, table

from sfumato.data.schema.unit import Entity, Neighbours, Rows
from sfumato.errors import ParameterError
from sfumato.methods.learn.trees import GreedyTree, RandomTree, Stump
from sfumato.privacy.accounting.composition import basic_price, total

if TYPE_CHECKING:
    from sfumato.data.schema.column import Column


@pytest.mark.parametrize(
    ("rows", "target", "kind", "depth"),
    [
        (100, ILL, Stump, 1),
        (100, STAGE, GreedyTree, 2),
        (40, STAGE, RandomTree, 8),
        (1_000, ILL, GreedyTree, 3),
        (10_000, ILL, GreedyTree, 4),
        (100_000, STAGE, GreedyTree, 5),
        (None, ILL, GreedyTree, 3),  # as if 1,000
    ],
)
def test_growth_follows_from_public_facts(
    rows: int | None, target: Column, kind: type, depth: int
) -> None:
    found = planned("tree", rows=rows, target=target).method
    assert isinstance(found, kind)
    assert found.parameters["depth"] == depth


@pytest.mark.parametrize("growth", ["greedy", "stump", "random"])
@pytest.mark.parametrize("unit", [Rows(), Entity("person", 3, relation=Neighbours.REPLACE_ONE)])
def test_the_whole_price_is_spent_and_no_more(growth: str, unit: Rows | Entity) -> None:
    event = planned("tree", unit=unit, growth=growth).event
    assert total(event, basic_price) == (Fraction(1), Fraction(0))


def test_a_stump_asks_for_the_age() -> None:
    model = learnt(planned("tree", growth="stump"), table(spread(400)))
    (asked,) = model.tables["splits"].to_pylist()
    assert asked["feature"] == "age"
    assert 40 < float(asked["question"].removeprefix("age > ").removesuffix("?")) < 60
    held = table(spread(100))
    assert model.score(held, held.column("ill").to_pylist()) > 0.9


def test_a_tree_of_two_levels_tells_three_classes() -> None:
    plan = planned("tree", target=STAGE, depth=2, cost={"epsilon": 4})
    model = learnt(plan, table(spread(900)))
    assert model.tables["splits"].num_rows == 3
    assert model.tables["leaves"].num_rows == 4 * 3
    held = table(spread(100))
    assert model.score(held, held.column("stage").to_pylist()) > 0.85


@pytest.mark.parametrize("growth", ["greedy", "stump", "random"])
def test_what_is_promised_ahead_is_what_comes(growth: str) -> None:
    plan = planned("tree", growth=growth)
    model = learnt(plan, table(spread(30)))
    assert {name: one.schema for name, one in plan.method.tables.items()} == {
        name: one.schema for name, one in model.tables.items()
    }
    assert plan.method.error.keys() <= {"count", "rows_missed"}


def test_classes_are_told_as_they_are_declared() -> None:
    model = learnt(planned("tree", target=STAGE), table(spread(50)))
    told = model.read(table(spread(5)).select(model.features))
    assert told["prediction"].type == "int64"
    assert set(np.unique(model.predict(table(spread(50))))) <= {1, 2, 3}


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"depth": 9}, "parameter_out_of_range"),
        ({"growth": "slow"}, "option_not_applicable"),
        ({"bins": 65}, "parameter_out_of_range"),
        ({"trees": 3}, "option_unknown"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], code: str) -> None:
    with pytest.raises(ParameterError) as caught:
        planned("tree", **options)
    assert caught.value.code == code
