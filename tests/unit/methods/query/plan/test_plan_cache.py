"""Plans that are kept: the same words against the same declarations, and nothing else."""

from __future__ import annotations

import sfumato as sf
from sfumato.data.schema.unit import Rows
from sfumato.methods.query.plan.plan_cache import RepeatedQuestions
from sfumato.methods.query.sql.tables import PrivateRows

SQL = "SELECT SUM(age) FROM t"


def declared(high: int) -> PrivateRows:
    age = sf.Column("age", sf.Kind.INTEGER, domain=sf.Bounds(0, high))
    return PrivateRows(sf.Schema("t", (age,)), Rows(), "t")


def test_a_question_is_planned_once_for_declarations_that_stand() -> None:
    repeated, first = RepeatedQuestions(), declared(9)
    plan = repeated.plan(SQL, {"t": first})
    assert repeated.plan(SQL, {"t": first}) is plan
    assert repeated.plan(SQL + " ", {"t": first}) is not plan
    assert repeated.plan(SQL, {"t": declared(99)}).plan.canonical != plan.plan.canonical


def test_declarations_that_are_gone_are_never_mistaken_for_new_ones() -> None:
    """Places in memory are used again; a plan keeps its declarations where they are."""
    repeated = RepeatedQuestions()
    for high in range(9, 200):
        argument = repeated.plan(SQL, {"t": declared(high)}).plan.measures[0].argument
        assert argument is not None
        assert argument.high == high
