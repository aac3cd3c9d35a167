"""Quantiles: in order, near their ranks, and one row in one part at each depth.

Statistical tests are seeded; for a fresh seed each would fail with probability at most 1e-6.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fixtures.counts import frequencies, request_for, whole_numbers

from sfumato.data.counting.axes import Listed
from sfumato.data.schema.unit import Entity, Neighbours, Rows
from sfumato.errors import ParameterError
from sfumato.methods.publish.quantiles import (
    SLOTS_PER_POINT,
    Quantiles,
    SmoothQuantile,
    _RankRange,
    _spread,
    by_choices,
    prepare,
)
from sfumato.privacy.accounting.events import ApproxEvent, ExponentialChoice, PureEvent, Repeated
from sfumato.testing.entropy import SeededEntropy

FIVE = "0.1,0.25,0.5,0.75,0.9"


def chosen(made: Quantiles, counts: Any, seed: int = 1) -> list[int]:
    table = np.asarray(counts, dtype=np.int64)
    codes = made.choose(np.arange(len(table)), table, SeededEntropy(seed))
    return [int(code) for code in codes]


def rank_errors(counts: Any, codes: list[int], ranks: tuple[Fraction, ...]) -> list[float]:
    """How many rows each answer's rank is away from the wanted one."""
    up_to = np.cumsum(counts)
    below = up_to - counts
    wanted = [float(rank) * up_to[-1] for rank in ranks]
    return [
        max(0.0, below[code] - rank, rank - up_to[code])
        for code, rank in zip(codes, wanted, strict=True)
    ]


@pytest.mark.parametrize(
    "counts",
    [
        np.full(200, 50),
        np.eye(200, dtype=np.int64)[60] * 20_000,
        np.eye(200, dtype=np.int64)[60] * 20_000 + 1,
        np.where(np.arange(200) % 7 == 0, 900, 0),
        np.arange(200) ** 2,
    ],
    ids=["even", "one value", "nearly one value", "combs", "growing"],
)
def test_ranks_are_met_within_the_stated_error(counts: Any) -> None:
    """The bound for 5e-9 a choice, from the stated one: 50 answers of at most 3 choices, 7.5e-7."""
    made = by_choices(request_for(whole_numbers(200), epsilon=2), ranks=FIVE)
    size = 200 * SLOTS_PER_POINT
    rarer = math.log(size / 5e-9) / math.log(size / 0.05)
    ties = (made.depths - 1) / SLOTS_PER_POINT * counts.max()
    stated = [made.error["quantiles"][str(rank)]["rank_bound95"] for rank in made.ranks]
    assert max(stated) < counts.sum() / 50
    for seed in range(10):
        codes = chosen(made, counts, seed)
        assert codes == sorted(codes)
        errors = rank_errors(counts, codes, made.ranks)
        assert all(
            error <= rarer * bound + ties for error, bound in zip(errors, stated, strict=True)
        )


def test_a_value_of_many_rows_is_every_quantile_inside_it() -> None:
    """Parts that cannot split one value's rows would send the upper quantiles astray."""
    made = by_choices(request_for(whole_numbers(1000), epsilon=1), ranks=FIVE)
    counts = np.zeros(1000)
    counts[300] = 100_000
    assert all(chosen(made, counts, seed) == [300] * 5 for seed in range(5))


@given(st.lists(st.integers(0, 700), min_size=1, max_size=5), st.integers(0, 4))
def test_one_more_row_takes_one_place_and_moves_no_other(counts: list[int], more: int) -> None:
    rows = np.array(counts)
    grown = rows.copy()
    grown[more % len(rows)] += 1
    first, second = (
        dict(zip(*(part.tolist() for part in _spread(np.arange(len(one)), one, 16)), strict=True))
        for one in (rows, grown)
    )
    changes = {place: second.get(place, 0) - first.get(place, 0) for place in {*first, *second}}
    assert sorted(changes.values())[-1:] == [1]
    assert sum(abs(change) for change in changes.values()) == 1


@given(st.integers(0, 3000))
def test_rows_of_a_value_are_spread_evenly(count: int) -> None:
    places, rows = _spread(np.array([5]), np.array([count]), 256)
    assert rows.sum() == count
    assert (np.diff(places) > 0).all()
    assert not len(places) or (places[0] >= 5 * 256 and places[-1] < 6 * 256)
    for half in range(1, 8):
        # Any dyadic stretch has its share of the rows, up to one.
        inside = rows[(places - 5 * 256) < 256 >> half].sum()
        assert abs(inside - count / 2**half) <= 1


