"""Prediction: a model that is trained on the release guesses the sensitive value of people.

*Attacker*: has the release, and knows the quasi-identifiers of people. A person who fits released
rows is guessed by their values; a person who fits none, by naive Bayes over all released rows.
*Success*: the share of people of the original who are guessed rightly. A column with more than ten
ordered values is guessed as above its median or not.
*Baseline*: always guessing the commonest value of the release.
*Control*: the same model on people who are not in the data (`control`). A model knows of them what
holds in the world; only the excess is about the people of the release.
*Victims*: none for certain.
*Reference*: Giomi, Boenisch, Wehmeyer and Tasnadi, A unified framework for quantifying privacy risk
in synthetic data, 2023, for the control.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.attack.case import cannot_run, needed, needed_quasi, needed_sensitive
from sfumato.attack.classes import boxes_of
from sfumato.attack.finding import Finding, Rate, of_columns
from sfumato.attack.matching import fitting
from sfumato.data.schema.column import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.attack.case import Case, HeldTable
    from sfumato.attack.classes import BoxColumn, Boxes
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.schema.column import Column


NAME = "predict"
# An ordered column with more values is guessed by its halves: single values would be guessed by
# luck.
_MOST_VALUES = 10


def run(case: Case) -> Finding:
    """Train on the release, and guess people's values."""
    original = needed(case.original, NAME, "the original, to score the guesses", "original")
    if case.release.buckets is not None:
        raise cannot_run(NAME, "an anatomy keeps values apart from rows; see definetti.")
    tables = [original, *([] if case.control is None else [case.control])]
    quasi = needed_quasi(case, NAME, *tables)
    columns = [
        column
        for column in needed_sensitive(case, NAME)
        if all(column.name in table.names for table in tables)
    ]
    if not columns:
        raise cannot_run(NAME, "the other tables have no sensitive column of the release.")
    return of_columns(
        {column.name: _attack_column(case, tables, quasi, column) for column in columns}
    )


def _attack_column(
    case: Case, tables: Sequence[HeldTable], quasi: Sequence[Column], column: Column
) -> Finding:
    names = [column.name for column in quasi]
    released = case.release.table.counted([*names, column.name])
    real = [table.counted([*names, column.name]) for table in tables]
    meanings = Meanings.of(released, column)
    model = LookedUp.of(released, quasi, real, meanings)
    rates = []
    for table in real:
        truth = meanings.codes(table)
        rates.append(
            Rate.share(float(table.counts[model.guess(table) == truth].sum()), table.total)
        )
    common = int(np.bincount(meanings.codes(released), released.counts).argmax())
    truth = meanings.codes(real[0])
    remarks = [f"Guessed by {', '.join(names)}: {meanings.description}."]
    if len(rates) < 2:
        remarks.append(
            "A control group of people who are not in the data would show how much of this the "
            "model knows about anyone."
        )
    return Finding(
        attack=NAME,
        attacker=f"has the release, and knows {', '.join(names)} of people",
        meaning=f"People whose {column.name} is guessed right",
        success=rates[0],
        baseline=Rate.share(float(real[0].counts[truth == common].sum()), real[0].total),
        control=rates[1] if len(rates) > 1 else None,
        remarks=remarks,
        rows=released.total + sum(table.total for table in real),
        reference="Giomi et al. 2023",
    )


@dataclass(frozen=True, eq=False)
class Meanings:
    """The classes that are guessed: the values of a column, or above and below its median."""

    column: str
    known: dict[Any, int]
    middle: Any

    @classmethod
    def of(cls, released: Frequencies, column: Column) -> Meanings:
        """Number the values of the release."""
        marginal = released.marginal([column.name])
        values = marginal.axes[0].decode(marginal.codes[0]).to_pylist()
        ordered = column.kind in (Kind.INTEGER, Kind.REAL, Kind.DATE)
        if not ordered or len(values) <= _MOST_VALUES:
            return cls(column.name, {value: code for code, value in enumerate(values)}, None)
        line = [
            (value, counts)
            for value, counts in zip(values, marginal.counts, strict=True)
            if value is not None
        ]
        line.sort(key=lambda pair: pair[0])
        half = np.cumsum([row_count for _, row_count in line])
        middle = line[int(np.searchsorted(half, half[-1] / 2))][0]
        return cls(column.name, {"up to the middle": 0, "above it": 1, None: 2}, middle)

    @property
    def count(self) -> int:
        """The number of different guesses."""
        return len(self.known)

    @property
    def description(self) -> str:
        """A text about what is guessed."""
        if self.middle is not None:
            return f"whether {self.column} is above {self.middle}"
        return f"{self.column}, which has {self.count:,} values"

    def codes(self, table: Frequencies) -> IntArray:
        """Return the class of each combination; -1 for a value that was never released."""
        axis = table.columns.index(self.column)
        present, numbers = np.unique(table.codes[axis], return_inverse=True)
        values = table.axes[axis].decode(present).to_pylist()
        if self.middle is None:
            codes_present = [self.known.get(value, -1) for value in values]
        else:
            codes_present = [2 if value is None else int(value > self.middle) for value in values]
        codes: IntArray = np.array(codes_present, dtype=np.int64)[numbers]
        return codes


@dataclass(frozen=True, eq=False)
class LookedUp:
    """A model: released rows that people fit, and naive Bayes for those who fit none."""

    rows: Boxes
    values: IntArray
    width: int
    likely: tuple[FloatArray, ...]
    prior: FloatArray

    @classmethod
    def of(
        cls,
        released: Frequencies,
        quasi: Sequence[Column],
        people: Sequence[Frequencies],
        meanings: Meanings,
    ) -> LookedUp:
        """Learn from a release; `people` are the tables whose people will be guessed."""
        rows = boxes_of(released, quasi, people)
        values, width = meanings.codes(released), meanings.count
        # Laplace smoothing.
        prior = np.bincount(values, released.counts, width).astype(np.float64) + 1.0
        likely = tuple(_likelihood(column, rows.sizes, values, width) for column in rows.columns)
        return cls(rows, values, width, likely, prior)

    def guess(self, people: Frequencies) -> IntArray:
        """Return the likeliest value of each combination."""
        points = self.rows.locate(people)
        fits = np.zeros((len(people), self.width))
        for mine, theirs in fitting(points, self.rows):
            np.add.at(fits, (mine, self.values[theirs]), self.rows.sizes[theirs])
        logs = np.tile(np.log(self.prior), (len(people), 1))
        for leaves, table in zip(points, self.likely, strict=True):
            logs += np.where(leaves[:, None] >= 0, table[leaves], 0.0)
        # Where several values of the fitting rows are as common, naive Bayes decides.
        strength = fits.max(axis=1, keepdims=True)
        logs[fits < strength] = -np.inf
        best: IntArray = logs.argmax(axis=1)
        return best


def _likelihood(column: BoxColumn, sizes: IntArray, values: IntArray, width: int) -> FloatArray:
    """Return the logarithm of how common each leaf is among released rows with each value."""
    rows = np.zeros((len(column.covers.starts), width))
    np.add.at(rows, (column.labels, values), sizes)
    spread = column.over_leaves(rows / column.covers.leaves[:, None]) + 1.0
    # log P(leaf | value), smoothed by one row for each leaf.
    log_shares: FloatArray = np.log(spread / spread.sum(axis=0))
    return log_shares
