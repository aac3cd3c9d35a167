"""Bars of what is computed, what NULL stands for, and figures that are too noisy to use."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.privacy.ledger.receipt import Receipt, Stage
from sfumato.testing.entropy import SeededEntropy

ROWS = 4000
CITIES = ("A", "B", "none")


@pytest.fixture(autouse=True)
def _seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a bar that holds is passed in 5 % of cases."""

    def entropy(receipt: Receipt) -> SeededEntropy:
        receipt.advance(Stage.DRAWN, {Stage.RESERVED})
        return SeededEntropy(6)

    monkeypatch.setattr(Receipt, "entropy", entropy)


@pytest.fixture(scope="module")
def held() -> sf.Table:
    draw = np.random.default_rng(3)
    table = pa.table(
        {
            "city": pa.array(np.array(["A", "B"])[draw.integers(2, size=ROWS)]),
            "age": draw.integers(20, 60, ROWS),
            "zero": np.zeros(ROWS, dtype=np.int64),
        }
    )
    columns = (
        sf.Column("city", sf.Kind.TEXT, domain=sf.Values(CITIES), nullable=False),
        sf.Column("age", sf.Kind.INTEGER, domain=sf.Bounds(0, 100), nullable=False),
        sf.Column("zero", sf.Kind.INTEGER, domain=sf.Bounds(0, 100), nullable=False),
    )
    return sf.read(table, sf.Schema("t", columns))


def ask(held: sf.Table, sql: str, epsilon: Any = 1, **cost: Any) -> sf.Answer:
    return sf.protect(held, unit=sf.Rows(), epsilon=10, delta="1e-6").query(
        sql, epsilon=epsilon, **cost
    )


def useless(answer: sf.Answer, column: str) -> list[int]:
    assert answer.error is not None
    found: list[int] = answer.error[column].get("too_noisy", [])
    return found


def test_shares_cost_nothing_more_and_add_up_to_one(held: sf.Table) -> None:
    private = sf.protect(held, unit=sf.Rows(), epsilon=1)
    found = private.query(
        "SELECT city, COUNT(*) AS n, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS p FROM t "
        "GROUP BY city",
        epsilon="0.4",
    )
    counts, percents = found.table["n"].to_pylist(), found.table["p"].to_pylist()
    assert percents == pytest.approx([100 * one / sum(counts) for one in counts])
    assert private.remaining["epsilon"] == 0.6
    assert found.error is not None
    assert all(0 < one < 2 for one in found.error["p"]["bound95"])


def test_a_share_in_having_is_of_all_groups_else_of_those_kept(held: sf.Table) -> None:
    share = "SELECT city, COUNT(*) / SUM(COUNT(*)) OVER () AS s FROM t GROUP BY city"
    of_all = ask(held, f"{share} HAVING s > 0.25 ORDER BY s DESC").table["s"].to_pylist()
    assert len(of_all) == 2
    assert of_all == sorted(of_all, reverse=True)
    of_kept = ask(held, f"{share} HAVING COUNT(*) > 500").table["s"].to_pylist()
    assert sum(of_kept) == pytest.approx(1)


@pytest.mark.parametrize("clause", ["LIMIT 0", "HAVING COUNT(*) > 1000000000"])
def test_no_rows_have_no_bars(held: sf.Table, clause: str) -> None:
    sql = f"SELECT city, COUNT(*) / SUM(COUNT(*)) OVER () AS s FROM t GROUP BY city {clause}"
    found = ask(held, sql)
    assert found.table.num_rows == 0
    assert found.error == {"s": {"sd": None, "bound95": None}}


def test_bars_follow_the_order_of_the_answer(held: sf.Table) -> None:
    sql = "SELECT city, AVG(age) / 2 AS h, AVG(age) AS a FROM t GROUP BY city ORDER BY city {}"
    for order in ("ASC", "DESC"):
        found = ask(held, sql.format(order))
        assert found.error is not None
        halves, wholes = (found.error[name]["bound95"] for name in "ha")
        assert halves == pytest.approx([one / 2 for one in wholes])


def test_a_divisor_that_may_be_zero_leaves_no_bar(held: sf.Table) -> None:
    found = ask(held, "SELECT city, COUNT(*) / SUM(age - 40) AS r FROM t GROUP BY city", "0.1")
    assert found.error is not None
    assert found.error["r"]["bound95"] is None
    assert useless(found, "r") == [0, 1, 2]


def test_what_has_no_rule_has_no_bar_and_no_mark(held: sf.Table) -> None:
    found = ask(held, "SELECT CASE WHEN COUNT(*) > 1 THEN COUNT(*) ELSE 0 END AS c FROM t")
    assert found.error == {"c": {"sd": None, "bound95": None}}


def test_figures_no_larger_than_their_bar_are_marked(held: sf.Table) -> None:
    found = ask(held, "SELECT city, COUNT(*) AS n, AVG(age) AS a FROM t GROUP BY city")
    assert useless(found, "n") == useless(found, "a") == [2]


