"""The same pairs from PostgreSQL and Spark: a slice of every family, all of them in `slow`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.registry.cells import Cell, cells, pairs
from tests.registry.tables import Relation

if TYPE_CHECKING:
    from tests.registry.conftest import Check
    from tests.registry.engines import TestedEngine

SLICE = ("query COUNT", "publish histogram", "publish items", "publish visits",
         "publish triangles", "learn linear", "synthesize independent", "synthesize graph",
         "synthesize paths one-level", "stream w-event", "above")  # fmt: skip
ALL = [cell for cell in cells()
       if cell.method.family != "run" and cell.price == cell.method.prices[0]
       and cell.unit == cell.method.form.units[-1]]  # fmt: skip
FEW = [cell for cell in ALL
       if cell.method.title in SLICE and cell.relation is Relation.ADD_REMOVE]  # fmt: skip


@pytest.mark.parametrize("cell", FEW, ids=lambda cell: cell.title)
def test_neighbours_are_hidden_by_postgres(
    cell: Cell, check: Check, on_postgres: TestedEngine
) -> None:
    check(cell, lambda: pairs(cell)[:1], what="coupled", engine=on_postgres)


@pytest.mark.parametrize("cell", FEW[:3], ids=lambda cell: cell.title)
def test_neighbours_are_hidden_by_spark(cell: Cell, check: Check, on_spark: TestedEngine) -> None:
    check(cell, lambda: pairs(cell)[:1], what="coupled", engine=on_spark)


@pytest.mark.slow
@pytest.mark.parametrize("cell", ALL, ids=lambda cell: cell.title)
def test_neighbours_are_hidden_by_postgres_in_all(
    cell: Cell, check: Check, on_postgres: TestedEngine
) -> None:
    check(cell, lambda: pairs(cell), what="coupled", engine=on_postgres)


@pytest.mark.slow
@pytest.mark.parametrize("cell", ALL, ids=lambda cell: cell.title)
def test_neighbours_are_hidden_by_spark_in_all(
    cell: Cell, check: Check, on_spark: TestedEngine
) -> None:
    check(cell, lambda: pairs(cell), what="coupled", engine=on_spark)
