from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.data.engines.sources import open_source
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.schema import Items, Schema
from sfumato.data.schema.unit import Entity, Rows
from sfumato.errors import ParameterError, SourceError
from sfumato.methods.learn.model import load_model
from sfumato.methods.learn.request import LearningRequest
from sfumato.methods.learn.rules import RowSource, RuleBook, Rules, Suggestion, item_text, prepare
from sfumato.methods.method import Dataset, SaltedData
from sfumato.privacy.accounting.price import price
from sfumato.privacy.mechanisms.spending import Spending
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.data.schema.unit import Unit

CITIES = ("a", "b", "c")
PEOPLE = (
    Column("who", Kind.INTEGER, Role.IDENTIFIER, nullable=False),
    Column("smoker", Kind.BOOLEAN),
    Column("city", Kind.TEXT, domain=Values(CITIES)),
    Column("age", Kind.INTEGER, domain=Bounds(0, 99)),
)
SHOP = (
    Column("basket", Kind.INTEGER, Role.IDENTIFIER, nullable=False),
    Column("item", Kind.TEXT, domain=Values(("tea", "milk", "salt"))),
)
HUGE = Spending(epsilon=Fraction(10**6))


def of_people(*features: str, unit: Unit = Rows()) -> LearningRequest:  # noqa: B008  # frozen
    schema = Schema("people", PEOPLE, unit)
    columns = tuple(schema.column(one) for one in features)
    return LearningRequest(
        dataset="people", schema=schema, features=columns, target=None, unit=unit,
        price=price(epsilon=1),
    )  # fmt: skip


def of_shop() -> LearningRequest:
    unit = Entity("basket", 2)
    schema = Schema("shop", SHOP, unit, form=Items("basket", "item"))
    return LearningRequest(
        dataset="shop", schema=schema, features=SHOP, target=None, unit=unit, price=price(epsilon=1)
    )


def learnt(request: LearningRequest, table: pa.Table, **options: Any) -> RuleBook:
    """A model with next to no noise."""
    rules = sure(prepare(request, **options))
    engine = open_source(table)
    data = Dataset(request.dataset, engine, engine.table, request.schema, request.unit)
    return RuleBook(
        kind="rules",
        kinds={one.name: str(one.kind) for one in request.features},
        facts=rules.facts,
        tables=rules.release(SaltedData(data, "salt"), SeededEntropy(1)),
    )


def sure(rules: Rules) -> Rules:
    if isinstance(rules.source, RowSource):
        basis = replace(rules.source.basis, spending=HUGE)
        return replace(rules, source=replace(rules.source, basis=basis))
    sets = rules.source.sets
    return replace(
        rules,
        source=replace(rules.source, sets=replace(sets, basis=replace(sets.basis, spending=HUGE))),
    )


def people() -> pa.Table:
    """Ten of a hundred have no city; smokers live in b, others in a."""
    smoker = [place % 4 == 0 for place in range(100)]
    city = [None if place % 10 == 9 else "b" if place % 4 == 0 else "a" for place in range(100)]
    return pa.table({"who": range(100), "smoker": smoker, "city": city, "age": [30] * 100})


def test_values_of_a_plain_table_are_items_and_of_truths_the_true_ones() -> None:
    request = of_people("smoker", "city")
    source = prepare(request).source
    assert isinstance(source, RowSource)
    assert source.names == ("smoker = true", "city = a", "city = b", "city = c")
    book = learnt(request, people())
    rules = {
        (row["if_1"], row["then"]): (row["count"], row["confidence"], row["lift"])
        for row in book.tables["rules"].to_pylist()
    }
    assert rules["smoker = true", "city = b"] == (25, 1.0, 4.0)
    assert rules["city = b", "smoker = true"] == (25, 1.0, 4.0)
    assert len(rules) == 2


def test_a_row_is_told_what_it_lacks() -> None:
    book = learnt(of_people("smoker", "city"), people())
    rows = pa.table({"smoker": [True, None, True, False], "city": [None, "b", "a", None]})
    told = book.read(rows)
    assert told["suggested"].to_pylist() == ["city = b", "smoker = true", None, None]
    assert told["confidence"].to_pylist() == [1.0, 1.0, None, None]