@pytest.mark.parametrize("number", [1, 2, 3, 7, 8, 100])
def test_parts_of_one_depth_are_disjoint_and_ask_for_each_rank_once(number: int) -> None:
    parts = list(_RankRange(0, number, 0).walk())
    assert sorted(part.middle for part in parts) == list(range(number))
    depths = 1 + max(part.depth for part in parts)
    assert depths == number.bit_length()
    for depth in range(depths):
        places = [p for part in parts if part.depth == depth for p in range(part.first, part.stop)]
        assert len(places) == len(set(places))


def test_every_depth_is_paid_for() -> None:
    one = by_choices(request_for(whole_numbers(10), epsilon=1), ranks="0.5")
    assert one.event == Repeated(ExponentialChoice(epsilon=Fraction(1)), 1)
    assert one.ties == 1
    three = by_choices(request_for(whole_numbers(10), epsilon=1))
    assert three.event == Repeated(ExponentialChoice(epsilon=Fraction(1, 2)), 2)
    rho = by_choices(request_for(whole_numbers(10), rho="1/8"), ranks="0.5")
    assert rho.event == Repeated(ExponentialChoice(epsilon=Fraction(1)), 1)
    both = by_choices(request_for(whole_numbers(10), epsilon=1, delta="1/10"), ranks=[0.5])
    assert both.epsilon >= 1


def test_a_replaced_row_is_two_changes_below_the_first_depth() -> None:
    replaced = Rows(relation=Neighbours.REPLACE_ONE)
    person = Entity("who", max_rows=3, relation=Neighbours.REPLACE_ONE)
    for unit, rows in ((replaced, 1), (person, 3)):
        made = by_choices(request_for(whole_numbers(10), unit=unit, epsilon=1), ranks="0.2,0.5,0.9")
        top, low, high = (made._mechanism(part, 10) for part in _RankRange(0, 3, 0).walk())
        assert top.epsilon == made.epsilon
        assert top.sensitivity == rows
        # 0.2 of 0.5 is the rank 0.4; 0.9 is the rank 0.8 between 0.5 and 1.
        assert (low.rank, low.epsilon) == (Fraction(2, 5), made.epsilon / 2)
        assert low.sensitivity == Fraction(3, 5) * rows
        assert (high.rank, high.epsilon) == (Fraction(4, 5), made.epsilon / 2)
        # A row that leaves one part and one that enters another cost the depth's epsilon together.
        assert 2 * low.epsilon == made.epsilon


def test_release_has_ranks_and_values_and_leaves_missing_ones_out() -> None:
    axes = whole_numbers(100, nullable=True)
    made = by_choices(request_for(axes, epsilon=10))
    counts = [0] * 100 + [10**6]
    counts[40:60] = [1000] * 20
    table = made.release(frequencies(axes, counts), SeededEntropy(3))["quantiles"]
    assert table.column_names == ["rank", "a"]
    assert table["rank"].to_pylist() == [0.25, 0.5, 0.75]
    assert table["a"].to_pylist() == pytest.approx([44, 49, 54], abs=1)
    words = (Listed("size", pa.array(["S", "M", "L", None]), declared=True),)
    few = by_choices(request_for(words, epsilon=10), ranks=["0.5"])
    assert few.release(frequencies(words, [5, 100, 5, 9]), SeededEntropy(1))["quantiles"][
        "size"
    ].to_pylist() == ["M"]


def test_an_empty_table_gives_points_in_order_and_tells_nothing() -> None:
    made = by_choices(request_for(whole_numbers(50)), ranks=FIVE)
    found = [chosen(made, np.zeros(50), seed) for seed in range(50)]
    assert all(codes == sorted(codes) for codes in found)
    assert len({tuple(codes) for codes in found}) > 40


def test_ends_are_possible_and_ranks_are_sorted() -> None:
    made = by_choices(request_for(whole_numbers(50), epsilon=10), ranks=[1, 0, 0.5, 0.5])
    assert made.parameters == {"ranks": ["0", "1/2", "1"]}
    low, middle, high = chosen(made, [0] * 20 + [500] * 10 + [0] * 20)
    assert low <= 20
    assert 24 <= middle <= 25
    assert high >= 29


