"""No person moves noisy moments by more than declared: neighbours, through the real queries.

Every case is a small table with a person more, less, or exchanged; what the engine sums of both is
compared in both norms with what each block declares. Rows that reach a bound are among them, so
that a declared sensitivity which is too small by little is found.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from sfumato.data.counting.contribution import weigh_rows
from sfumato.data.engines.base import column
from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.unit import Entity, Neighbours, Rows, count_sensitivity
from sfumato.methods.learn import noisy_moments, row_sums
from sfumato.methods.learn.noisy_moments import plan
from sfumato.methods.learn.request import LearningRequest
from sfumato.methods.method import Dataset
from sfumato.privacy.accounting.price import Price

if TYPE_CHECKING:
    from sfumato.data.schema.unit import Unit
    from sfumato.methods.learn.noisy_moments import MomentPlan

FEATURES = (
    Column("a", Kind.INTEGER, domain=Bounds(-10, 10)),
    Column("b", Kind.REAL, domain=Bounds(Decimal(-1), Decimal(1))),
    Column("city", Kind.TEXT, domain=Values(("x", "y", "z"))),
)
TARGET = Column("y", Kind.INTEGER, domain=Bounds(0, 100))
PERSON = Column("p", Kind.INTEGER)
SCHEMA = Schema("t", (PERSON, *FEATURES, TARGET))
STORED = pa.schema(
    {
        "p": pa.int64(),
        "a": pa.int64(),
        "b": pa.float64(),
        "city": pa.string(),
        "y": pa.int64(),
        "world": pa.int64(),
    }
)
UNITS = [
    unit
    for relation in Neighbours
    for unit in (Rows(relation=relation), Entity("p", 2, relation=relation))
]
CASES = 60


def planned(unit: Unit, norm: object) -> MomentPlan:
    request = LearningRequest(
        dataset="t",
        schema=SCHEMA,
        features=FEATURES,
        target=TARGET,
        unit=unit,
        price=Price(epsilon=Fraction(1)),
    )
    return plan(request, norm=norm)


def _row(draw: Random, person: int) -> dict[str, Any]:
    return {
        "p": person,
        "a": draw.choice([-10, 10, 10, None, 10**12, draw.randrange(-10, 11)]),
        "b": draw.choice([-1.0, 1.0, 1.0, None, float("nan"), draw.uniform(-1, 1)]),
        "city": draw.choice(["x", "y", "z", None, "?"]),
        "y": draw.choice([0, 100, 100, None, draw.randrange(101)]),
    }


def _person(draw: Random, unit: Unit, person: int) -> list[dict[str, Any]]:
    rows = draw.choice([1, 2, 3, 7]) if unit.by_person else 1
    first = _row(draw, person)
    # Rows of one kind reach the bound; rows of several kinds try what lies between.
    return [dict(first) if draw.random() < 0.7 else _row(draw, person) for _ in range(rows)]


def farthest(unit: Unit, norm: object, seed: int) -> tuple[float, float]:
    """The largest share of a declared norm that any block moves by, over some neighbours."""
    draw, one = Random(seed), planned(unit, norm)
    others = [row for person in range(3) for row in _person(draw, unit, person)]
    worlds: list[list[dict[str, Any]]] = [others]
    replaced = unit.relation is Neighbours.REPLACE_ONE
    for _ in range(CASES):
        worlds.append([*others, *_person(draw, unit, 9)])
        if replaced:
            worlds.append([*others, *_person(draw, unit, 9)])
    found = _in_worlds(one, worlds)
    if replaced:
        pairs = list(zip(found[1::2], found[2::2], strict=True))
    else:
        pairs = [(found[0], with_one) for with_one in found[1:]]
    moves = [_moved(one, before, after, unit) for before, after in pairs]
    return max(l1 for l1, _ in moves), max(l2 for _, l2 in moves)


def _in_worlds(one: MomentPlan, worlds: list[list[dict[str, Any]]]) -> Any:
    """The exact sums of every world, in one query: people of two worlds are never the same."""
    rows = [
        {**row, "p": 10 * at + row["p"], "world": at}
        for at, world in enumerate(worlds)
        for row in world
    ]
    engine = open_duckdb(pa.Table.from_pylist(rows, STORED))

    def by_world(data: Dataset, coordinates: Any, terms: Any, **more: Any) -> Any:
        world = row_sums.coordinate(len(coordinates))
        every = [*coordinates, column("world")]
        return [
            row_sums.sums(data, every, terms, group=world, groups=len(worlds), **more)
        ]  # fmt: skip

    with patch.object(noisy_moments, "sums", by_world):
        found = one.exact(Dataset("t", engine, engine.table, SCHEMA, one.unit))
    engine.close()
    return found


def _moved(one: MomentPlan, before: Any, after: Any, unit: Unit) -> tuple[float, float]:
    start, shares = 0, []
    for block in one.blocks:
        change = [
            int(now) - int(then)
            for then, now in zip(before[start:], after[start:], strict=True)
        ][: len(block.pairs)]  # fmt: skip
        start += len(block.pairs)
        declared = block.sensitivity(unit)
        shares.append(
            (
                float(sum(map(abs, change)) / declared.l1),
                float(sum(each**2 for each in change) / declared.l2_squared),
            )
        )
    return max(l1 for l1, _ in shares), max(l2 for _, l2 in shares)


@pytest.mark.parametrize("norm", [None, 5, Fraction(1, 2)])
@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_no_person_moves_a_block_further_than_declared(unit: Unit, norm: object) -> None:
    l1, l2 = farthest(unit, norm, seed=3)
    assert l1 <= 1
    assert l2 <= 1
    assert l1 > 0.45  # else nothing was tried that comes near


def test_planted_mistakes_are_found() -> None:
    unit = Entity("p", 2)
    # Twin: rows are not shrunk to the norm that sensitivities are of.
    with patch.object(noisy_moments, "clip_layers", _unshrunk):
        assert farthest(Rows(), Fraction(1, 2), seed=3)[0] > 1
    # Twin: every row of a person counts in full.
    with patch.object(row_sums, "weigh_rows", _in_full):
        assert farthest(unit, None, seed=3)[0] > 1
    # Twin: a person is worth one row, however many are allowed.
    with patch.object(row_sums, "count_sensitivity", lambda _: count_sensitivity(Rows())):
        assert farthest(unit, None, seed=3)[0] > 1


def _unshrunk(size: int, _norm: int, *, scaled_along: int = 0) -> Any:
    return [{f"sf_c{at}": row_sums.coordinate(at) for at in range(size + scaled_along)}]


def _in_full(rows: Any, _unit: Unit) -> Any:
    return weigh_rows(rows, Entity("p", 1000))
