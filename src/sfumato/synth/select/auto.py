"""Choose between columns alone, a tree and adaptive rounds, by what a pair would be worth.

Columns are measured first, whatever comes next; they tell the number of rows. Where the noise of a
typical column's cheapest pair would be a good part of all rows, adaptive rounds have too little to
go by and a tree is taken; where it would be most of them, columns alone are measured again. Nothing
else is looked at, and nothing more is paid.

Decision 0261.
"""

from __future__ import annotations

from fractions import Fraction
from statistics import median
from typing import TYPE_CHECKING

from sfumato.synth.select.aim import measure_adaptively
from sfumato.synth.select.independent import measure_columns
from sfumato.synth.select.mst import measure_tree

if TYPE_CHECKING:
    from sfumato.synth.workbench import Workbench

COLUMNS_SHARE = Fraction(2, 5)
MORE_COLUMNS_SHARE = Fraction(1, 4)
"""Where a tree is taken, columns matter most."""
NOISY = 0.05
"""The noise of a column's cheapest pair, as a share of all rows, from which on a tree is taken."""

HOPELESS = 0.2
"""And from which on columns alone are measured."""


def select_automatically(bench: Workbench) -> None:
    """Measure columns, then a tree of pairs or what adaptive rounds choose."""
    pairs = bench.shape.pairs()
    if not pairs:
        measure_columns(bench, bench.purse.left)
        return
    measure_columns(bench, COLUMNS_SHARE)
    each = bench.purse.left / len(bench.shape.columns)
    # The cheapest pair of a column is enough to join it to the others.
    cheapest = [
        min(bench.shape.cells(pair) for pair in pairs if column in pair)
        for column in bench.shape.columns
    ]
    noise = bench.magnitude(each) * median(cheapest) / bench.log.total()
    if noise < NOISY:
        measure_adaptively(bench)
    elif noise > HOPELESS:
        measure_columns(bench, bench.purse.left)
    else:
        measure_columns(bench, MORE_COLUMNS_SHARE)
        measure_tree(bench)
