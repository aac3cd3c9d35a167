"""Neighbours through every registered method: same calls, inputs within claims, loss paid for.

The fast set has every method, under as many units and relations as its share of time allows, by
turns and at one price each; `slow` has every unit, relation and price, both directions and two
seeds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.registry.cells import SHARE, Cell, cells, pairs, within
from tests.registry.methods import METHODS

if TYPE_CHECKING:
    from tests.registry.conftest import Check

CELLS = list(cells())
_BY_METHOD = {method.title: [cell for cell in CELLS if cell.method is method] for method in METHODS}


def fast(title: str) -> list[Cell]:
    """Of a method every unit and relation at one price, by turns; of a slow one a single cell."""
    own = _BY_METHOD[title]
    turn = list(_BY_METHOD).index(title)
    prices = own[0].method.prices
    chosen = [cell for cell in own if cell.price == prices[turn % len(prices)]]
    first = turn % len(chosen)
    return [chosen[first]] if chosen[0].method.slow else [*chosen[first:], *chosen[:first]]


QUICK = [title for title, own in _BY_METHOD.items() if own[0].method.family != "run"]


@pytest.mark.parametrize("title", QUICK)
def test_neighbours_are_hidden(title: str, check: Check) -> None:
    turn = QUICK.index(title)
    for cell in within(SHARE, fast(title)):
        check(cell, lambda cell=cell: [pairs(cell)[turn % 2]], what="coupled")


@pytest.mark.slow
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.title)
def test_neighbours_are_hidden_at_every_price(cell: Cell, check: Check) -> None:
    seeds = (1,) if cell.method.family == "run" else (2, 3)
    check(cell, lambda: pairs(cell), what="coupled", seeds=seeds)
