"""Homogeneity: everybody in a class whose people all have one value has that value.

*Attacker*: knows that a person is in the release, and the person's class.
*Success*: the share of people of whose value the attacker is certain: it has at least the share
`sure` of their class, by default all of it. Where the release says whose rows are, one such row of
a person is enough.
*Baseline*: the same after the values are dealt out to the classes at random.
*Victims*: those people.
*Reference*: Machanavajjhala, Gehrke, Kifer and Venkitasubramaniam, l-Diversity, 2006.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.attack.beliefs import believed

if TYPE_CHECKING:
    from sfumato.arrays import BoolArray, IntArray
    from sfumato.attack.case import Case
    from sfumato.attack.classes import ClassValues
    from sfumato.attack.finding import Finding


def run(case: Case) -> Finding:
    """Look for classes with one value."""
    sure = case.options.sure
    return believed(
        case,
        "homogeneity",
        lambda _column, _values: lambda values: surely(values, 0, sure),
        attacker="knows which class a person is in",
        meaning=f"People whose {case.options.sensitive or 'sensitive value'} is certain",
        reference="Machanavajjhala et al. 2006",
    )


def surely(values: ClassValues, exclude: int, sure: float) -> BoolArray:
    """Return the cells with at least the share `sure` of the class after `exclude` exclusions."""
    remaining = values.sizes[values.owners] - excluded(values, exclude)
    hit: BoolArray = values.counts >= sure * remaining
    return hit


def excluded(values: ClassValues, exclude: int) -> IntArray:
    """Return for each cell the rows of the `exclude` commonest other values of its class."""
    if exclude == 0:
        return np.zeros(len(values.counts), dtype=np.int64)
    order = np.lexsort((-values.counts, values.owners))
    owners, counts = values.owners[order], values.counts[order]
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    lengths = np.diff(starts, append=len(owners))
    rank = np.arange(len(owners)) - np.repeat(starts, lengths)
    before = np.concatenate([[0], np.cumsum(counts)])
    ends = np.minimum(exclude, lengths)
    top = before[starts + ends] - before[starts]
    wider = before[starts + np.minimum(exclude + 1, lengths)] - before[starts]
    # If the cell is itself among the commonest values, the window is one value longer and its own
    # rows are taken away.
    own_is_top = rank < exclude
    excluded_rows = np.where(
        own_is_top, np.repeat(wider, lengths) - counts, np.repeat(top, lengths)
    )
    back = np.empty(len(order), dtype=np.int64)
    back[order] = excluded_rows
    return back
