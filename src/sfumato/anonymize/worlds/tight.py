"""Tight labels: each end of every range label occurs in some released row.

That narrows counts and sums. An end that no row can have without being selected forces a row in,
one that no row can have while being selected keeps a row out; ends of one column need different
rows. Each column is looked at by itself and the narrowest bounds win: exact where one column has
ranges and rows enough are free for each end, and right in any case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.worlds.bounds import Answer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.anonymize.worlds.released import Released
    from sfumato.anonymize.worlds.selection import Known, Selected, Selection
    from sfumato.anonymize.worlds.statement import Aggregate

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Forced = dict[bytes, tuple[NDArray[np.bool_], int]]


def tighten(
    answer: Answer,
    aggregate: Aggregate,
    selection: Selection,
    table: Released,
    selected: Selected,
) -> Answer:
    """Narrow the bounds of a count or a sum; others stay as they are."""
    columns, counts = table.columns, table.counts
    if aggregate not in ("count", "sum") or answer.lower is None or answer.upper is None:
        return answer
    ones = np.ones(len(counts))
    low = ones if aggregate == "count" else selected.low
    high = ones if aggregate == "count" else selected.high
    lower, upper = answer.lower, answer.upper
    for name, known in columns.items():
        least, most = answer.lower, answer.upper
        drawn_in, kept_out = _ends(name, known, selection, selected)
        for can, ends in drawn_in.values():
            least += _cheapest(np.maximum(low, 0), counts, can, ends)
            most -= _cheapest(-np.minimum(high, 0), counts, can, ends)
        for can, ends in kept_out.values():
            least += _cheapest(-np.minimum(low, 0), counts, can, ends)
            most -= _cheapest(np.maximum(high, 0), counts, can, ends)
        lower, upper = max(lower, least), min(upper, most)
    estimate = answer.estimate
    clamped = None if estimate is None else min(max(estimate, lower), upper)
    return Answer(lower, upper, clamped)


def _ends(
    name: str, known: Known, selection: Selection, selected: Selected
) -> tuple[Forced, Forced]:
    """The ends that draw a row in and those that keep one out, by the rows that can have them."""
    drawn_in: Forced = {}
    kept_out: Forced = {}
    doubtful = selected.possible & ~selected.certain
    present = known.covers.ends[np.unique(known.labels)]
    for end in np.unique(present[present >= 0]).tolist():
        can = known.covers.contains(end)[known.labels]
        given = selection.select((name, end))
        for forced, decided in ((drawn_in, given.certain), (kept_out, ~given.possible)):
            if (doubtful & decided)[can].all():
                _, ends = forced.get(can.tobytes(), (can, 0))
                forced[can.tobytes()] = (can, ends + 1)
    return drawn_in, kept_out


def _cheapest(costs: Floats, counts: Ints, can: NDArray[np.bool_], ends: int) -> float:
    """What it costs at least to give so many different rows an end each."""
    each = np.sort(np.repeat(costs[can], np.minimum(counts[can], ends)))
    return float(each[:ends].sum())
