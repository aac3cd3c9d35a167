"""Distances of tables of counts against their definitions, and range queries."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from sqlglot import exp

from sfumato.attack.evaluation.coded_counts import Cells, Coding
from sfumato.attack.evaluation.measures import (
    ChanceFloor,
    ask,
    correlation,
    cramers_v,
    distance,
    propensity,
)


def cells(original: list[int], synthetic: list[int]) -> Cells:
    return Cells((np.arange(len(original)),), np.array(original), np.array(synthetic))


def test_total_variation_and_what_was_fabricated_and_lost() -> None:
    found = distance(cells([6, 3, 1, 0], [2, 2, 0, 1]), ChanceFloor(10, 5))
    assert found.tvd == pytest.approx((abs(0.6 - 0.4) + abs(0.3 - 0.4) + 0.1 + 0.2) / 2)
    assert found.fabricated == pytest.approx(0.2)
    assert found.lost == pytest.approx(0.1)
    assert found.unseen == pytest.approx(0.1)


@pytest.mark.parametrize(("rows", "drawn", "count"), [(10, 10, 3), (10, 7, 9), (5, 20, 1)])
def test_the_floor_is_the_mean_deviation_of_a_binomial(rows: int, drawn: int, count: int) -> None:
    share = count / rows
    mean = sum(
        comb(drawn, x) * share**x * (1 - share) ** (drawn - x) * abs(x - drawn * share)
        for x in range(drawn + 1)
    )
    assert ChanceFloor(rows, drawn).of(np.array([count])) == pytest.approx(mean / (2 * drawn))


def test_nothing_varies_in_a_cell_that_is_empty_or_holds_all() -> None:
    assert ChanceFloor(10, 10).of(np.array([0, 10])) == 0


def test_rows_drawn_from_the_original_have_propensity_one() -> None:
    draw = np.random.default_rng(5)
    original = draw.integers(20, 200, 300)
    drawn = [draw.multinomial(30_000, original / original.sum()) for _ in range(20)]
    found = [propensity(cells(original.tolist(), one.tolist())) for one in drawn]
    # The mean of 20 chi-squares of 299 degrees: its standard deviation is 0.018.
    assert np.mean(found) == pytest.approx(1, abs=0.1)
    shifted = np.roll(original, 1)
    assert propensity(cells(original.tolist(), shifted.tolist())) > 10


def test_one_value_that_differs_is_told_apart_without_a_division_by_nothing() -> None:
    assert propensity(cells([10, 0], [0, 10])) > 1
    assert propensity(cells([10], [10])) == 0


def test_associations_are_none_and_all() -> None:
    rows, columns = np.array([300, 100, 600]), np.array([50, 950])
    assert cramers_v(np.outer(rows, columns) // 1000) == pytest.approx(0, abs=0.02)
    assert cramers_v(np.diag([5, 70, 25])) == pytest.approx(1)
    assert cramers_v(np.array([[5, 6]])) == 0


def test_correlations_have_a_sign() -> None:
    assert correlation(np.diag([5, 5, 5])) == pytest.approx(1)
    assert correlation(np.diag([5, 5, 5])[::-1]) == pytest.approx(-1)
    assert correlation(np.array([[5, 6]])) is None


LABELS = tuple(map(str, range(10)))


COLUMN = Coding("x", exp.Null(), LABELS, ordered=True, declared=True, nullable=True)


CELLS = Cells((np.arange(12),), np.arange(12), np.arange(12)[::-1].copy())


@pytest.mark.parametrize("number", range(25))
def test_a_range_holds_both_of_its_ends_and_nothing_missing(number: int) -> None:
    found = ask(number, CELLS, [COLUMN])
    assert found is not None
    ends = [int(one) for one in found.words.removeprefix("x ").split(" … ")]
    inside = range(ends[0], ends[-1] + 1)
    assert found.original == pytest.approx(sum(inside) / 66)
    assert found.synthetic == pytest.approx(sum(11 - one for one in inside) / 66)


def test_questions_differ_and_a_column_without_values_has_none() -> None:
    asked = {one.words for number in range(25) if (one := ask(number, CELLS, [COLUMN]))}
    assert len(asked) > 15
    empty = Coding("x", exp.Null(), (), ordered=True, declared=True, nullable=True)
    assert ask(0, CELLS, [empty]) is None
