"""Choose a network, each column with its parents, and measure every column with its parents.

Columns join one after another: among those left, with any one or two of those that joined, one is
chosen by the exponential mechanism for its dependence. Tables whose cells would hold less than a
few times their noise are no candidates: what is useful is told by the noisy number of rows.

*Reference*: Zhang, Cormode, Procopiuc, Srivastava & Xiao 2014 and 2017.
Decision `synthesis-log`.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import sqrt
from typing import TYPE_CHECKING, Literal

from sfumato.methods.synth.scores import Dependence
from sfumato.methods.synth.selection import measure_columns, measure_sets

if TYPE_CHECKING:
    from sfumato.methods.synth.measurement_log import Set
    from sfumato.methods.synth.workbench import Workbench

COLUMNS_SHARE = Fraction(2, 5)
CHOICE_SHARE = Fraction(1, 8)
USEFUL = 2.0
"""How many times its noise a cell must hold, on average."""
MOST_CANDIDATES = 1 << 12
_LOW = 4
"""The number of rows is taken so many deviations below its noisy one: a guess, not a promise."""


def select_network(bench: Workbench, score: Literal["R", "F", "I"] = "R") -> None:
    """Measure columns, choose a network and measure its tables.

    F is a score of columns of two codes, which then come first; R chooses the others.
    """
    measure_columns(bench, COLUMNS_SHARE)
    columns = bench.shape.columns
    if len(columns) < 2:
        return
    rows = bench.log.total()
    deviation = sqrt(1 / sum(1 / table.total_variance for table in bench.log.tables))
    fixed = max(int(rows - _LOW * deviation), 2)
    measuring = (bench.purse.left - CHOICE_SHARE) / (len(columns) - 1)
    most = rows / (USEFUL * bench.magnitude(measuring))
    joined: list[int] = []
    chosen: list[Set] = []
    while len(joined) < len(columns):
        kind, choices = score, _choices(bench, joined, most, binary=score == "F")
        if not choices and score == "F":
            kind, choices = "R", _choices(bench, joined, most)
        if not choices:
            joined.append(next(column for column in columns if column not in joined))
            continue
        bench.expect([tuple(sorted((column, *parents))) for column, parents in choices])
        scoring = Dependence(kind, choices, fixed)
        column, parents = choices[bench.choose(scoring, CHOICE_SHARE / len(columns))]
        joined += [one for one in parents if one not in joined]
        joined.append(column)
        chosen.append(tuple(sorted((column, *parents))))
    measure_sets(bench, chosen or [(column,) for column in columns], bench.purse.left)


def _choices(
    bench: Workbench, joined: list[int], most: float, *, binary: bool = False
) -> list[tuple[int, Set]]:
    """Columns that may join with their parents; the first choice is of two columns at once."""
    shape = bench.shape
    left = [column for column in shape.columns if column not in joined]
    if binary:
        left = [column for column in left if shape.sizes[column] == 2]
    before = joined or list(shape.columns)
    found: list[tuple[int, Set]] = []
    for count in (1, 2) if joined else (1,):
        more = [
            (column, parents)
            for column in left
            for parents in combinations(sorted(before), count)
            if column not in parents and shape.cells((*parents, column)) <= most
        ]
        if len(found) + len(more) > MOST_CANDIDATES:
            break
        found += more
    return found
