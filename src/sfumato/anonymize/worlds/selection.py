"""Which released rows a predicate selects: certainly, possibly, or not at all.

A row's label stands for any leaf it covers, each column on its own. The leaves of a column fall
into kinds that no test tells apart; a row reaches the kinds that its label has leaves of, and the
predicate is decided for each combination of kinds. That is exact, however often a column is named.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.anonymize.covers import Covers
    from sfumato.anonymize.worlds.predicate import Atom, Formula, Truth

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

_MOST_KINDS = 1 << 16


@dataclass(frozen=True, eq=False)
class Known:
    """One released column: what its labels cover, the label of each row, and numbers of leaves.

    `numbers` has the value of each leaf where the column is summed up; `vague` are the labels that
    may stand for numbers which no leaf has.
    """

    covers: Covers
    labels: Ints
    numbers: Floats
    vague: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Kinds:
    """The leaves of one column by the truth of the tests: the share of each kind in each label."""

    known: Known
    truths: tuple[tuple[Truth, ...], ...]
    kind: Ints
    leaves: Ints

    @classmethod
    def of(cls, known: Known, tests: Sequence[Atom]) -> Kinds:
        """Test every leaf."""
        values = known.covers.taxonomy.leaves
        rows = [tuple(test(value) for _, test in tests) for value in values]
        found = {truths: place for place, truths in enumerate(dict.fromkeys(rows))}
        kind = np.array([found[truths] for truths in rows], dtype=np.int64)
        leaves = np.array([known.covers.count(kind == place) for place in range(len(found))])
        return cls(known, tuple(found), kind, leaves)

    @cached_property
    def shares(self) -> Floats:
        """The share of each kind in the leaves of each row's label."""
        shares: Floats = (self.leaves / self.known.covers.leaves)[:, self.known.labels]
        return shares

    @cached_property
    def reached(self) -> NDArray[np.bool_]:
        """Which kinds each row can be of."""
        reached: NDArray[np.bool_] = (self.leaves > 0)[:, self.known.labels]
        return reached

    @cached_property
    def ends(self) -> tuple[Floats, Floats, Floats]:
        """The least, the greatest and the mean number of each kind in each row's label."""
        covers, numbers = self.known.covers, self.known.numbers
        low = np.full(self.leaves.shape, np.inf)
        high = np.full(self.leaves.shape, -np.inf)
        mean = np.zeros(self.leaves.shape)
        single = np.flatnonzero(covers.leaves == 1)
        leaf = covers.low[single]
        for ends in (low, high, mean):
            ends[self.kind[leaf], single] = numbers[leaf]
        for label in np.flatnonzero(covers.leaves > 1).tolist():
            inside = np.flatnonzero(covers.holding(label))
            kinds, values = self.kind[inside], numbers[inside]
            np.minimum.at(low[:, label], kinds, values)
            np.maximum.at(high[:, label], kinds, values)
            np.add.at(mean[:, label], kinds, values)
        mean /= np.maximum(self.leaves, 1)
        labels = self.known.labels
        return low[:, labels], high[:, labels], mean[:, labels]


@dataclass(frozen=True, eq=False)
class Selected:
    """For each row: whether it is selected for certain or perhaps, how likely, with which number.

    `low` and `high` bound the number that it counts with if it is selected.
    """

    certain: NDArray[np.bool_]
    possible: NDArray[np.bool_]
    chance: Floats
    low: Floats
    high: Floats
    middle: Floats


class Selection:
    """A predicate over released rows."""

    def __init__(
        self, formula: Formula, columns: Mapping[str, Known], measure: str | None, rows: int
    ) -> None:
        self.names = list(columns)
        self.measure, self.rows = measure, rows
        self.kinds = [
            Kinds.of(known, [atom for atom in formula.atoms if atom[0] == name])
            for name, known in columns.items()
        ]
        self._truths = self._true(formula)

    def _true(self, formula: Formula) -> list[tuple[int, ...]]:
        """The combinations of kinds that satisfy the predicate."""
        size = prod(len(kinds.truths) for kinds in self.kinds)
        if size > _MOST_KINDS:
            raise QueryError(
                "predicate_too_complex",
                f"The condition tells {size:,} cases apart; at most {_MOST_KINDS:,} are possible. "
                "Ask for less at once.",
            )
        found = []
        for combination in product(*(range(len(kinds.truths)) for kinds in self.kinds)):
            truths = {
                name: iter(kinds.truths[place])
                for name, kinds, place in zip(self.names, self.kinds, combination, strict=True)
            }
            if formula.joined([next(truths[name]) for name, _ in formula.atoms]):
                found.append(combination)
        return found

    def select(self, fixed: tuple[str, Any] | None = None) -> Selected:
        """The state of every row; with `fixed`, if a column were of one leaf, for rows that can."""
        reached, shares = self._given(fixed)
        rows = self.rows
        hits, chance = np.zeros(rows, dtype=np.int64), np.zeros(rows)
        low, high, middle = np.full(rows, np.inf), np.full(rows, -np.inf), np.zeros(rows)
        place_of = None if self.measure is None else self.names.index(self.measure)
        for combination in self._truths:
            pairs = list(enumerate(combination))
            reach = np.logical_and.reduce([reached[at][kind] for at, kind in pairs])
            weight = np.multiply.reduce([shares[at][kind] for at, kind in pairs])
            hits += reach
            chance += weight
            if place_of is not None:
                ends = [end[combination[place_of]] for end in self.kinds[place_of].ends]
                np.minimum(low, np.where(reach, ends[0], np.inf), out=low)
                np.maximum(high, np.where(reach, ends[1], -np.inf), out=high)
                middle += np.where(reach, weight * ends[2], 0.0)
        if place_of is not None:
            known = self.kinds[place_of].known
            unknown = known.vague[known.labels] & (hits > 0)
            low[unknown], high[unknown] = np.nan, np.nan
        total = np.multiply.reduce([one.sum(axis=0) for one in reached])
        middle = np.divide(middle, chance, out=np.zeros(rows), where=chance > 0)
        return Selected(hits == total, hits > 0, np.minimum(chance, 1.0), low, high, middle)

    def _given(self, fixed: tuple[str, Any] | None) -> tuple[list[NDArray[np.bool_]], list[Floats]]:
        reached = [kinds.reached for kinds in self.kinds]
        shares = [kinds.shares for kinds in self.kinds]
        if fixed is not None:
            name, leaf = fixed
            place = self.names.index(name)
            only = np.zeros_like(reached[place])
            only[self.kinds[place].kind[leaf]] = True
            reached[place], shares[place] = only, only.astype(np.float64)
        return reached, shares
