"""Downcoding: minimal labels can be refined by one step.

*Attacker*: knows the hierarchies, how common values are (from the list, else from the release), and
that each class has the finest labels that give it k rows. So at least two of the labels below a
label occur, and not all that occur have k rows.
*Success*: the share of generalized labels of classes for which the attacker gives the right number
of rows of every label below: the likeliest of the possible numbers.
*Baseline*: the likeliest numbers without knowing that labels are minimal.
*Victims*: the rows of these classes.
A release without generalized labels, such as a synthetic table, has nothing to refine.
*Reference*: Cohen, Attacks on deidentification's defenses, 2022, section 3.
"""

from __future__ import annotations

from math import lgamma, log
from typing import TYPE_CHECKING

import numpy as np

from sfumato.attack.case import cannot_run, needed, needed_quasi
from sfumato.attack.classes import boxes
from sfumato.attack.finding import Finding, Rate
from sfumato.attack.matching import fitting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.attack.case import Case
    from sfumato.attack.classes import BoxColumn, Boxes
    from sfumato.data.counting.frequencies import Frequencies


NAME = "downcoding"
# Each label passes a Python loop, so their number bounds the time.
_MOST = 20_000
"""Labels examined at most, evenly spread over all of them."""


def run(case: Case) -> Finding:
    """Guess the number of rows of each label below the labels of a class."""
    original = needed(case.original, NAME, "the original, to score the guesses", "original")
    if case.release.buckets is not None:
        raise cannot_run(NAME, "an anatomy generalizes nothing.")
    quasi = needed_quasi(case, NAME, original)
    names = [column.name for column in quasi]
    real = original.counted(names)
    listed = None
    if case.known is not None and all(name in case.known.names for name in names):
        listed = case.known.counted(names)
    released = boxes(
        case.release, quasi, [counted for counted in (real, listed) if counted is not None]
    )
    owners, people = _inside(released, real)
    # The smallest class is taken for the k that the algorithm used.
    least = int(released.sizes.min(initial=1))
    right = guessed = victims = tried = 0
    for column in released.columns:
        leaves, counts = column.locate(real)[people], real.counts[people]
        for counted, weights, truth in _steps(
            column, _common(column, released, listed), owners, leaves, counts
        ):
            tried += 1
            guessed += bool((likeliest(weights, int(truth.sum())) == truth).all())
            if (refined(weights, int(truth.sum()), least) == truth).all():
                right += 1
                victims += int(released.sizes[counted])
    if not tried:
        raise cannot_run(
            NAME, "no class wears a label of a hierarchy, so there is nothing to take back."
        )
    where = "in the release" if listed is None else "on the list"
    return Finding(
        attack=NAME,
        attacker="knows the hierarchies, how common values are, and that labels are minimal",
        meaning="Labels whose finer labels are guessed right",
        success=Rate.share(right, tried),
        baseline=Rate.share(guessed, tried),
        victims=min(victims, released.rows),
        remarks=[
            f"{tried:,} labels of {len(released):,} classes. Frequencies of values: as {where}."
        ],
        rows=released.rows,
        reference="Cohen 2022",
    )


def _inside(released: Boxes, real: Frequencies) -> tuple[IntArray, IntArray]:
    """Return the classes whose people are all known, and these people, pair by pair."""
    pairs = list(fitting(released.locate(real), released))
    people = np.concatenate([matched for matched, _ in pairs] or [np.zeros(0, dtype=np.int64)])
    owners = np.concatenate(
        [their_classes for _, their_classes in pairs] or [np.zeros(0, dtype=np.int64)]
    )
    # Only if exactly as many people of the original fit a class as it has rows, the truth is
    # known.
    is_complete = np.bincount(owners, real.counts[people], len(released)) == released.sizes
    return owners[is_complete[owners]], people[is_complete[owners]]


def _common(column: BoxColumn, released: Boxes, listed: Frequencies | None) -> FloatArray:
    """Return how common each leaf is: on the list, else in the release, labels spread evenly."""
    leaves = len(column.taxonomy.leaves)
    if listed is not None:
        mine = column.locate(listed)
        inside = mine >= 0
        # Half a count is added, so that a value missing from the list stays possible.
        return np.bincount(mine[inside], listed.counts[inside], leaves).astype(np.float64) + 0.5
    rows = np.bincount(column.labels, released.sizes, len(column.covers.starts))
    return column.over_leaves(rows / column.covers.leaves)


def _steps(
    column: BoxColumn, common: FloatArray, owners: IntArray, leaves: IntArray, counts: IntArray
) -> Iterator[tuple[int, FloatArray, IntArray]]:
    """Yield classes with a label above the leaves: weights and true rows of the labels below."""
    taxonomy, covers = column.taxonomy, column.covers
    order = np.argsort(owners, kind="stable")
    owners, leaves, counts = owners[order], leaves[order], counts[order]
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    ends = np.append(starts[1:], len(owners))
    chosen = np.flatnonzero(covers.leaves[column.labels[owners[starts]]] > 1)
    for group in chosen[:: max(len(chosen) // _MOST, 1)].tolist():
        start, end = int(starts[group]), int(ends[group])
        label = int(column.labels[owners[start]])
        low, high = int(covers.low[label]), int(covers.high[label])
        # The lowest level at which both ends have the same label is the level of this label.
        level = int(np.argmax(taxonomy.codes[low] == taxonomy.codes[high]))
        finer = taxonomy.codes[low : high + 1, level - 1]
        first, below = np.unique(finer, return_inverse=True)
        truth = np.bincount(below[leaves[start:end] - low], counts[start:end], len(first))
        weights = np.bincount(below, common[low : high + 1], len(first))
        yield int(owners[start]), weights.astype(np.float64), truth.astype(np.int64)


def likeliest(weights: FloatArray, size: int) -> IntArray:
    """Return the likeliest number of rows of each label: the mode of a multinomial law."""
    total = float(weights.sum())
    shares = weights / total if total else np.full(len(weights), 1 / len(weights))
    rows = np.floor(size * shares).astype(np.int64)
    # Largest remainder for a multinomial mode: add rows where the chance grows most.
    while rows.sum() < size:  # at most once for each label
        gain = np.divide(shares, rows + 1)
        rows[int(np.argmax(gain))] += 1
    return rows


def refined(weights: FloatArray, size: int, least: int) -> IntArray:
    """Return the likeliest numbers given that the label is minimal.

    At least two labels below occur, and one of them has fewer than `least` rows: otherwise the
    algorithm would have released the finer labels.
    """
    plain = likeliest(weights, size)
    used = plain[plain > 0]
    if len(used) > 1 and used.min() < least:
        return plain
    candidates = []
    for number in range(len(weights)):
        other_weights = np.delete(weights, number)
        # The likelihood is log-concave: of the allowed numbers 1 .. least - 1 the best for one
        # label is the nearest to its number in the mode, so an end of the range.
        for rows in {1, min(least - 1, size - 1)}:
            if 0 < rows < min(least, size) or rows == 1:
                other_rows = likeliest(other_weights, size - rows)
                candidates.append(np.insert(other_rows, number, rows))
    return max(candidates, key=lambda split: _log_chance(weights, split), default=plain)


def _log_chance(weights: FloatArray, rows: IntArray) -> float:
    """Return the log likelihood of numbers of rows, without the constant log n!."""
    total = float(weights.sum()) or 1.0
    return sum(
        float(count) * log(max(weight / total, 1e-300)) - lgamma(count + 1)
        for count, weight in zip(rows.tolist(), weights.tolist(), strict=True)
    )