@pytest.mark.parametrize("figure", ["COUNT(*)", "SUM(age)", "COUNT(DISTINCT age)", "COUNT(age)"])
def test_what_cannot_be_negative_but_is_by_noise_is_marked(figure: str) -> None:
    """Among 1,000 empty groups some are further below zero than their bar is wide."""
    year = sf.Column("year", sf.Kind.INTEGER, domain=sf.Bounds(1, 1000), nullable=False)
    age = sf.Column("age", sf.Kind.INTEGER, domain=sf.Bounds(0, 100), nullable=True)
    empty = sf.read(
        pa.table({"year": pa.array([], pa.int64()), "age": pa.array([], pa.int64())}),
        sf.Schema("t", (year, age)),
    )
    found = ask(empty, f"SELECT year, {figure} AS n FROM t GROUP BY year", "0.1")
    values = np.array(found.table["n"].to_pylist())
    assert found.error is not None
    assert (values < -found.error["n"]["bound95"]).any()
    assert set(np.flatnonzero(values <= 0)) <= set(useless(found, "n"))


def test_a_sum_that_may_be_negative_is_marked_by_its_bar_alone(held: sf.Table) -> None:
    assert useless(ask(held, "SELECT SUM(age - 90) AS s FROM t"), "s") == []


def test_a_mean_at_an_end_is_marked_only_where_noise_put_it_there(held: sf.Table) -> None:
    full = "SELECT AVG(CASE WHEN age < 100 THEN 100 ELSE 0 END) AS a FROM t"
    for _ in range(3):
        assert useless(ask(held, full, 5), "a") == []


def test_a_median_is_marked_by_its_rank_or_else_at_an_end(held: sf.Table) -> None:
    counted = "SELECT city, COUNT(*) AS n, MEDIAN(zero) AS m FROM t GROUP BY city"
    assert useless(ask(held, counted, 5), "m") == [2]
    assert useless(ask(held, "SELECT MEDIAN(zero) AS m, MIN(zero) AS l FROM t", 5), "m") == [0]
    assert useless(ask(held, "SELECT MIN(zero) AS l FROM t", 5), "l") == []


@pytest.mark.parametrize("function", ["MIN", "MAX", "MEDIAN"])
def test_a_value_at_a_rank_is_marked_in_groups_that_are_as_good_as_empty(
    held: sf.Table, function: str
) -> None:
    sql = f"SELECT city, COUNT(*) AS n, {function}(age) AS m FROM t GROUP BY city"
    assert useless(ask(held, sql, 5), "m") == [2]


def test_a_value_at_a_rank_without_a_count_says_that_groups_may_be_empty(held: sf.Table) -> None:
    for figures, told in (("MAX(age) AS m", True), ("MAX(age) AS m, COUNT(*) AS n", False)):
        found = ask(held, f"SELECT city, {figures} FROM t GROUP BY city")
        assert any("add COUNT(*)" in one for one in found.to_json()["notes"]) == told


def advice(answer: sf.Answer, column: str) -> str:
    (found,) = (one for one in answer.to_json()["notes"] if one.startswith(f"'{column}' is too"))
    return str(found)


@pytest.mark.parametrize("figure", ["COUNT(*)", "SUM(age)"])
def test_the_epsilon_that_is_told_gives_the_bar_that_is_told(held: sf.Table, figure: str) -> None:
    sql = f"SELECT age % 10 AS digit, {figure} AS n FROM t GROUP BY ROLLUP(digit)"
    found = ask(held, sql, "0.005")
    told = re.search("epsilon ([0-9.]+) for an error of a third of the largest", advice(found, "n"))
    assert told is not None
    assert found.error is not None
    marked = {row: abs(found.table["n"][row].as_py()) for row in useless(found, "n")}
    largest = max(marked, key=marked.__getitem__)
    better = ask(held, sql, told[1]).error
    assert better is not None
    bounds = np.broadcast_to(better["n"]["bound95"], found.table.num_rows)
    assert 0.9 < 3 * bounds[largest] / marked[largest] <= 1


@pytest.mark.parametrize("figure", ["AVG(age)", "AVG(age) / 2", "STDDEV(age)"])
def test_no_epsilon_is_told_for_figures_of_groups_that_may_be_empty(
    held: sf.Table, figure: str
) -> None:
    found = advice(ask(held, f"SELECT city, {figure} AS a FROM t GROUP BY city"), "a")
    assert "larger groups" in found
    assert "epsilon" not in found


def test_no_epsilon_makes_use_of_a_count_below_zero(held: sf.Table) -> None:
    sql = "SELECT city, COUNT(*) AS n FROM t WHERE age > 100 GROUP BY city"
    answers = [
        sf.protect(held, unit=sf.Rows(), epsilon=10).query(sql, epsilon=f"0.{place}")
        for place in range(1, 9)
    ]
    below = [one for one in answers if max(one.table["n"].to_pylist()) <= 0]
    assert below
    assert not any("epsilon" in advice(one, "n") for one in below)


def test_rows_of_a_level_say_which_keys_stand_for_all(held: sf.Table) -> None:
    found = ask(held, "SELECT city AS c, COUNT(*) AS n FROM t GROUP BY ROLLUP(city)")
    whole = found.provenance.parameters["all"]["c"]
    assert [found.table["c"][row].as_py() for row in whole] == [None]
    assert (
        "all" not in ask(held, "SELECT city, COUNT(*) FROM t GROUP BY city").provenance.parameters
    )


def test_what_is_asked_twice_is_told_alike(held: sf.Table) -> None:
    private = sf.protect(held, unit=sf.Rows(), epsilon=1)
    sql = "SELECT city, COUNT(*) / SUM(COUNT(*)) OVER () AS s FROM t GROUP BY city"
    first, again = (private.query(sql, epsilon="0.1").to_json() for _ in range(2))
    assert first["notes"] == again["notes"]
    assert first["error"] == again["error"]
