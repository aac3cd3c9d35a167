"""Searches of tables that do not fit in memory, against enumeration of the same tables that do."""

from __future__ import annotations

import os
from contextlib import closing
from datetime import date, timedelta
from math import inf
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.anonymize.cost import named
from sfumato.anonymize.lattice.floor import finest_fitting
from sfumato.anonymize.outcome import Generalization
from sfumato.anonymize.search import run
from sfumato.anonymize.search.full_domain import walk
from sfumato.counting.room import SETTING
from sfumato.errors import CriterionError, SourceError
from sfumato.schema.column import Column, Kind, Role
from sfumato.schema.hierarchy.rules import Calendar, Mask, Step, Widths
from sfumato.schema.schema import Schema
from sfumato.steward.problem import pose
from sfumato.steward.table import read

if TYPE_CHECKING:
    from sfumato.anonymize.criteria import Criterion
    from sfumato.anonymize.problem import Problem
    from sfumato.steward.table import Table

COLUMNS = (
    Column("age", Kind.INTEGER, Role.QUASI, hierarchy=Widths((5, 20))),
    Column("zip", Kind.TEXT, Role.QUASI, hierarchy=Mask()),
    Column("born", Kind.DATE, Role.QUASI, hierarchy=Calendar((Step.MONTH, Step.YEAR))),
    Column("ill", Kind.TEXT, Role.SENSITIVE),
)
COSTS = ("loss", "precision", "entropy", "discernability", "average-class-size", "c-avg")

rows = st.lists(
    st.tuples(
        st.none() | st.integers(-7, 30),
        st.none() | st.sampled_from(["111", "112", "12", "2", "219", "311"]),
        st.integers(0, 900).map(lambda days: date(2020, 1, 1) + timedelta(days=days)),
        st.sampled_from("abc"),
    ),
    min_size=10,
    max_size=40,
)


def posed(
    table: Table, criteria: list[Criterion], suppress: str, cells: int, per_value: int = 1
) -> Problem:
    """The problem where memory is for so many cells, a value taking that of so many."""
    with (
        patch.dict(os.environ, {SETTING: str(cells)}),
        patch("sfumato.counting.room.CELLS_PER_VALUE", per_value),
    ):
        return pose(table, criteria, suppress=suppress)[0]


def opened(people: list[tuple[Any, ...]]) -> Table:
    kinds = [pa.int64(), pa.string(), pa.date32(), pa.string()]
    arrays = [
        pa.array(list(one), kind)
        for one, kind in zip(zip(*people, strict=True), kinds, strict=True)
    ]
    names = [column.name for column in COLUMNS]
    return read(pa.Table.from_arrays(arrays, names=names), Schema("people", COLUMNS))


@settings(max_examples=15, deadline=None)
@given(
    people=rows,
    cells=st.integers(30, 120),
    per_value=st.sampled_from([1, 4, 8]),
    k=st.integers(2, 4),
    diverse=st.sampled_from(["", "distinct", "entropy"]),
    suppress=st.sampled_from(["0", "0.2", "0.5"]),
    cost=st.sampled_from(COSTS),
)
def test_the_bound_is_below_the_optimum_and_the_cost_is_the_best_above_the_floor(
    people: list[tuple[Any, ...]],
    cells: int,
    per_value: int,
    k: int,
    diverse: str,
    suppress: str,
    cost: str,
) -> None:
    criteria: list[Criterion] = [sf.KAnonymity(k)]
    if diverse:
        kind: Any = {"distinct": sf.DistinctDiversity, "entropy": sf.EntropyDiversity}[diverse]
        criteria.append(kind(2, "ill"))
    with closing(opened(people)) as table:
        whole = posed(table, criteria, suppress, 10**7)
        try:
            rolled = posed(table, criteria, suppress, cells, per_value)
        except SourceError:
            assume(False)  # not even the roots fit, or no rule unites a column
    assert whole.floor is None
    assume(rolled.floor is not None)
    priced = named(cost)
    nodes = {one.levels: priced.value(one) for one in walk(whole) if one.admissible}
    above = {
        levels: value
        for levels, value in nodes.items()
        if all(one >= least for one, least in zip(levels, rolled.bottom, strict=True))
    }
    for one in walk(rolled):
        assert one.admissible == (one.levels in nodes)
        if one.admissible:
            assert priced.value(one) == pytest.approx(nodes[one.levels], rel=1e-9)
    try:
        found = run(rolled, "optimal", cost=cost)
    except CriterionError:
        assert not above
        return
    assert isinstance(found, Generalization)
    best = min(nodes.values(), default=inf)
    value = found.cost[cost.replace("-", "_")]
    assert value == pytest.approx(min(above.values()), rel=1e-9)
    assert found.bound is not None
    assert found.bound <= best * (1 + 1e-9) + 1e-9
    if found.optimal:
        assert value == pytest.approx(best, rel=1e-9, abs=1e-9)


@given(
    sizes=st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=3), min_size=1, max_size=4),
    most=st.integers(1, 2000),
)
def test_no_column_of_the_finest_levels_that_fit_can_be_lowered(
    sizes: list[list[int]], most: int
) -> None:
    labels = [[*sorted(one, reverse=True), 1] for one in sizes]

    def fits(levels: tuple[int, ...]) -> bool:
        product = 1
        for one, level in zip(labels, levels, strict=True):
            product *= one[level]
        return product <= most

    found = finest_fitting(fits, labels, (0,) * len(labels))
    assert found is not None
    assert fits(found)
    for place, level in enumerate(found):
        finer = (*found[:place], level - 1, *found[place + 1 :])
        assert level == 0 or not fits(finer)