def test_items_that_would_print_alike_are_told_apart() -> None:
    """Column "a" of value "b = c" and column "a = b" of value "c", with spaces or without."""
    names = [
        item_text(value, column)
        for column, value in (
            ("a", "b = c"), ("a = b", "c"), ("a", "= c"), ("a =", "c"), ('"a', "c"),
            ('"a = b"', "c"), ("a", '"b = c"'), ("a", "c"),
        )
    ]  # fmt: skip
    assert len(set(names)) == len(names)
    assert names[-1] == "a = c"
    values = {"a": ("b = c", "z"), "a = b": ("c", "w"), "k": ("p", "q")}
    columns = tuple(Column(one, Kind.TEXT, domain=Values(told)) for one, told in values.items())
    request = replace(
        of_people("smoker"), schema=Schema("people", columns), features=columns
    )  # fmt: skip
    table = pa.table({"a": ["b = c", "z"] * 50, "a = b": ["w", "c"] * 50, "k": ["p", "q"] * 50})
    book = learnt(request, table, size=2)
    rows = pa.table({"a": ["z", None], "a = b": [None, "w"], "k": pa.array([None, "p"])})
    assert book.read(rows)["suggested"].to_pylist() == ['"a = b" = c', 'a = "b = c"']


def test_a_basket_is_told_what_others_have_besides() -> None:
    baskets = [["tea", "milk"]] * 60 + [["tea"]] * 20 + [["salt"]] * 20
    pairs = [(owner, item) for owner, items in enumerate(baskets) for item in items]
    owners, items = zip(*pairs, strict=True)
    book = learnt(of_shop(), pa.table({"basket": owners, "item": items}), confidence=50)
    assert book.suggest(["milk"]) == [Suggestion("tea", 1.0)]
    assert book.suggest(["tea"]) == [Suggestion("milk", 0.75)]
    assert book.suggest(["tea", "milk"]) == book.suggest(["salt"]) == []
    rows = pa.table({"basket": [7, 8, 7, 9], "item": ["tea", "milk", "salt", "pear"]})
    assert book.predict(rows).tolist() == ["milk", "tea", "milk", None]


def test_a_file_has_rules_alone_and_a_changed_one_is_refused(tmp_path: Path) -> None:
    book = learnt(of_people("smoker", "city"), people())
    file = book.save(tmp_path / "m.json")
    again = load_model(file)
    assert isinstance(again, RuleBook)
    assert again.tables["rules"].equals(book.tables["rules"])
    told = json.loads(file.read_text())
    assert set(told["tables"]) == {"rules"}
    changes: tuple[dict[str, Any], ...] = (
        {"facts": {"baskets": ["x", "y"]}},
        {"tables": {}},
        {"tables": {"rules": {"then": {"kind": "text", "values": ["a"]}}}},
    )
    for change in changes:
        file.write_text(json.dumps({**told, **change}))
        with pytest.raises(SourceError, match="not a model"):
            load_model(file)


def test_a_person_of_several_rows_is_as_many_baskets() -> None:
    """Everything is as many times as loud, and no more rows of a person count."""
    request = of_people("smoker", "city", unit=Entity("who", 3))
    source = prepare(request).source
    alone = prepare(of_people("smoker", "city")).source
    assert isinstance(source, RowSource)
    assert isinstance(alone, RowSource)
    three, one = (of.basis.noise(4, Fraction(1)).scale for of in (source, alone))  # type: ignore[union-attr]
    assert three == 3 * one
    table = pa.table({"who": [1] * 50, "smoker": [True] * 50, "city": ["a"] * 50, "age": [1] * 50})
    book = learnt(request, table)
    assert {one["count"] for one in book.tables["rules"].to_pylist()} == {3}


@pytest.mark.parametrize("features", [["smoker"], ["smoker", "age"]])
def test_what_no_rule_can_be_made_of_is_refused(features: list[str]) -> None:
    with pytest.raises(ParameterError) as caught:
        prepare(of_people(*features))
    assert caught.value.code == "column_unsuitable"


def test_columns_of_a_table_of_items_are_refused() -> None:
    with pytest.raises(ParameterError, match="Leave out features="):
        prepare(replace(of_shop(), features=SHOP[1:]))


def test_tables_are_as_foretold() -> None:
    rules = prepare(of_people("smoker", "city"), size="4")
    book = learnt(of_people("smoker", "city"), people(), size=4)
    assert rules.tables["rules"].schema == book.tables["rules"].schema
    assert np.isfinite(rules.error["count"]["least_sd"])
