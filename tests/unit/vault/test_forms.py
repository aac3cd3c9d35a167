"""Graphs through the doors: published, made up, and refused where rows belong to two people."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.data.schema.schema import Edges
from sfumato.data.schema.unit import Ties
from sfumato.errors import ParameterError, SfumatoError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def _end(name: str) -> sf.Column:
    return sf.Column(name, sf.Kind.INTEGER, sf.Role.IDENTIFIER, sf.Bounds(0, 99), nullable=False)


SCHEMA = sf.Schema("friends", (_end("from"), _end("to")), form=Edges("from", "to"))
RING = [(one, (one + step) % 40) for one in range(40) for step in (1, 2)]
FRIENDS = pa.table({"from": [one for one, _ in RING], "to": [other for _, other in RING]})


@pytest.fixture
def friends() -> Iterator[sf.Private]:
    with closing(sf.read(FRIENDS, schema=SCHEMA)) as table:
        yield sf.protect(table, epsilon=9)


@pytest.fixture
def people() -> Iterator[sf.Private]:
    with closing(sf.read(FRIENDS, schema=SCHEMA)) as table:
        yield sf.protect(table, unit=Ties(("from", "to"), 4), epsilon=30, max_epsilon=30)


def test_kinds_of_graphs_are_charged_and_need_no_columns(friends: sf.Private) -> None:
    found = friends.publish("triangles", epsilon=3)
    assert found.cost == {"epsilon": 3}
    assert abs(found.table.column("count")[0].as_py() - 40) < 60
    assert friends.publish("triangles", epsilon=3).table == found.table  # from store
    assert friends.publish("degrees", nodes=50, epsilon=1).table.num_rows == 50
    assert "one row is present" in found.guarantee.statement


def test_a_made_up_graph_costs_the_sum_of_its_shares(friends: sf.Private) -> None:
    twin = friends.synthesize(nodes=40, epsilon=5)
    assert twin.cost == {"epsilon": 5}
    assert twin.table.column_names == ["from", "to"]
    assert 50 < twin.table.num_rows < 110
    pairs = set(zip(*(one.to_pylist() for one in twin.table.columns), strict=True))
    assert len(pairs) == twin.table.num_rows
    assert all(1 <= one < other <= 40 for one, other in pairs)


def test_degrees_of_people_are_told_under_the_unit_of_two(people: sf.Private) -> None:
    told = people.publish("node-degrees", epsilon=20).table.column("count").to_pylist()
    assert told == sorted(told, reverse=True)
    assert all(abs(one - 40) < 25 for one in told)


@pytest.mark.parametrize(
    "asked",
    [
        lambda one: one.query("SELECT COUNT(*) FROM friends"),
        lambda one: one.publish("histogram", columns="from"),
        lambda one: one.publish("tree", columns="from"),
        lambda one: one.publish("quantiles", columns="from"),
        lambda one: one.publish("continual", columns="from"),
        lambda one: one.synthesize(form="table"),
        lambda one: one.above(columns="from", workload=[[[0, 9]]], threshold=3),
        lambda one: one.publish("triangles"),
    ],
)
def test_every_other_door_refuses_rows_of_two(
    people: sf.Private, asked: Callable[[sf.Private], object]
) -> None:
    before = people.balance
    with pytest.raises(SfumatoError) as refused:
        asked(people)
    assert refused.value.code == "unit_unsupported"
    assert people.balance == before


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (lambda one: one.publish("triangles", columns="from"), "option_unknown"),
        (lambda one: one.publish("histogram"), "columns_invalid"),
        (lambda one: one.publish("degrees"), "parameter_missing"),
        (lambda one: one.publish("node-degrees"), "unit_unsupported"),
        (lambda one: one.synthesize(form="grph"), "choice_unknown"),
        (lambda one: one.synthesize(form="baskets"), "form_invalid"),
        (lambda one: one.synthesize(nodes=40, target="to"), "option_unknown"),
    ],
)
def test_what_does_not_fit_is_refused(
    friends: sf.Private, asked: Callable[[sf.Private], object], code: str
) -> None:
    with pytest.raises(ParameterError) as refused:
        asked(friends)
    assert refused.value.code == code
