"""Choose between columns alone, a tree and adaptive rounds, by what a pair would be worth.

Columns are measured first, whatever comes next; they tell the number of rows. Where the noise of a
typical column's cheapest pair would be a good part of all rows, adaptive rounds have too little to
go by and a tree is taken; where it would be most of them, columns alone are measured again. A tree
whose choice never stopped tells that columns hang together, and rounds follow; after one that did,
columns are measured again. Nothing else is looked at, and nothing more is paid.

Decisions `synthesis-fit` and `synthesis-selection`.
"""

from __future__ import annotations

from fractions import Fraction
from statistics import median
from typing import TYPE_CHECKING

from sfumato.methods.synth.select.aim import measure_adaptively, measure_rounds
from sfumato.methods.synth.select.independent import measure_columns, measure_sets
from sfumato.methods.synth.select.mst import choose_tree
from sfumato.methods.synth.select.pair_worth import Worth

if TYPE_CHECKING:
    from sfumato.methods.synth.shape import Set, TableShape
    from sfumato.methods.synth.workbench import Workbench

AUTO_COLUMNS_SHARE = Fraction(2, 5)
AUTO_CHOICE_SHARE = Fraction(1, 20)
AUTO_TREE_SHARE = Fraction(2, 5)
"""For all pairs of a tree; rounds, or columns, get what pairs leave."""
TREE_FROM = 0.1
"""The noise of a column's cheapest pair, as a share of all rows, from which on a tree is taken."""

COLUMNS_FROM = 0.5
"""And from which on columns alone are measured."""


def select_automatically(bench: Workbench) -> None:
    """Measure columns, then a tree of pairs or what adaptive rounds choose."""
    if len(bench.shape.columns) < 2:
        measure_columns(bench, bench.purse.left)
        return
    measure_columns(bench, AUTO_COLUMNS_SHARE)
    each = bench.purse.left / len(bench.shape.columns)
    method = suited_method(pair_noise(bench.shape, bench.magnitude(each), bench.log.total()))
    if method == "aim":
        measure_adaptively(bench, Worth(bench.shape))
    elif method == "independent":
        measure_columns(bench, bench.purse.left)
    else:
        _measure_some_pairs(bench)


def _measure_some_pairs(bench: Workbench) -> None:
    """Measure the pairs that are worth it, each by the same part; then go by how many there are."""
    worth, most = Worth(bench.shape), len(bench.shape.columns) - 1
    chosen = choose_tree(bench, AUTO_CHOICE_SHARE, AUTO_TREE_SHARE, worth)
    if chosen:
        measure_sets(bench, chosen, AUTO_TREE_SHARE * len(chosen) / most)
    if len(chosen) == most:
        measure_rounds(bench, worth)
    else:
        measure_columns(bench, bench.purse.left)


def cheapest_pairs(shape: TableShape) -> list[Set]:
    """The pair of fewest cells of each column: it is enough to join it to the others."""
    pairs = shape.pairs()
    return [
        min((one for one in pairs if column in one), key=shape.cells) for column in shape.columns
    ]


def pair_noise(shape: TableShape, magnitude: float, rows: float) -> float:
    """The noise of a typical column's cheapest pair, as a share of all rows."""
    return magnitude * median(map(shape.cells, cheapest_pairs(shape))) / rows


def suited_method(noise: float) -> str:
    """The method for a noise of pairs."""
    if noise < TREE_FROM:
        return "aim"
    return "independent" if noise > COLUMNS_FROM else "mst"
