"""Where the private table is touched: two operations, each paid for out of one charge.

A selection never sees an exact count. It asks for a table, which comes with noise and is written
into the log, or for a choice among candidates, which comes as an index. The charge was made before
the first of them, for all of them together; the purse pays each one out of it and refuses what
would pass it, whatever a selection wants to do.

Decision `synthesis`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sfumato.data.counting.frequencies import Frequencies
from sfumato.data.counting.grouping import keys
from sfumato.errors import InternalError
from sfumato.methods.synth.measurement_log import MeasuredTable, MeasurementLog
from sfumato.privacy.mechanisms.gaussian import Gaussian
from sfumato.privacy.mechanisms.selection import Exponential

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sfumato.arrays import IntArray
    from sfumato.data.counting.frequencies import Counter
    from sfumato.data.schema.unit import Sensitivity
    from sfumato.methods.synth.measurement_log import ColumnSet, TableShape
    from sfumato.privacy.mechanisms.spending import Noise, Spending
    from sfumato.privacy.noise.entropy import Entropy


def mean_noise(noise: Noise) -> float:
    """The mean size of a noise."""
    return noise.stddev * (math.sqrt(2 / math.pi) if isinstance(noise, Gaussian) else 0.5**0.5)


class Charge:
    """What was charged, and how much of it is left, as a share from 1 down to 0."""

    def __init__(self) -> None:
        self.remaining = Fraction(1)

    def spend(self, share: Fraction) -> None:
        """Take a share out; what is not there is refused, before anything is drawn."""
        if not 0 < share <= self.remaining:
            raise InternalError(
                "internal",
                f"A share of {float(share):.6g} of the charge was asked for, "
                f"but {float(self.remaining):.6g} is left.",
            )
        self.remaining -= share


class Scoring(Protocol):
    """Whole-number scores of some candidates, and how far one person moves any of them."""

    @property
    def candidates(self) -> int:
        """How many candidates there are."""
        ...

    def sensitivity(self, table: Sensitivity) -> Fraction:
        """The most that one person moves a score, given how far it moves one table."""
        ...

    def scores(self, exact: ExactTables) -> IntArray:
        """The score of every candidate; the higher the better."""
        ...


@dataclass(frozen=True)
class Misfit:
    """How far whole-number guesses of tables are off: w (|M(D) - guess|_1 - allowance).

    *Sensitivity*: the largest weight w, times how far a person moves a table in L1: 1 for each row
    that is added or removed. Guesses are made from what was released before, and rounded to whole
    numbers; allowances are public. A score can go up or down: it is not monotone.
    """

    sets: Sequence[ColumnSet]
    guesses: Sequence[IntArray]
    allowances: Sequence[int]
    weights: Sequence[int]
    stop: int | None = None
    """The score of one more candidate, the last, which is to choose none of them; public."""

    @property
    def candidates(self) -> int:
        """How many candidates there are."""
        return len(self.sets) + (self.stop is not None)

    def sensitivity(self, table: Sensitivity) -> Fraction:
        """The most that one person moves a score."""
        return max(self.weights) * table.l1

    def scores(self, exact: ExactTables) -> IntArray:
        """The score of every candidate."""
        scores = [
            weight * (int(np.abs(exact.of(columns) - guess).sum()) - allowance)
            for columns, guess, allowance, weight in zip(
                self.sets, self.guesses, self.allowances, self.weights, strict=True
            )
        ]
        return np.array(scores if self.stop is None else [*scores, self.stop], dtype=np.int64)


class Workbench:
    """The exact tables, the purse and the log of one synthesis."""

    def __init__(
        self,
        shape: TableShape,
        counter: Counter,
        spending: Spending,
        sensitivity: Sensitivity,
        entropy: Entropy,
    ) -> None:
        self.shape = shape
        self.log = MeasurementLog(shape)
        self.charge = Charge()
        self._exact = ExactTables(shape, counter)
        self._spending, self._sensitivity, self._entropy = spending, sensitivity, entropy

    @property
    def power(self) -> int:
        """Variance falls with this power of a share: 1 of a rho, 2 of an epsilon."""
        return 1 if self._spending.epsilon is None else 2

    def noise(self, share: Fraction) -> Noise:
        """The noise that a share of the charge pays for, on one table."""
        return self._spending.noise(self._sensitivity, share)

    def magnitude(self, share: Fraction) -> float:
        """The mean size of that noise in a cell."""
        return mean_noise(self.noise(share))

    def measure(self, columns: ColumnSet, share: Fraction) -> MeasuredTable:
        """Count a set of columns with the noise that a share pays for, into the log."""
        noise = self.noise(share)
        self.charge.spend(share)
        noisy = noise.steps(self._exact.of(columns), self._entropy)
        table = MeasuredTable(columns, noisy.astype(float), noise.variance, noise.event)
        self.log.add(table)
        return table

    def choose(self, scoring: Scoring, share: Fraction) -> int:
        """Choose a candidate by its score with the exponential mechanism that a share pays for."""
        choice = self.mechanism(scoring, share)
        self.charge.spend(share)
        return int(choice.sample(scoring.scores(self._exact), self._entropy))

    def mechanism(self, scoring: Scoring, share: Fraction) -> Exponential:
        """What a share pays for. No score is monotone: a row may bring a guess nearer or not."""
        return Exponential(
            epsilon=self._spending.choice_epsilon(share),
            candidates=scoring.candidates,
            sensitivity=scoring.sensitivity(self._sensitivity),
        )

    def stopping(self, candidates: int, share: Fraction, *, weight: int = 1) -> int:
        """The score by which stopping is as likely as so many candidates of score 0 together."""
        epsilon = self._spending.choice_epsilon(share)
        return round(2 * weight * self._sensitivity.l1 * math.log(candidates) / epsilon)

    def expect(self, sets: list[ColumnSet]) -> None:
        """Say which sets will be asked for, so that they are counted together."""
        self._exact.expect(sets)


# The exact tables of sets of columns. Private: only the workbench asks for them.

_PASSAGE_CELLS = 1 << 20
"""Cells of a table of which several are added up: one passage over the data."""
_CACHED_CELLS = 1 << 25
"""Cells of tables that are kept for the next choice."""


class ExactTables:
    """Tables asked of a counter, each counted once; several small ones in one passage."""

    def __init__(self, shape: TableShape, counter: Counter) -> None:
        self._shape, self._counter = shape, counter
        self._tables: dict[ColumnSet, IntArray] = {}
        self._counted: tuple[ColumnSet, Frequencies] | None = None
        self._room = _CACHED_CELLS
        if isinstance(counter, Frequencies):
            self._counted = shape.columns, counter.of(shape.names)

    def of(self, columns: ColumnSet) -> IntArray:
        """The table of some columns, every cell of it."""
        table = self._tables.get(columns)
        if table is None:
            table = self._table(columns)
            if table.size <= self._room:
                self._tables[columns] = table
                self._room -= table.size
        return table

    def expect(self, sets: Iterable[ColumnSet]) -> None:
        """Count sets that will be asked for, as many as possible in each passage."""
        new = [columns for columns in dict.fromkeys(sets) if columns not in self._tables]
        if isinstance(self._counter, Frequencies):
            return
        while new:
            cover = new[0]
            for columns in new[1:]:
                union = tuple(sorted({*cover, *columns}))
                if self._shape.cells(union) <= _PASSAGE_CELLS:
                    cover = union
            self._counted = cover, self._ask(cover)
            for columns in [columns for columns in new if set(columns) <= set(cover)]:
                self.of(columns)
            new = [columns for columns in new if not set(columns) <= set(cover)]
        self._counted = None

    def _ask(self, columns: ColumnSet) -> Frequencies:
        return self._counter.of([self._shape.names[column] for column in columns])

    def _table(self, columns: ColumnSet) -> IntArray:
        if self._counted is None or not set(columns) <= set(self._counted[0]):
            return self._ask(columns).dense()
        counted_columns, counted = self._counted
        return _summed(counted, [counted_columns.index(column) for column in columns])


def _summed(counts: Frequencies, columns: Sequence[int]) -> IntArray:
    """The table of some columns of what was counted."""
    sizes = [counts.sizes[column] for column in columns]
    table = np.zeros(sizes, dtype=np.int64)
    if not columns:
        table[...] = counts.total
        return table
    key, _ = keys([counts.codes[column] for column in columns], sizes)
    if counts.total < 1 << 53:  # sums of floats are exact
        summed = np.bincount(key, weights=counts.counts, minlength=table.size)
        return summed.astype(np.int64).reshape(sizes)
    np.add.at(table.reshape(-1), key, counts.counts)
    return table
