"""Two tables compared: copies, combinations, ranges; in memory or set by set in the engine."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.attack.evaluation import coded_counts
from sfumato.errors import ParameterError

SCHEMA = sf.Schema(
    "people",
    (
        sf.Column("a", sf.Kind.INTEGER, domain=sf.Bounds(0, 9)),
        sf.Column("b", sf.Kind.TEXT, domain=sf.Values(("x", "y", "z"))),
        sf.Column("c", sf.Kind.BOOLEAN),
        sf.Column("d", sf.Kind.REAL, domain=sf.Bounds(Decimal(0), Decimal(1))),
    ),
)


def people(seed: int, rows: int = 400) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    a = draw.integers(0, 10, rows)
    return pd.DataFrame(
        {
            "a": a,
            "b": np.array(["x", "y", "z"])[(a + draw.integers(0, 2, rows)) % 3],
            "c": a > 5,
            "d": draw.random(rows),
        }
    )


def test_a_table_against_itself_is_the_same() -> None:
    with sf.read(people(1), SCHEMA) as original:
        found = sf.evaluate(people(1), original)
    assert [found.tvd(size) for size in (1, 2, 3)] == [0, 0, 0]
    assert found.propensity == 0
    assert found.copies.exact == 400
    assert found.copies.expected == 0
    assert all(one.error == 0 for one in found.ranges)
    assert all(one.association[0] == one.association[1] for one in found.pairs)


def test_large_tables_are_asked_set_by_set_and_say_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with sf.read(people(1), SCHEMA) as original:
        held = sf.evaluate(people(2), original).json()
        monkeypatch.setattr(coded_counts, "MOST_HELD", 10)
        asked = sf.evaluate(people(2), original).json()
    for told in (held, asked):
        told.pop("told_apart")  # it sees a sample then
    assert held == asked


def test_copies_are_expected_as_often_as_rows_have_twins() -> None:
    one = pd.DataFrame({"a": [1, 1, 2, 2, 2, 3, 4], "b": None, "c": True, "d": 0.5})
    other = pd.DataFrame({"a": [1, 3, 3, 9], "b": None, "c": True, "d": 0.5})
    with sf.read(one, SCHEMA) as original:
        found = sf.evaluate(other, original).copies
    assert (found.exact, found.unique, found.looked_at) == (3, 2, 4)
    assert found.expected == pytest.approx(4 * 5 / 7)  # five of seven rows have a twin
    assert found.unique_expected == pytest.approx(4 * 2 / 7)


def test_a_fresh_sample_has_as_many_copies_as_expected() -> None:
    drop = ["d"]
    with sf.read(people(1).drop(columns=drop), sf.Schema("p", SCHEMA.columns[:3])) as original:
        found = sf.evaluate(people(2).drop(columns=drop), original).copies
    assert found.exact == pytest.approx(found.expected, rel=0.05)


def test_invented_and_lost_combinations_are_named() -> None:
    real = pd.DataFrame({"a": [1, 1, 2, 2], "b": ["x", "x", "y", "y"]})
    made = pd.DataFrame({"a": [1, 1, 1, 1], "b": ["x", "x", "x", "y"]})
    with sf.read(real, sf.Schema("p", SCHEMA.columns[:2])) as original:
        found = sf.evaluate(made, original)
    (pair,) = found.pairs
    assert pair.fabricated is not None
    assert pair.fabricated.words == "a 1 and b y"
    assert (pair.fabricated.original, pair.fabricated.synthetic) == (0, 0.25)
    assert found.sets[2].mean.lost == 0.5
    assert found.tvd(3) is None
    assert (found.k_marginal(2), found.k_marginal(3)) == (500, None)  # half of the rows move
    assert found.json()["k_marginal"] == {"2": 500, "3": None}


def test_one_column_is_enough() -> None:
    with sf.read(people(1)[["a"]], sf.Schema("p", SCHEMA.columns[:1])) as original:
        found = sf.evaluate(people(2)[["a"]], original)
    assert found.propensity is None
    assert found.tvd(1) is not None
    assert len(found.ranges) == 1
    assert "0 pairs" not in repr(found)


@pytest.mark.parametrize("rows", [(0, 5), (5, 0)])
def test_a_table_without_rows_is_refused(rows: tuple[int, int]) -> None:
    real, made = people(1, 5)[: rows[0]], people(2, 5)[: rows[1]]
    with sf.read(real, SCHEMA) as original, pytest.raises(ParameterError) as refused:
        sf.evaluate(made, original)
    assert refused.value.code == "table_empty"
