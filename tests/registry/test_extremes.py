"""One person with legal but extreme cells: the same outcome, calls and claims as without them.

Each method is given, by turns, the physical types that a declared kind may be stored in; `slow` has
all of them, and every extreme row by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.registry.cells import EXTREME_ROWS, Cell, cells, extreme_pairs
from tests.registry.tables import LAYOUTS, Layout, Relation

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
    if not BY_PERSON[title].method.slow
    or title in ("publish auto 1", "synthesize independent open text", "synthesize paths")
]
"""Every method that is not slow, and a slow one of each family: about 60 seconds of one core."""
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


@pytest.mark.parametrize("title", BY_PERSON)
def test_extreme_cells_decide_nothing(title: str, check: Check) -> None:
    cell, turn = BY_PERSON[title], TITLES.index(title)
    turns = [LAYOUTS[0], LAYOUTS[1 + turn % (len(LAYOUTS) - 1)]]
    for layout in turns[1:] if cell.method.slow else turns:
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
