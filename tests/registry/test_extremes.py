"""One person with legal but extreme cells: the same outcome, calls and claims as without them.

Each method is given, by turns, the physical types that a declared kind may be stored in; `slow` has
all of them, and every extreme row by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.fixtures.slices import few_fast
from tests.registry.cells import (
    EXTREME_ROWS,
    SHARE,
    Cell,
    cells,
    extreme_pairs,
    run_pair,
    within,
)
from tests.registry.engines import DUCKDB
from tests.registry.forms import PERIODS
from tests.registry.tables import LAYOUTS, Layout, Relation, extremes, physical

import sfumato as sf
from sfumato.data.engines.base import everything
from sfumato.errors import SfumatoError

if TYPE_CHECKING:
    from tests.registry.conftest import Check
    from tests.registry.engines import TestedEngine
    from tests.registry.tables import Pair

ADDED = [cell for cell in cells()
         if cell.price == cell.method.prices[0] and cell.method.family != "run"]  # fmt: skip
BY_PERSON = {cell.method.title: cell for cell in ADDED
             if cell.unit == cell.method.form.units[-1]
             and cell.relation is Relation.ADD_REMOVE}  # fmt: skip
TITLES, NAMES = list(BY_PERSON), [layout.name for layout in LAYOUTS]


SERVER_LAYOUTS = [
    layout for layout in LAYOUTS if layout.name in ("plain", "double", "decimal", "small", "digits")
]
"""Layouts that differ in what servers hold of them."""
FAST_ON_POSTGRES = [
    title
    for title in TITLES
    if not (BY_PERSON[title].method.slow or BY_PERSON[title].method.family == "stream")
    or title
    in (
        "publish auto 1",
        "synthesize independent open text",
        "synthesize paths",
        "stream tree",
        "stream w-event",
        "stream top",
        "stream auto window",
    )
]
"""Of every family all that is quick, of the others some: about 60 seconds of one core."""
PROGRAMS = [cell for cell in cells()
            if cell.method.family == "run" and cell.unit == "person"
            and cell.relation is Relation.ADD_REMOVE]  # fmt: skip
ON_SPARK = ("query COUNT 2", "publish histogram 1", "learn linear",
            "synthesize independent open text", "synthesize graph", "synthesize paths",
            "stream tree", "above")  # fmt: skip


def pairs_of(cell: Cell, layout: Layout) -> list[Pair]:
    """Of a person a pair with all columns extreme, and one with a single column, by turns."""
    pairs = extreme_pairs(cell, layout)
    if cell.unit == "row" or len(pairs) == 1:
        return pairs[:3]
    turn = TITLES.index(cell.method.title) + NAMES.index(layout.name)
    return [pairs[0], pairs[1 + turn % (len(pairs) - 1)]]


def rows_of(cell: Cell) -> int | None:
    """How many rows of a person count, so that every extreme row does."""
    return EXTREME_ROWS if cell.unit == "person" else None


@pytest.mark.parametrize("title", few_fast(BY_PERSON, 65))
def test_extreme_cells_decide_nothing(title: str, check: Check) -> None:
    cell, turn = BY_PERSON[title], TITLES.index(title)
    turns = [LAYOUTS[0], LAYOUTS[1 + turn % (len(LAYOUTS) - 1)]]
    turns = turns[1:] if cell.method.slow else turns[:: (-1) ** turn]
    for layout in within(SHARE, turns):
        check(cell, lambda layout=layout: pairs_of(cell, layout),
              what=layout.name, layout=layout, rows=rows_of(cell))  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
@pytest.mark.parametrize("cell", ADDED, ids=lambda cell: cell.title)
def test_no_extreme_cell_decides_anything(cell: Cell, layout: Layout, check: Check) -> None:
    chosen = extreme_pairs if cell.unit == "row" else pairs_of
    check(cell, lambda: chosen(cell, layout),
          what=layout.name, layout=layout, rows=rows_of(cell))  # fmt: skip


def check_on(engine: TestedEngine, cell: Cell, layout: Layout, check: Check) -> None:
    """Check a cell on an engine with what it holds of a layout."""
    held = engine.held(layout)
    check(cell, lambda: pairs_of(cell, held),
          what=layout.name, layout=layout, rows=rows_of(cell), engine=engine)  # fmt: skip


@pytest.mark.parametrize("title", FAST_ON_POSTGRES)
def test_extreme_cells_decide_nothing_on_postgres(
    title: str, check: Check, on_postgres: TestedEngine
) -> None:
    turn = FAST_ON_POSTGRES.index(title)
    layout = SERVER_LAYOUTS[turn % len(SERVER_LAYOUTS)]
    check_on(on_postgres, BY_PERSON[title], layout, check)


@pytest.mark.slow
@pytest.mark.parametrize("layout", SERVER_LAYOUTS, ids=lambda layout: layout.name)
@pytest.mark.parametrize("title", BY_PERSON)
def test_no_extreme_cell_decides_anything_on_postgres(
    title: str, layout: Layout, check: Check, on_postgres: TestedEngine
) -> None:
    check_on(on_postgres, BY_PERSON[title], layout, check)


@pytest.mark.slow
@pytest.mark.parametrize("layout", SERVER_LAYOUTS, ids=lambda layout: layout.name)
@pytest.mark.parametrize("title", ON_SPARK)
def test_extreme_cells_decide_nothing_on_spark(
    title: str, layout: Layout, check: Check, on_spark: TestedEngine
) -> None:
    check_on(on_spark, BY_PERSON[title], layout, check)


def check_program(engine: TestedEngine, cell: Cell, check: Check) -> None:
    """Check a program on a person of whom all columns are extreme."""
    layout = engine.held(LAYOUTS[0])
    check(cell, lambda: extreme_pairs(cell, layout)[:1],
          what=layout.name, layout=layout, rows=rows_of(cell), engine=engine)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("cell", PROGRAMS, ids=lambda cell: cell.method.title)
def test_no_extreme_cell_decides_about_programs(cell: Cell, check: Check) -> None:
    check_program(DUCKDB, cell, check)


@pytest.mark.slow
def test_no_extreme_cell_decides_about_programs_on_postgres(
    check: Check, on_postgres: TestedEngine
) -> None:
    check_program(on_postgres, PROGRAMS[0], check)


@pytest.mark.slow
def test_no_extreme_cell_decides_about_programs_on_spark(
    check: Check, on_spark: TestedEngine
) -> None:
    check_program(on_spark, PROGRAMS[0], check)


STREAMS = [title for title in TITLES if title.startswith("stream ")]


@pytest.mark.parametrize("title", STREAMS)
def test_extreme_cells_are_in_one_step_of_a_stream_and_not_in_others(title: str) -> None:
    cell = BY_PERSON[title]
    every_column, one_column, *_ = extreme_pairs(cell, LAYOUTS[0])
    for pair in (every_column, one_column):
        came = [
            [
                side["people"].filter(pc.equal(side["people"]["period"], period)).num_rows
                for period in range(PERIODS)
            ]
            for side in (pair.first, pair.second)
        ]
        assert sum(fewer != more for fewer, more in zip(*came, strict=True)) == 1
        coupled = run_pair(cell, pair, rows=EXTREME_ROWS)
        assert coupled.findings == ()
        assert coupled.calls >= PERIODS
    # Of rows whose cells are all extreme no cell of a stream is one; with one such column each is.
    assert coupled.loss_share > 0


def test_an_edge_between_extreme_nodes_counts() -> None:
    cell = BY_PERSON["publish degrees"]
    losses = [run_pair(cell, pair).loss_share for pair in extreme_pairs(cell, LAYOUTS[0])]
    assert min(losses) == 0  # the node of one end is missing
    assert max(losses) > 0


def test_all_extreme_edges_of_a_node_are_its_own() -> None:
    cell = BY_PERSON["publish node-degrees edges of people"]
    first, *_ = extreme_pairs(cell, LAYOUTS[0])
    came = first.second["friends"].num_rows - first.first["friends"].num_rows
    assert came > 1
    assert set(first.second["friends"]["a"].to_pylist()[-came:]) == {900}
    assert run_pair(cell, first).loss_share > 0


def check_gaps(engine: TestedEngine) -> None:
    """What an engine is said not to hold it refuses, or gives back as something else."""
    gaps = {
        (kind, data_type)
        for layout in LAYOUTS
        for kind, data_type in layout.by_kind.items()
        if kind not in engine.held(layout).by_kind
    }
    assert gaps
    for kind, data_type in gaps:
        given = pa.table({"x": physical(extremes(kind, data_type), data_type)})
        schema = sf.Schema("t", (sf.Column("x", kind),))
        try:
            table = engine.open(given, schema)
        except SfumatoError:
            continue
        try:
            read = table.engine.run(everything(table.engine.table))
        finally:
            table.close()
        assert read["x"].to_pylist() != given["x"].to_pylist(), (kind, data_type)


def test_what_postgres_is_said_not_to_hold_it_does_not_hold(on_postgres: TestedEngine) -> None:
    check_gaps(on_postgres)


@pytest.mark.slow
def test_what_spark_is_said_not_to_hold_it_does_not_hold(on_spark: TestedEngine) -> None:
    check_gaps(on_spark)
