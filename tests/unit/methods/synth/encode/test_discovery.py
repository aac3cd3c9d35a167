"""Texts that nobody declared: what many people have is discovered, once for each of them."""

from __future__ import annotations

from contextlib import closing
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.data.counting.frequencies import count
from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.unit import Entity, Neighbours, Rows
from sfumato.methods.synth.encode.discovery import Discovered, KeyDiscovery
from sfumato.privacy.accounting.composition import basic_price, total
from sfumato.privacy.mechanisms.spending import Spending
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from sfumato.data.schema.unit import Unit

TOWN = Column("town", Kind.TEXT, length=8)
LOUD = Spending(epsilon=Fraction(5))
DELTA = Fraction(1, 10**6)


def found(rows: dict[str, Any], unit: Unit) -> tuple[str, ...]:
    discovery = KeyDiscovery((TOWN,), unit, LOUD, DELTA)
    with closing(open_duckdb(pa.table(rows))) as engine:
        return discovery.run(engine, engine.table, "salt", SeededEntropy(1))["town"]


def test_people_count_and_not_rows() -> None:
    loud = {"who": [1] * 500 + [*range(100)], "town": ["mine"] * 500 + ["ours"] * 100}
    assert found(loud, Entity("who", 500)) == ("ours",)
    assert found(loud, Rows()) == ("mine", "ours")


def test_long_missing_and_rare_texts_are_never_discovered() -> None:
    towns = ["abcdefgh"] * 50 + ["abcdefghi"] * 50 + [None] * 50 + ["rare"]
    assert found({"town": towns}, Rows()) == ("abcdefgh",)
    assert found({"town": pa.array([], pa.string())}, Rows()) == ()


def test_columns_share_what_is_paid() -> None:
    both = KeyDiscovery((TOWN, Column("street", Kind.TEXT)), Rows(), LOUD, DELTA)
    assert total(both.event, basic_price) == (Fraction(5), DELTA)
    one = KeyDiscovery((TOWN,), Rows(), LOUD, DELTA)
    assert both.mechanism.threshold > one.mechanism.threshold
    replaced = KeyDiscovery((TOWN,), Rows(relation=Neighbours.REPLACE_ONE), LOUD, DELTA)
    assert replaced.mechanism.threshold > one.mechanism.threshold


def test_the_rest_is_told_apart() -> None:
    assert Discovered.of(TOWN, ["x"]).values.to_pylist() == ["x", "other", None]
    taken = Discovered.of(Column("town", Kind.TEXT, nullable=False), ["Other", "other_2"])
    assert taken.values.to_pylist() == ["Other", "other_2", "other_3"]
    assert taken.remainder == "other_3"


def test_F30_many_texts_of_one_person_have_the_chance_of_one() -> None:
    """One person with 20,000 texts, 400 releases at delta 5e-4: each may show one text.

    Promised is a chance of at most 5e-4 in each release; 5 or more of 400 would happen with a
    chance below 1e-6. With the zeros of 19,999 dropped texts nearly all releases showed some.
    """
    discovery = KeyDiscovery((TOWN,), Entity("who", 1), LOUD, Fraction(1, 2000))
    rows = {"who": [1] * 20_000, "town": [f"t{at}" for at in range(20_000)]}
    with closing(open_duckdb(pa.table(rows))) as engine:
        counts = count(engine, engine.table, ["town"], unit=Entity("who", 1), salt="salt").counts
    assert counts.tolist() == [1]
    shown = sum(
        len(discovery.mechanism.sample(counts, SeededEntropy(seed)).positions) > 0
        for seed in range(400)
    )
    assert shown < 5
