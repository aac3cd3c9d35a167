"""Naive Bayes from noisy counts of rows by class and bin of each feature.

Decision `learning`.
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
from sfumato.methods.learn.model import ClassModel, class_names
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
"""The number of rows that choices assume if the schema does not declare it."""

_CHOICE_SHARE = Fraction(2, 5)
"""The share of the budget for the choice of features, if features are chosen."""

_LEAST_CLARITY = 10.0
"""So many features are counted that a class still has so many rows per unit of noise scale."""


@dataclass(frozen=True)
class NaiveBayes:
    """Count rows by class and bin of each feature with noise; of many features only the best.

    *Guarantee*: the price in full: a share for the choice of features, if any, and equal shares for
    the tables that are counted, each of which has every person.
    *Sensitivity*: of each table, under the privacy unit: m rows a person in L1 and L2, 2 m and
    m sqrt(2) where people are replaced. A feature's score, the rows that guessing the commonest
    class of each bin gets right, moves by at most m, and never down where a person is added.
    *Error*: `error` states how far a count is off. A chosen score is below the best by more than
    log(features / beta) / rate with probability at most beta (`Exponential`).
    *Edges*: rows without a declared class are not counted. A feature of one bin predicts nothing.
    Without rows the model learns noise. Bins and the number of features follow from declared rows
    (1,000 if none are declared), classes, features and price, never from data.
    *Reference*: Vaidya, Shafiq, Basu & Hong 2013, with counts in place of moments; McSherry &
    Talwar 2007 for the choice.
    """

    request: LearningRequest
    space: BinnedSpace
    labels: ClassLabels
    spending: Spending
    feature_count: int
    """How many features are counted: all, or the chosen ones."""

    @property
    def _chooses(self) -> bool:
        return self.feature_count < len(self.space.sizes)

    @cached_property
    def noise(self) -> Noise:
        """The noise of each table that is counted."""
        share = (1 - _CHOICE_SHARE if self._chooses else Fraction(1)) / self.feature_count
        return self.spending.noise(table_sensitivity(self.request.unit), share)

    def choice(self, candidates: int) -> Exponential:
        """The exponential mechanism that chooses one of the remaining features."""
        unit = self.request.unit
        return Exponential(
            epsilon=self.spending.choice_epsilon(_CHOICE_SHARE / self.feature_count),
            candidates=candidates,
            sensitivity=Fraction(unit.max_rows * whole_row(unit)),
            monotone=unit.relation is Neighbours.ADD_REMOVE,
        )

    @property
    def event(self) -> Event:
        """What it costs."""
        counted = Repeated(self.noise.event, self.feature_count)
        if not self._chooses:
            return counted
        return Composed(
            (Repeated(self.choice(len(self.space.sizes)).event, self.feature_count), counted)
        )

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The bins of each feature, the number of counted features, and the classes."""
        return {
            "bins": list(self.space.sizes),
            "most": self.feature_count,
            "classes": class_names(self.labels),
        }

    @property
    def sd(self) -> float:
        """The standard deviation of a count, in rows."""
        return self.noise.stddev / whole_row(self.request.unit)

    @property
    def error(self) -> Mapping[str, Any]:
        """The noise of the counts, in rows."""
        bound = self.noise.bound(0.05) / whole_row(self.request.unit)
        return {"count": {"sd": self.sd, "bound95": bound}, "features": self.feature_count}

    @property
    def facts(self) -> Mapping[str, Any]:
        """The bins, the classes, and the standard deviation of the counts."""
        return {**self.space.facts(), "classes": self.labels.facts(), "sd": self.sd}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The table that will be released, without a row."""
        return {"counts": self._table([], [])}

    def release(self, salted: SaltedData, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Count the chosen features with noise. No row is sampled, so the salt is not used."""
        counter = ClassCounter(salted.data, self.space, self.labels)
        tables = counter.tables(counter.bins)
        chosen = self._choose(tables, entropy)
        exact = np.concatenate([tables[feature].ravel() for feature in chosen])
        noisy = np.asarray(
            self.noise.steps(exact, entropy) / whole_row(salted.data.unit), dtype=float
        )
        return {"counts": self._table(chosen, noisy)}

    def _choose(self, tables: Sequence[IntArray], entropy: Entropy) -> list[int]:
        """Choose the counted features, each by an exponential choice among the remaining ones."""
        candidates, chosen = list(range(len(tables))), []
        if not self._chooses:
            return candidates
        scores = np.array([table.max(axis=0).sum() for table in tables])
        for _ in range(self.feature_count):
            first = self.choice(len(candidates)).sample(scores[candidates][None], entropy)
            chosen.append(candidates.pop(int(first[0])))
        return sorted(chosen)

    def _table(self, chosen: Sequence[int], counts: FloatArray | list[float]) -> pa.Table:
        """One row for every feature, class and bin."""
        names: list[str] = []
        classes: list[str] = []
        bins: list[int] = []
        for feature in chosen:
            size = self.space.sizes[feature]
            for class_name in class_names(self.labels):
                names += [self.space.names[feature]] * size
                classes += [class_name] * size
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
    """Probabilities of classes as products of one factor for each feature."""

    def check(self) -> None:
        """Refuse counts that do not belong to distinct features."""
        _ = self._logs

    @cached_property
    def _logs(self) -> tuple[list[int], FloatArray, list[FloatArray]]:
        """The counted features, log P(class), and log P(bin | class) of each feature."""
        table, classes = self.tables["counts"], len(self.labels)
        names, counts = table.column("feature").to_pylist(), table.column("count").to_numpy()
        features, class_counts, start = [], [], 0
        while start < len(counts):
            feature = self.space.names.index(names[start])
            size = self.space.sizes[feature]
            class_counts.append(counts[start : start + classes * size].reshape(classes, size))
            features.append(feature)
            start += classes * size
        if not features or len(set(features)) < len(features) or not np.isfinite(counts).all():
            raise ValueError("counts of no distinct features")
        prior, logs = log_chances(class_counts, float(self.facts["sd"]))
        return features, prior, logs

    def scores(self, bins: IntArray) -> FloatArray:
        """log P(class) plus the sum of log P(bin | class) over the features."""
        features, prior, logs = self._logs
        scores = np.tile(prior, (len(bins), 1))
        for feature, bin_logs in zip(features, logs, strict=True):
            scores += bin_logs[:, bins[:, feature]].T
        return scores


