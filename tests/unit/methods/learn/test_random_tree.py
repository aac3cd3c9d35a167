"""A tree of random questions whose leaves tell a chosen class."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from tests.fixtures.class_learning import AGE, STAGE, learnt, planned, spread, table

from sfumato.data.counting.contribution import FULL_WEIGHT
from sfumato.data.schema.unit import Entity, Neighbours
from sfumato.methods.learn.trees import RandomTree
from sfumato.privacy.accounting.composition import basic_price, total
from sfumato.privacy.accounting.events import PureEvent


def test_leaves_tell_their_commonest_class() -> None:
    plan = planned("tree", features=(AGE,), target=STAGE, growth="random", cost={"epsilon": 9})
    model = learnt(plan, table(spread(400)))
    leaves = model.tables["leaves"]
    told = leaves.column("count").to_numpy().reshape(256, 3)
    assert (told.sum(axis=1) == 1).all()
    held = table(spread(100))
    assert model.score(held, held.column("stage").to_pylist()) > 0.85
    assert "rows_missed" in model.error


def test_a_rho_buys_a_pure_epsilon() -> None:
    found = planned("tree", growth="random", cost={"rho": "1/2"}).event
    assert isinstance(found, PureEvent)
    assert float(found.epsilon) <= 1 < float(found.epsilon) + 1e-9


def test_replaced_people_halve_the_rate() -> None:
    rates = []
    for relation in Neighbours:
        unit = Entity("person", 3, relation=relation)
        learner = planned("tree", unit=unit, growth="random").method
        assert isinstance(learner, RandomTree)
        rates.append(learner.choice.rate)
        assert total(learner.event, basic_price) == (Fraction(1), Fraction(0))
    assert rates == [Fraction(1, 3 * FULL_WEIGHT), Fraction(1, 6 * FULL_WEIGHT)]


def test_leaves_without_rows_tell_any_class() -> None:
    model = learnt(planned("tree", target=STAGE, growth="random"), table([]), seed=3)
    told = model.tables["leaves"].column("count").to_numpy().reshape(256, 3).argmax(axis=1)
    assert (np.bincount(told, minlength=3) > 50).all()
