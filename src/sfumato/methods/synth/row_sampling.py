"""Drawing rows from a fitted model with little variance: conditionals are apportioned.

Of the m rows that agree on a column's parents, every code gets its expected number of rows rounded
down or up, and which rows get it is random. Rows stand in a random order at (i + u) / m, i = 0, 1,
..., and take the code into whose part of the cumulated probabilities they fall: every count is off
by less than 1, and right on average as u is uniform. From one group of rows to the next u moves on
by the golden section, so that what is rounded in many small groups evens out over all of them.

Decision `synthetic-rows`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.synth.fitted_model import contracted
from sfumato.privacy.noise.entropy import BLOCK
from sfumato.privacy.noise.selection import permutation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.methods.synth.fitted_model import Conditional, FittedModel
    from sfumato.methods.synth.measurement_log import ColumnSet
    from sfumato.privacy.noise.entropy import Entropy

    Codes = NDArray[np.int32]
    Factor = tuple[ColumnSet, FloatArray]


_GOLDEN = (5**0.5 - 1) / 2


def draw(model: FittedModel, rows: int, entropy: Entropy) -> list[Codes]:
    """Draw rows: the codes of every column, in a random order of the rows."""
    drawn: dict[int, Codes] = {}
    for conditional in model.conditionals:
        drawn[conditional.column] = _apportioned(conditional, drawn, rows, entropy)
    return [drawn[column] for column in model.shape.columns]


def chunks(model: FittedModel, rows: int, entropy: Entropy, *, most: int) -> Iterator[list[Codes]]:
    """Draw any number of rows, at most so many at a time."""
    for first in range(0, rows, most):
        yield draw(model, min(most, rows - first), entropy)


def _apportioned(
    conditional: Conditional, drawn: dict[int, Codes], rows: int, entropy: Entropy
) -> Codes:
    """A column's codes, given those of its parents."""
    order = permutation(rows, entropy)
    groups = np.zeros(rows, dtype=np.int64)
    for axis, parent in enumerate(conditional.parents):
        groups = groups * conditional.table.shape[axis] + drawn[parent]
    grouped = groups[order]
    within = np.argsort(_narrow(grouped), kind="stable")
    order, grouped = order[within], grouped[within]
    starts = np.flatnonzero(np.diff(grouped, prepend=-1))
    members = np.diff(starts, append=rows)
    number = np.repeat(np.arange(len(starts)), members)
    phase = (_uniform(entropy) + _GOLDEN * np.arange(len(starts))) % 1
    at = (np.arange(rows) - starts[number] + phase[number]) / members[number]
    codes = conditional.table.shape[-1]
    ends = np.cumsum(conditional.table.reshape(-1, codes)[grouped[starts]], axis=1)
    ends /= ends[:, -1:]
    ladder = (ends + np.arange(len(starts))[:, None]).ravel()
    drawn_codes = np.searchsorted(ladder, number + at, side="right") - number * codes
    column = np.empty(rows, dtype=np.int32)
    column[order] = np.minimum(drawn_codes, codes - 1)
    return column


def _uniform(entropy: Entropy) -> float:
    return float(entropy.words(1)[0] >> np.uint64(11)) * 2.0**-53


def _narrow(groups: IntArray) -> NDArray[np.unsignedinteger]:
    """Small numbers are sorted by their digits, which is far faster."""
    small = not len(groups) or groups.max() < 1 << 16
    return groups.astype(np.uint16) if small else groups.astype(np.uint64)


# Drawing rows of which some columns are known, each row with codes of its own.
#
# The conditionals of a model are factors. At the codes that a row is known to have, what is left
# of them are factors of the other columns, one for each row; these columns are summed out one
# after another, and drawn in the opposite order, each given those drawn before it. So every row
# is drawn from exactly the distribution that the model has given what is known of it. Rows that
# agree on all known columns that touch an unknown one share their factors.

_ROW = -1
"""The place that stands for the rows among the places of a factor."""
_CELLS = 1 << 22
"""So many cells of factors, over all rows that are drawn together."""