def log_chances(tables: Sequence[FloatArray], sd: float) -> tuple[FloatArray, list[FloatArray]]:
    """Estimate log P(class) and log P(bin | class) from noisy counts, by empirical Bayes.

    The excess of a count over (rows of the class) x (share of the bin) is shrunk by
    signal / (signal + noise). The noise variance is known; the signal is the mean square of the
    excesses beyond it, half from this feature and half from all features. So a feature that is
    noise alone hardly changes a prediction.
    """
    variance, classes = sd**2, len(tables[0])
    totals = _class_totals(tables, variance)
    noise = max(variance * (1 - 1 / classes), 1e-12)
    shares, excesses = [], []
    for table in tables:
        pooled = np.maximum(table.sum(axis=0), 0) + sd / 2 + 0.5
        shares.append(pooled / pooled.sum())
        excesses.append(table - totals[:, None] * shares[-1])
    squares = [float(np.mean(table**2)) for table in excesses]
    weights = [table.size for table in excesses]
    mean_signal = max(float(np.average(squares, weights=weights)) - noise, 0.0)
    logs = []
    for share, excess, square in zip(shares, excesses, squares, strict=True):
        signal = (mean_signal + max(square - noise, 0.0)) / 2
        belief = signal / (signal + noise)
        # What remains unknown of a cell is spread over the bins by their share in all classes.
        unknown = (0.7 * math.sqrt(noise * belief) + 0.5) * len(share) * share
        expected = np.maximum(totals[:, None] * share + belief * excess, 0) + unknown
        logs.append(np.log(expected / expected.sum(axis=1, keepdims=True)))
    return np.log(totals / totals.sum()), logs


def _class_totals(tables: Sequence[FloatArray], variance: float) -> FloatArray:
    """The rows of each class: a weighted mean over the tables, shrunk towards equal classes."""
    # The variance of a total grows with the number of bins that are added up.
    weights = np.array([1 / table.shape[1] for table in tables])
    totals = np.average([table.sum(axis=1) for table in tables], axis=0, weights=weights)
    noise = variance / float(weights.sum())
    middle = max(float(totals.mean()), 1.0)
    deviations = totals - middle
    signal = max(float(np.mean(deviations**2)) - noise, 0.0)
    shrunk = middle + deviations * signal / (signal + noise + 1e-12)
    # A floor, because noise may make a class look rarer than it is.
    floor = min(middle / 20, 3 * math.sqrt(noise) + 0.5)
    return np.maximum(shrunk, floor) + math.sqrt(noise) / 2


def clarity(noise: Noise, unit: Unit, rows: int, classes: int) -> float:
    """The rows of a class per unit of the noise scale, if classes are equally large."""
    scale = float(noise.scale) if isinstance(noise, Geometric) else noise.stddev / math.sqrt(2)
    return rows * whole_row(unit) / scale / classes


def prepare(request: LearningRequest, *, bins: object = None, most: object = None) -> NaiveBayes:
    """Choose the bins and the number of counted features from public facts.

    `bins` is the number of bins of a numeric feature, `most` the number of counted features.
    """
    assert request.target is not None
    labels, features = ClassLabels.of(request.target), len(request.features)
    rows, sensitivity = request.rows or ASSUMED_ROWS, table_sensitivity(request.unit)
    offers = []
    for spending in spendings(request.price):
        clarities = [
            clarity(
                spending.noise(sensitivity, Fraction(1, count)), request.unit, rows, len(labels)
            )
            for count in range(1, features + 1)
        ]
        counted = max(
            (
                count
                for count, clarity_of_count in enumerate(clarities, 1)
                if clarity_of_count >= _LEAST_CLARITY
            ),
            default=1,
        )
        # Count all features unless that leaves less than half of them clear.
        offers.append((clarities, features if 2 * counted >= features else counted, spending))
    clarities, counted, spending = max(offers, key=lambda offer: offer[0][-1])
    if most is not None:
        counted = whole(most, "most", least=1, most=features)
    default_bins = 4 if counted < features else _default_bins(clarities[-1])
    bin_count = default_bins if bins is None else whole(bins, "bins", least=2, most=MOST_BINS)
    return NaiveBayes(
        request, BinnedSpace.of(request.features, bin_count), labels, spending, counted
    )


def _default_bins(clarity_of_counts: float) -> int:
    """The bins of a numeric feature, by the clarity of counts of all features."""
    return next(
        (2**power for power, limit in enumerate((12, 30, 300), 1) if clarity_of_counts < limit), 16
    )


MODEL = NaiveBayesModel
