"""One person with legal but extreme cells: the same outcome, calls and claims as without them.

Each method is given, by turns, the physical types that a declared kind may be stored in; `slow` has
all of them, and every extreme row by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.fixtures.slices import few_fast
from tests.registry.cells import EXTREME_ROWS, SHARE, Cell, cells, extreme_pairs, within
from tests.registry.tables import LAYOUTS, Layout, Relation

if TYPE_CHECKING:
    from tests.registry.conftest import Check
    from tests.registry.tables import Pair

ADDED = [cell for cell in cells()
         if cell.price == cell.method.prices[0] and cell.method.family != "run"]  # fmt: skip
BY_PERSON = {cell.method.title: cell for cell in ADDED
             if cell.unit == cell.method.form.units[-1]
             and cell.relation is Relation.ADD_REMOVE}  # fmt: skip
TITLES = list(BY_PERSON)


def pairs_of(cell: Cell, layout: Layout) -> list[Pair]:
    """Of a person a pair with all columns extreme, and one with a single column, by turns."""
    pairs = extreme_pairs(cell, layout)
    if cell.unit == "row" or len(pairs) == 1:
        return pairs[:3]
    turn = TITLES.index(cell.method.title) + LAYOUTS.index(layout)
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