def draw_given(
    model: FittedModel, known: Mapping[int, Codes], rows: int, entropy: Entropy
) -> list[Codes]:
    """Draw rows: the codes of every column, those of known columns as they are.

    What the model holds for impossible leaves the columns even that it would decide.
    """
    factors = [
        ((*conditional.parents, conditional.column), conditional.table)
        for conditional in model.conditionals
    ]
    order = _order(model, [set(scope) - set(known) for scope, _ in factors])
    touching = sorted(
        {
            column
            for scope, _ in factors
            if not set(scope) <= set(known)
            for column in scope
            if column in known
        }
    )
    combinations, of_row = _alike([known[column] for column in touching], rows)
    drawn = {column: np.empty(rows, dtype=np.int32) for column, _ in order}
    by_combination = np.argsort(of_row, kind="stable")
    ends = np.cumsum(np.bincount(of_row, minlength=len(combinations)))
    most = max(1, _CELLS // max((cells for _, cells in order), default=1))
    for first in range(0, len(combinations), most):
        last = min(first + most, len(combinations))
        evidence = dict(zip(touching, combinations[first:last].T, strict=True))
        chosen = by_combination[ends[first - 1] if first else 0 : ends[last - 1]]
        buckets = _buckets(factors, evidence, known, [column for column, _ in order])
        for column, codes in _drawn(buckets, of_row[chosen] - first, entropy).items():
            drawn[column][chosen] = codes
    return [known[column] if column in known else drawn[column] for column in model.shape.columns]


def _order(model: FittedModel, scopes: Sequence[set[int]]) -> list[tuple[int, int]]:
    """Unknown columns as they are summed out, each with the cells that it takes to do so.

    Always the one next that takes fewest.
    """
    remaining = [scope for scope in scopes if scope]
    order: list[tuple[int, int]] = []
    while columns := set[int]().union(*remaining):
        joined = {column: set[int]().union(*(scope for scope in remaining if column in scope))
                  for column in columns}  # fmt: skip
        cells = {column: model.shape.cells(scope) for column, scope in joined.items()}
        column = min(columns, key=lambda scope: (cells[scope], scope))
        order.append((column, cells[column]))
        untouched = [scope for scope in remaining if column not in scope]
        remaining = (
            [*untouched, joined[column] - {column}] if joined[column] != {column} else untouched
        )
    return order


def _alike(known: Sequence[Codes], rows: int) -> tuple[IntArray, IntArray]:
    """The different combinations of known codes, and which of them each row has."""
    if not known:
        return np.zeros((1, 0), dtype=np.int64), np.zeros(rows, dtype=np.int64)
    table = np.stack([codes.astype(np.int64) for codes in known], axis=1)
    combinations, of_row = np.unique(table, axis=0, return_inverse=True)
    return combinations, of_row.reshape(-1)


@dataclass(frozen=True)
class _Bucket:
    """A column to be drawn, and all factors that tell of it once those after it are drawn."""

    column: int
    factors: list[Factor]


def _buckets(
    factors: Sequence[Factor],
    evidence: Mapping[int, IntArray],
    known: Mapping[int, Codes],
    order: Sequence[int],
) -> list[_Bucket]:
    """Sum out one column after another."""
    remaining = [
        _restricted(scope, table, evidence)
        for scope, table in factors
        if not set(scope) <= set(known)
    ]
    buckets = []
    for column in order:
        mine = [factor for factor in remaining if column in factor[0]]
        remaining = [factor for factor in remaining if column not in factor[0]]
        buckets.append(_Bucket(column, mine))
        neighbours = tuple(sorted({column for scope, _ in mine for column in scope} - {column}))
        if set(neighbours) - {_ROW}:
            remaining.append((neighbours, _scaled(contracted(mine, neighbours), neighbours)))
    return buckets


def _restricted(scope: ColumnSet, table: FloatArray, evidence: Mapping[int, IntArray]) -> Factor:
    """A factor at the codes that each row is known to have."""
    fixed = [axis for axis, column in enumerate(scope) if column in evidence]
    if not fixed:
        return scope, table
    free = [axis for axis in range(len(scope)) if axis not in fixed]
    moved = table.transpose(*fixed, *free)
    selected = moved[tuple(evidence[scope[axis]] for axis in fixed)]
    return (_ROW, *(scope[axis] for axis in free)), selected


def _scaled(table: FloatArray, columns: ColumnSet) -> FloatArray:
    """A message whose largest cell, of each row, is 1: products of many stay within floats.

    Where a row's are all 0 it is even.
    """
    by_row = table.reshape(table.shape[0], -1) if columns[0] == _ROW else table.reshape(1, -1)
    largest = by_row.max(axis=1, keepdims=True)
    even = np.ones_like(by_row)
    scaled: FloatArray = np.divide(by_row, largest, out=even, where=largest > 0)
    return scaled.reshape(table.shape)


def _drawn(buckets: Sequence[_Bucket], of_row: IntArray, entropy: Entropy) -> dict[int, IntArray]:
    """Draw columns in the opposite order, each given those drawn before it."""
    drawn: dict[int, IntArray] = {}
    for bucket in reversed(buckets):
        at = {_ROW: of_row, **drawn}
        chances = prod((_at(factor, bucket.column, at) for factor in bucket.factors), start=1.0)
        drawn[bucket.column] = _looked_up(np.asarray(chances), len(of_row), entropy)
    return drawn


def _at(factor: Factor, column: int, at: Mapping[int, IntArray]) -> FloatArray:
    """A factor of one column, last axis, for each row; for all alike where it has no other."""
    scope, table = factor
    moved = np.moveaxis(table, scope.index(column), -1)
    selection = tuple(at[other_column] for other_column in scope if other_column != column)
    return moved[selection] if selection else moved[None]


def _looked_up(chances: FloatArray, rows: int, entropy: Entropy) -> IntArray:
    """A code for each row by its chances, all even where there are none.

    Rows are drawn one by one: spread evenly, those that belong together would differ too often.
    """
    ends = np.cumsum(chances, axis=-1)
    ends[ends[:, -1] <= 0] = np.arange(1, ends.shape[1] + 1)
    random_words = entropy.words(max(rows, BLOCK))[:rows]
    points = (random_words >> np.uint64(11)).astype(float) * 2.0**-53
    before = (ends <= points[:, None] * ends[:, -1:]).sum(axis=1)
    return np.asarray(np.minimum(before, ends.shape[1] - 1), dtype=np.int64)