@pytest.mark.parametrize(
    ("ranks", "code"),
    [
        ([], "parameter_type_wrong"),
        (0.5, "parameter_type_wrong"),
        ([0.5] * 1001, "parameter_type_wrong"),
        ("0.5,1.5", "parameter_out_of_range"),
        ([-0.1], "parameter_out_of_range"),
        (["1/3"], "parameter_out_of_range"),
        ("a,b", "parameter_type_wrong"),
    ],
)
def test_other_ranks_are_refused(ranks: object, code: str) -> None:
    with pytest.raises(ParameterError) as refused:
        prepare(request_for(whole_numbers(10)), ranks=ranks)
    assert refused.value.code == code


def test_huge_domains_have_fewer_places() -> None:
    made = by_choices(request_for(whole_numbers(1 << 58), epsilon=10))
    assert made.ties == 8
    codes = np.array([1 << 57, (1 << 57) + 1])
    found = made.choose(codes, np.array([10_000, 10_000]), SeededEntropy(1))
    assert found.tolist()[0] == 1 << 57
    assert found.tolist()[2] == (1 << 57) + 1


def test_several_columns_are_refused() -> None:
    with pytest.raises(ParameterError, match="takes one ordered column, not 2"):
        prepare(request_for(whole_numbers(5, 5)))


def smooth(unit: Any = None, **given: Any) -> SmoothQuantile:
    made = prepare(
        request_for(whole_numbers(100, nullable=True), unit=unit or Rows(), epsilon=5),
        mechanism="smooth",
        **given,
    )
    assert isinstance(made, SmoothQuantile)
    return made


def test_a_smooth_median_is_near_where_rows_crowd() -> None:
    counts = np.zeros(101, dtype=np.int64)
    counts[[20, 49, 50, 51, 80, 100]] = 100, 400, 500, 400, 100, 77
    for rows in (1400, 1500, 1600):
        made = smooth(rows=rows)
        table = made.release(frequencies(made.request.axes, counts), SeededEntropy(3))["quantiles"]
        assert table["rank"].to_pylist() == [0.5]
        assert abs(table["a"][0].as_py() - 50) <= 1


@given(
    st.lists(st.integers(0, 100), max_size=12), st.integers(0, 100), st.integers(1, 9), st.data()
)
def test_one_row_more_changes_one_value_of_the_public_table(
    codes: list[int], more: int, rows: int, data: st.DataObject
) -> None:
    made = smooth(rows=rows)

    def table(values: list[int]) -> Counter[int]:
        found, counts = np.unique(np.array(values, dtype=np.int64), return_counts=True)
        points = made.table(found, counts)
        assert len(points) == rows
        assert (np.diff(points) >= 0).all()
        return Counter(points.tolist())

    before = table(codes)
    assert (before - table([*codes, more])).total() <= 1
    if codes:
        place = data.draw(st.integers(0, len(codes) - 1))
        assert (before - table([*codes[:place], more, *codes[place + 1 :]])).total() <= 1


@pytest.mark.parametrize(
    ("unit", "given", "code"),
    [
        (Rows(), {"mechanism": "smooth"}, "parameter_missing"),
        (Rows(), {"mechanism": "smooth", "rows": 0}, "parameter_out_of_range"),
        (Rows(), {"mechanism": "smooth", "rows": 9, "ranks": "0.25"}, "option_not_applicable"),
        (Rows(), {"mechanism": "rough"}, "option_not_applicable"),
        (Rows(), {"rows": 9}, "option_not_applicable"),
        (Entity("who", max_rows=2), {"mechanism": "smooth", "rows": 9}, "unit_unsupported"),
    ],
)
def test_wrong_options_of_a_mechanism_are_refused(
    unit: Any, given: dict[str, Any], code: str
) -> None:
    with pytest.raises(ParameterError) as raised:
        prepare(request_for(whole_numbers(4), unit=unit), **given)
    assert raised.value.code == code


def test_a_smooth_median_costs_what_is_paid() -> None:
    axes = whole_numbers(4)
    pure = prepare(request_for(axes, epsilon=1), mechanism="smooth", rows=9)
    assert pure.event == PureEvent(epsilon=Fraction(1))
    both = prepare(request_for(axes, epsilon=1, delta="0.01"), mechanism="smooth", rows=9)
    assert both.event == ApproxEvent(epsilon=Fraction(1), delta=Fraction(1, 100))
    replaced = Rows(relation=Neighbours.REPLACE_ONE)
    made = prepare(request_for(axes, rho="1/2", unit=replaced), mechanism="smooth", rows=9)
    assert made.event == PureEvent(epsilon=Fraction(1))
