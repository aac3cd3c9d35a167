"""Naive Bayes: classes by what each feature says on its own, from noisy tables of counts.

Decision `learn-tables`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.data.schema.unit import Neighbours
from sfumato.methods.learn.bins import (
    MOST_BINS,
    BinnedSpace,
    ClassCounter,
    ClassLabels,
    table_sensitivity,
)
from sfumato.methods.learn.model import ClassModel, words
from sfumato.methods.learn.row_sums import whole_row
from sfumato.methods.options import whole
from sfumato.privacy.accounting.events import Composed, Repeated
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.mechanisms.selection import Exponential
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.schema.unit import Unit
    from sfumato.methods.learn.request import LearningRequest
    from sfumato.methods.method import SaltedData
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.mechanisms.spending import Noise, Spending
    from sfumato.privacy.noise.entropy import Entropy

ASSUMED_ROWS = 1_000
"""How many rows are taken to be there, to choose by, where the schema does not declare it."""

_CHOOSING = Fraction(2, 5)
"""The share of the budget that pays for the choice of features, where features are chosen."""

_CLEAR = 10.0
"""Features are chosen so that a class has so many rows for each row of the noise's scale."""


@dataclass(frozen=True)
class NaiveBayes:
    """Count rows by class and bin of each feature with noise; of many features, of the best alone.

    *Guarantee*: the price in full: a share for the choice of features, if any, and equal shares for
    the tables that are counted, each of which has every person.
    *Sensitivity*: of each table, under the privacy unit: m rows a person in L1 and L2, 2 m and
    m sqrt(2) where people are replaced. A feature's score, the rows that guessing the commonest
    class of each bin gets right, moves by at most m, and never down where a person is added.
    *Error*: `error` states how far a count is off. A chosen score is below the best by more than
    log(features / beta) / rate with probability at most beta (`Exponential`).
    *Edges*: rows without a declared class are left out. A feature of one bin tells nothing. Of no
    rows at all the noise alone is learnt. Bins and the number of features follow from declared
    rows (1,000 where none are), classes, features and price, never from data.
    *Reference*: Vaidya, Shafiq, Basu & Hong 2013, with counts in place of moments; McSherry &
    Talwar 2007 for the choice.
    """

    request: LearningRequest
    space: BinnedSpace
    labels: ClassLabels
    spending: Spending
    kept: int
    """How many features are counted: all, or those that are chosen."""

    @property
    def _chooses(self) -> bool:
        return self.kept < len(self.space.sizes)

    @cached_property
    def noise(self) -> Noise:
        """The noise of each table that is counted."""
        share = (1 - _CHOOSING if self._chooses else Fraction(1)) / self.kept
        return self.spending.noise(table_sensitivity(self.request.unit), share)

    def choice(self, candidates: int) -> Exponential:
        """The choice of one feature among some."""
        unit = self.request.unit
        return Exponential(
            epsilon=self.spending.choice_epsilon(_CHOOSING / self.kept),
            candidates=candidates,
            sensitivity=Fraction(unit.max_rows * whole_row(unit)),
            monotone=unit.relation is Neighbours.ADD_REMOVE,
        )

    @property
    def event(self) -> Event:
        """What it costs."""
        counted = Repeated(self.noise.event, self.kept)
        if not self._chooses:
            return counted
        return Composed((Repeated(self.choice(len(self.space.sizes)).event, self.kept), counted))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """How features are cut, and how many are counted."""
        return {"bins": list(self.space.sizes), "most": self.kept, "classes": words(self.labels)}

    @property
    def sd(self) -> float:
        """How far a count is off, in rows."""
        return self.noise.stddev / whole_row(self.request.unit)

    @property
    def error(self) -> Mapping[str, Any]:
        """How far the counts are off."""
        bound = self.noise.bound(0.05) / whole_row(self.request.unit)
        return {"count": {"sd": self.sd, "bound95": bound}, "features": self.kept}

    @property
    def facts(self) -> Mapping[str, Any]:
        """How columns are read, which classes there are, and how far counts are off."""
        return {**self.space.facts(), "classes": self.labels.facts(), "sd": self.sd}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The table that will be released, without a row."""
        return {"counts": self._table([], [])}

    def release(self, salted: SaltedData, entropy: Entropy) -> Mapping[str, pa.Table]:
        """The noisy counts of every feature that is kept. Nothing is drawn of rows: no salt."""
        counter = ClassCounter(salted.data, self.space, self.labels)
        tables = counter.tables(counter.bins)
        places = self._choose(tables, entropy)
        exact = np.concatenate([tables[place].ravel() for place in places])
        noisy = np.asarray(
            self.noise.steps(exact, entropy) / whole_row(salted.data.unit), dtype=float
        )
        return {"counts": self._table(places, noisy)}

    def _choose(self, tables: Sequence[IntArray], entropy: Entropy) -> list[int]:
        """Which features are kept, in their order."""
        left, chosen = list(range(len(tables))), []
        if not self._chooses:
            return left
        scores = np.array([table.max(axis=0).sum() for table in tables])
        for _ in range(self.kept):
            first = self.choice(len(left)).sample(scores[left][None], entropy)
            chosen.append(left.pop(int(first[0])))
        return sorted(chosen)

    def _table(self, places: Sequence[int], counts: FloatArray | list[float]) -> pa.Table:
        """One row for every feature, class and bin."""
        names: list[str] = []
        classes: list[str] = []
        bins: list[int] = []
        for place in places:
            size = self.space.sizes[place]
            for word in words(self.labels):
                names += [self.space.names[place]] * size
                classes += [word] * size
                bins += range(size)
        return pa.table(
            {
                "feature": pa.array(names, pa.string()),
                "class": pa.array(classes, pa.string()),
                "bin": pa.array(bins, pa.int64()),
                "count": pa.array(counts, pa.float64()),
            }
        )


class NaiveBayesModel(ClassModel):
    """Chances of classes as products of what each feature says."""

    def check(self) -> None:
        """Refuse counts that are not those of some of the features."""
        _ = self._logs

    @cached_property
    def _logs(self) -> tuple[list[int], FloatArray, list[FloatArray]]:
        """The features by place, the logarithms of classes, and of bins given a class."""
        table, classes = self.tables["counts"], len(self.labels)
        names, counts = table.column("feature").to_pylist(), table.column("count").to_numpy()
        places, found, at = [], [], 0
        while at < len(counts):
            place = self.space.names.index(names[at])
            size = self.space.sizes[place]
            found.append(counts[at : at + classes * size].reshape(classes, size))
            places.append(place)
            at += classes * size
        if not places or len(set(places)) < len(places) or not np.isfinite(counts).all():
            raise ValueError("no counts of features")
        prior, logs = log_chances(found, float(self.facts["sd"]))
        return places, prior, logs

    def scores(self, bins: IntArray) -> FloatArray:
        """The sum of logarithms."""
        places, prior, logs = self._logs
        scores = np.tile(prior, (len(bins), 1))
        for place, log in zip(places, logs, strict=True):
            scores += log[:, bins[:, place]].T
        return scores


def log_chances(tables: Sequence[FloatArray], sd: float) -> tuple[FloatArray, list[FloatArray]]:
    """The logarithm of each class's chance, and of each bin's given the class, of noisy counts.

    What a class has beyond its share of a bin is believed as far as it exceeds the noise, which is
    known: shrunk by signal / (signal + noise), the signal being what is left of the mean square,
    of the feature and of all features by halves (empirical Bayes). So noise alone tells nothing.
    """
    variance, classes = sd**2, len(tables[0])
    totals = _class_totals(tables, variance)
    around = max(variance * (1 - 1 / classes), 1e-12)
    shares, moved = [], []
    for table in tables:
        pooled = np.maximum(table.sum(axis=0), 0) + sd / 2 + 0.5
        shares.append(pooled / pooled.sum())
        moved.append(table - totals[:, None] * shares[-1])
    squares = [float(np.mean(one**2)) for one in moved]
    cells = [one.size for one in moved]
    every = max(float(np.average(squares, weights=cells)) - around, 0.0)
    logs = []
    for share, beyond, square in zip(shares, moved, squares, strict=True):
        signal = (every + max(square - around, 0.0)) / 2
        belief = signal / (signal + around)
        # What remains unknown of a cell is spread over all as the class-blind table says.
        unknown = (0.7 * math.sqrt(around * belief) + 0.5) * len(share) * share
        expected = np.maximum(totals[:, None] * share + belief * beyond, 0) + unknown
        logs.append(np.log(expected / expected.sum(axis=1, keepdims=True)))
    return np.log(totals / totals.sum()), logs


def _class_totals(tables: Sequence[FloatArray], variance: float) -> FloatArray:
    """How many rows each class has: the mean over the tables, drawn to each other by the noise."""
    # Tables of fewer bins tell totals with less noise.
    weights = np.array([1 / table.shape[1] for table in tables])
    totals = np.average([table.sum(axis=1) for table in tables], axis=0, weights=weights)
    noise = variance / float(weights.sum())
    middle = max(float(totals.mean()), 1.0)
    beyond = totals - middle
    signal = max(float(np.mean(beyond**2)) - noise, 0.0)
    drawn = middle + beyond * signal / (signal + noise + 1e-12)
    # No class is so rare as the noise could have made it look.
    return np.maximum(drawn, middle / 20) + math.sqrt(noise) / 2


def clarity(noise: Noise, unit: Unit, rows: int, classes: int) -> float:
    """How many rows a class has for each row of the noise's scale, if rows are spread evenly."""
    scale = float(noise.scale) if isinstance(noise, Geometric) else noise.stddev / math.sqrt(2)
    return rows * whole_row(unit) / scale / classes


