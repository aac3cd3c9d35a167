"""Searches of tables that do not fit in memory, against enumeration of the same tables that do."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.fixtures.slices import few_fast

import sfumato as sf
from sfumato.anonymize.cost import COSTS, named
from sfumato.anonymize.lattice import finest_fitting
from sfumato.anonymize.outcome import Generalization
from sfumato.anonymize.problem import pose
from sfumato.anonymize.search import SEARCHES, run
from sfumato.anonymize.search.full_domain import walk
from sfumato.data.counting.memory_limit import SETTING
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.hierarchy import Calendar, Mask, Step, Widths
from sfumato.data.schema.schema import Schema
from sfumato.errors import CriterionError, SourceError
from sfumato.release.open_table import read

if TYPE_CHECKING:
    from sfumato.anonymize.criteria import Criterion
    from sfumato.anonymize.problem import Problem
    from sfumato.release.open_table import Table

COLUMNS = (
    Column("age", Kind.INTEGER, Role.QUASI, hierarchy=Widths((5, 20))),
    Column("zip", Kind.TEXT, Role.QUASI, hierarchy=Mask()),
    Column("born", Kind.DATE, Role.QUASI, hierarchy=Calendar((Step.MONTH, Step.YEAR))),
    Column("ill", Kind.TEXT, Role.SENSITIVE),
    Column("who", Kind.INTEGER, Role.IDENTIFIER, nullable=False),
)
DIVERSE: dict[str, Any] = {
    "distinct": sf.DistinctDiversity(2, "ill"),
    "entropy": sf.EntropyDiversity(2, "ill"),
    "recursive": sf.RecursiveDiversity(2, "ill", c=2),
    "t": sf.TCloseness("0.4", "ill"),
    "beta": sf.BetaLikeness("1.2", "ill"),
}
UNHURRIED = [HealthCheck.filter_too_much, HealthCheck.too_slow]
FULL_DOMAIN = ["optimal", "incognito", "samarati", "sweeney", "datafly"]

rows = st.lists(
    st.tuples(
        st.none() | st.integers(-7, 30),
        st.none() | st.sampled_from(["111", "112", "12", "2", "219", "311"]),
        st.integers(0, 900).map(lambda days: date(2020, 1, 1) + timedelta(days=days)),
        st.sampled_from("abc"),
        st.integers(0, 12),
    ),
    min_size=10,
    max_size=30,
)


def opened(people: list[tuple[Any, ...]], unit: sf.Entity | sf.Rows) -> Table:
    kinds = [pa.int64(), pa.string(), pa.date32(), pa.string(), pa.int64()]
    arrays = [
        pa.array(list(one), kind)
        for one, kind in zip(zip(*people, strict=True), kinds, strict=True)
    ]
    names = [column.name for column in COLUMNS]
    return read(pa.Table.from_arrays(arrays, names=names), Schema("people", COLUMNS, unit))


@dataclass(frozen=True)
class Case:
    """A table that fits and the same under a low limit; its admissible nodes, and their cost."""

    whole: Problem
    rolled: Problem
    cost: str

    @property
    def nodes(self) -> dict[tuple[int, ...], float]:
        priced = named(self.cost)
        return {one.levels: priced.value(one) for one in walk(self.whole) if one.admissible}

    def above(self, nodes: dict[tuple[int, ...], float]) -> dict[tuple[int, ...], float]:
        """Those that are not below the floor."""
        low = self.rolled.bottom
        return {
            levels: value
            for levels, value in nodes.items()
            if all(one >= least for one, least in zip(levels, low, strict=True))
        }


@st.composite
def cases(draw: st.DrawFn, what: str = "rows") -> Case:
    """Memory is for so many cells, a value taking that of so many."""
    k = draw(st.integers(2, 4))
    criteria: list[Criterion] = [sf.KMap(k) if what == "population" else sf.KAnonymity(k)]
    diverse = draw(st.sampled_from(["", *DIVERSE]))
    criteria += [DIVERSE[diverse]] if diverse else []
    suppress = draw(st.sampled_from(["0", "0.2", "0.5"]))
    cells = {"rows": (30, 160), "people": (30, 400), "population": (70, 110)}[what]
    limits = {SETTING: str(draw(st.integers(*cells)))}
    # Beside a population no column is united, so all their values must fit.
    per_value = 1 if what == "population" else draw(st.sampled_from([1, 4, 8]))
    people = draw(rows)
    assume(what != "people" or len({one[-1] for one in people}) >= k)
    unit: sf.Entity | sf.Rows = sf.Entity("who", max_rows=40) if what == "people" else sf.Rows()
    with ExitStack() as stack:
        table = stack.enter_context(closing(opened(people, unit)))
        population = None
        if what == "population":
            more = people + draw(rows)
            population = stack.enter_context(closing(opened(more, sf.Rows())))
        pose_it = partial(pose, table, criteria, suppress=suppress, population=population)
        whole = pose_it()[0]
        stack.enter_context(patch.dict(os.environ, limits))
        stack.enter_context(patch("sfumato.data.counting.memory_limit.CELLS_PER_VALUE", per_value))
        try:
            rolled = pose_it()[0]
        except SourceError as error:
            assert SETTING in error.message  # noqa: PT017  # it says what would do
            assume(False)  # not even the roots fit, or no rule unites a column
    assert whole.floor is None
    assume(rolled.floor is not None)
    return Case(whole, rolled, draw(st.sampled_from([*COSTS])))


@pytest.mark.parametrize("what", few_fast(["rows", "people", "population"], 1))
@settings(max_examples=4, deadline=None, suppress_health_check=UNHURRIED)
@given(data=st.data())
def test_nodes_above_the_floor_are_as_they_are_in_memory(what: str, data: st.DataObject) -> None:
    case = data.draw(cases(what))
    nodes, priced = case.nodes, named(case.cost)
    for one in walk(case.rolled):
        assert one.admissible == (one.levels in nodes)
        if one.admissible:
            assert priced.value(one) == pytest.approx(nodes[one.levels], rel=1e-9)


@pytest.mark.parametrize("algorithm", few_fast(FULL_DOMAIN, 2))
@settings(max_examples=4, deadline=None, suppress_health_check=UNHURRIED)
@given(case=cases())
def test_the_bound_is_below_the_optimum_which_is_below_what_was_found(
    algorithm: str, case: Case
) -> None:
    takes = "cost" in SEARCHES[algorithm].takes and algorithm != "sweeney"  # it has one alone
    asked = case.cost if takes else None
    nodes = case.nodes
    above = case.above(nodes)
    try:
        found = run(case.rolled, algorithm, cost=asked)
    except CriterionError:
        assert not above
        return
    assert isinstance(found, Generalization)
    value = found.cost[case.cost.replace("-", "_")]
    assert value == pytest.approx(above[found.node.levels], rel=1e-9)
    if algorithm == "optimal":
        assert value == pytest.approx(min(above.values()), rel=1e-9)
    if algorithm == "samarati":
        assert sum(found.node.levels) == min(map(sum, above))
    minimised = replace(case, cost=found.minimised or case.cost)
    best = min(minimised.nodes.values())
    reached = found.cost[minimised.cost.replace("-", "_")]
    assert best <= reached * (1 + 1e-9) + 1e-9
    assert found.bound is not None or algorithm != "optimal"
    if found.bound is not None:
        assert found.bound <= best * (1 + 1e-9) + 1e-9
    if found.optimal:
        assert reached == pytest.approx(best, rel=1e-9, abs=1e-9)


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
