"""Drawing rows from a fitted model with little variance: conditionals are apportioned.

Of the m rows that agree on a column's parents, every code gets its expected number of rows rounded
down or up, and which rows get it is random. Rows stand in a random order at (i + u) / m, i = 0, 1,
..., and take the code into whose part of the cumulated probabilities they fall: every count is off
by less than 1, and right on average as u is uniform. From one group of rows to the next u moves on
by the golden section, so that what is rounded in many small groups evens out over all of them.

Decision `synthesis-fit`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.privacy.noise.selection import permutation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sfumato.arrays import IntArray
    from sfumato.methods.synth.fitted_model import Conditional, FittedModel
    from sfumato.privacy.noise.entropy import Entropy

    Codes = NDArray[np.int32]

_GOLDEN = (5**0.5 - 1) / 2


def draw(model: FittedModel, rows: int, entropy: Entropy) -> list[Codes]:
    """Draw rows: the codes of every column, in a random order of the rows."""
    drawn: dict[int, Codes] = {}
    for one in model.conditionals:
        drawn[one.column] = _apportioned(one, drawn, rows, entropy)
    return [drawn[column] for column in model.shape.columns]


def chunks(model: FittedModel, rows: int, entropy: Entropy, *, most: int) -> Iterator[list[Codes]]:
    """Draw any number of rows, at most so many at a time."""
    for first in range(0, rows, most):
        yield draw(model, min(most, rows - first), entropy)


def _apportioned(one: Conditional, drawn: dict[int, Codes], rows: int, entropy: Entropy) -> Codes:
    """A column's codes, given those of its parents."""
    order = permutation(rows, entropy)
    groups = np.zeros(rows, dtype=np.int64)
    for place, parent in enumerate(one.parents):
        groups = groups * one.table.shape[place] + drawn[parent]
    grouped = groups[order]
    within = np.argsort(_narrow(grouped), kind="stable")
    order, grouped = order[within], grouped[within]
    starts = np.flatnonzero(np.diff(grouped, prepend=-1))
    members = np.diff(starts, append=rows)
    number = np.repeat(np.arange(len(starts)), members)
    phase = (_uniform(entropy) + _GOLDEN * np.arange(len(starts))) % 1
    at = (np.arange(rows) - starts[number] + phase[number]) / members[number]
    codes = one.table.shape[-1]
    ends = np.cumsum(one.table.reshape(-1, codes)[grouped[starts]], axis=1)
    ends /= ends[:, -1:]
    ladder = (ends + np.arange(len(starts))[:, None]).ravel()
    found = np.searchsorted(ladder, number + at, side="right") - number * codes
    column = np.empty(rows, dtype=np.int32)
    column[order] = np.minimum(found, codes - 1)
    return column


def _uniform(entropy: Entropy) -> float:
    return float(entropy.words(1)[0] >> np.uint64(11)) * 2.0**-53


def _narrow(groups: IntArray) -> NDArray[np.unsignedinteger]:
    """Small numbers are sorted by their digits, which is far faster."""
    small = not len(groups) or groups.max() < 1 << 16
    return groups.astype(np.uint16) if small else groups.astype(np.uint64)
