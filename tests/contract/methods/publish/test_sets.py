"""Items are counted alike by every engine, and so released alike, given the same noise."""

from __future__ import annotations

from contextlib import closing
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.schema import Items, Schema
from sfumato.data.schema.unit import Entity
from sfumato.methods.itemsets import counts, frequent, ratings, synthesize
from sfumato.methods.itemsets.baskets import ItemFacts
from sfumato.methods.itemsets.transactions import PersonSets
from sfumato.methods.learn import rules
from sfumato.methods.learn.request import Learning, LearningRequest
from sfumato.methods.method import Dataset, KindPlan
from sfumato.methods.publish.request import FormRequest
from sfumato.privacy.accounting.price import price
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sfumato.data.engines.base import Engine

ITEMS = (*(f"item {place}" for place in range(68)), "o'clock", "Äpfel")
FORM, UNIT = Items("basket", "item", "stars"), Entity("who", 4)
KINDS: dict[str, Callable[..., Any]] = {
    "items": counts.prepare,
    "itemsets": counts.prepare_itemsets,
    "frequent": frequent.prepare,
    "search-log": counts.prepare_search_log,
    "ratings": ratings.prepare,
    "baskets": synthesize.prepare,
}


def shop() -> pa.Table:
    """People with more items than count, the same twice, none, and of nobody."""
    draw = np.random.default_rng(3)
    many = 900
    places = np.minimum(draw.geometric(0.15, many) - 1, len(ITEMS) - 1)
    who = [None if place % 97 == 5 else f"p{place % 180}" for place in range(many)]
    named: list[str | None] = [ITEMS[len(ITEMS) - 1 - place] for place in places.tolist()]
    named[::61] = [None] * len(named[::61])
    stars = draw.integers(1, 6, many)
    return pa.table({"basket": range(many), "who": who, "item": named, "stars": stars})


def schema(*, public: bool) -> Schema:
    columns = (
        Column("basket", Kind.INTEGER, nullable=False),
        Column("who", Kind.TEXT, nullable=False),
        Column("item", Kind.TEXT, domain=Values(ITEMS) if public else None),
        Column("stars", Kind.INTEGER, domain=Bounds(1, 5)),
    )
    return Schema("shop", columns, UNIT, form=FORM)


def released(
    engine: Engine, kinds: Sequence[str], publicity: Sequence[bool]
) -> dict[tuple[str, bool], Mapping[str, pa.Table]]:
    """Kinds of releases of one table, with the same noise each time."""
    found = {}
    for public in publicity:
        of = schema(public=public)
        data = {"shop": Dataset("shop", engine, engine.table, of, UNIT)}
        paid = price(epsilon=8, delta=Fraction(1, 1000))
        request = FormRequest(dataset="shop", schema=of, form=FORM, unit=UNIT, price=paid)
        for name in kinds:
            planned = KindPlan(name, request, KINDS[name](request), "publish")
            found[name, public] = planned.run(data, SeededEntropy(7)).tables
        asked = LearningRequest(
            dataset="shop", schema=of, features=(of.column("basket"), of.column("item")),
            target=None, unit=UNIT, price=paid,
        )  # fmt: skip
        if len(kinds) < len(KINDS):
            continue
        learning = Learning("rules", asked, rules.prepare(asked, confidence=0))
        found["rules", public] = learning.run(data, SeededEntropy(7)).tables
    return found


def alike(open_on: Callable[[pa.Table], Engine], kinds: Sequence[str], *public: bool) -> None:
    """Whether all tables are those that one engine gives."""
    table = shop()
    with closing(open_duckdb(table)) as engine:
        expected = released(engine, kinds, public)
    found = released(open_on(table), kinds, public)
    assert all(one.num_rows for tables in expected.values() for one in tables.values())
    for name, tables in expected.items():
        for part, one in tables.items():
            assert found[name][part].to_pydict() == one.to_pydict(), (name, part)


def test_items_are_released_alike(open_engine: Callable[[pa.Table], Engine]) -> None:
    alike(open_engine, ["items", "frequent"], False)


@pytest.mark.slow
def test_every_kind_is_released_alike(open_engine: Callable[[pa.Table], Engine]) -> None:
    alike(open_engine, list(KINDS), True, False)


def test_patterns_of_many_items_are_those_of_the_rows(
    open_engine: Callable[[pa.Table], Engine],
) -> None:
    """More items than one number has bits, each with all its signs."""
    table, of = shop(), schema(public=True)
    held: dict[str, set[str]] = {}
    for who, item in zip(table["who"].to_pylist(), table["item"].to_pylist(), strict=True):
        if who is not None and item is not None:
            held.setdefault(who, set()).add(item)
    exact = np.array([[item in one for item in ITEMS] for one in held.values()]).astype(int)
    request = FormRequest(dataset="shop", schema=of, form=FORM, unit=UNIT, price=price(epsilon=1))
    facts = ItemFacts.of(request)
    engine = open_engine(table)
    sets = PersonSets(facts, Dataset("shop", engine, engine.table, of, UNIT), pa.array(ITEMS))
    assert sets.counts().tolist() == exact.sum(axis=0).tolist()
    found = sets.profiles(np.arange(len(ITEMS)))
    assert (found.pairs == exact.T @ exact).all()
    assert found.counts.sum() == len(held)