def prepare(request: LearningRequest, *, bins: object = None, most: object = None) -> NaiveBayes:
    """Choose bins and how many features to count, by public facts alone.

    `bins` is how many stretches a number is cut into, `most` how many features are counted.
    """
    assert request.target is not None
    labels, features = ClassLabels.of(request.target), len(request.features)
    rows, sensitivity = request.rows or ASSUMED_ROWS, table_sensitivity(request.unit)
    offers = []
    for spending in spendings(request.price):
        clear = [
            clarity(spending.noise(sensitivity, Fraction(1, many)), request.unit, rows, len(labels))
            for many in range(1, features + 1)
        ]
        kept = max((many for many, one in enumerate(clear, 1) if one >= _CLEAR), default=1)
        offers.append((clear, features if 2 * kept >= features else kept, spending))
    clear, kept, spending = max(offers, key=lambda offer: offer[0][-1])
    if most is not None:
        kept = whole(most, "most", least=1, most=features)
    fine = 4 if kept < features else _fineness(clear[-1])
    cut = fine if bins is None else whole(bins, "bins", least=2, most=MOST_BINS)
    return NaiveBayes(request, BinnedSpace.of(request.features, cut), labels, spending, kept)


def _fineness(clear: float) -> int:
    """Into how many stretches numbers are cut, by how clear the counts of all features are."""
    return next((2**power for power, end in enumerate((12, 30, 300), 1) if clear < end), 16)


MODEL = NaiveBayesModel
