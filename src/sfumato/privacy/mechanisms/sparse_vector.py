"""The sparse vector technique: pay only for the answers that lie above a threshold."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.exact_numbers import store, store_positive
from sfumato.privacy.accounting.events import PureEvent
from sfumato.privacy.mechanisms.base import add, check_beta, integers, whole
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.noise.discrete import discrete_laplace

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from sfumato.arrays import IntArray
    from sfumato.privacy.noise.entropy import Entropy

BELOW, ABOVE, STOPPED = 0, 1, -1


@dataclass(frozen=True, kw_only=True)
class SparseVector:
    """Say of each query whether it lies above the threshold, until `cutoff` of them did.

    *Guarantee*: epsilon (+ numeric_epsilon)-differential privacy for any number of queries, asked
    one after the other in view of earlier answers, under the neighbour relation for which the
    sensitivity holds. The threshold's noise is drawn once and costs t; each query's noise is fresh,
    of scale 2 cutoff sensitivity / (epsilon - t), or half of that for monotone queries.
    *Sensitivity*: The largest change of any query by one person; established by the caller. Queries
    are monotone when one person moves all of them the same way.
    *Error*: With probability 1 - beta no one of k queries is misjudged that is further from the
    threshold than about (scale of its noise + scale of a query's) log(2 k / beta).
    *Edges*: After the last positive answer every query is answered STOPPED. Numeric answers are
    made with fresh noise from a share of their own: the noise that was compared must never leave.
    *Reference*: Lyu, Su & Li 2017, Algorithm 7 and section 4.2 (the split 1 : (2c)^(2/3), for
    monotone queries 1 : c^(2/3)).
    """

    epsilon: Fraction
    cutoff: int
    sensitivity: Fraction = Fraction(1)
    monotone: bool = False
    numeric_epsilon: Fraction | None = None

    def __post_init__(self) -> None:
        store_positive(self, "epsilon", "sensitivity")
        store(self, cutoff=whole(self.cutoff, "cutoff", least=1))
        if self.numeric_epsilon is not None:
            store_positive(self, "numeric_epsilon")

    @property
    def event(self) -> PureEvent:
        """What the whole run costs, however many queries there are."""
        return PureEvent(epsilon=self.epsilon + (self.numeric_epsilon or 0))

    @property
    def threshold_epsilon(self) -> Fraction:
        """The share of the threshold's noise; any split is private, this one errs least."""
        changes = self.cutoff if self.monotone else 2 * self.cutoff
        ratio = Fraction(round(changes ** (2 / 3) * 2**20), 2**20)
        return self.epsilon / (1 + ratio)

    @property
    def threshold_scale(self) -> Fraction:
        """The scale of the threshold's noise."""
        return self.sensitivity / self.threshold_epsilon

    @property
    def query_scale(self) -> Fraction:
        """The scale of each query's noise."""
        changes = self.cutoff if self.monotone else 2 * self.cutoff
        return changes * self.sensitivity / (self.epsilon - self.threshold_epsilon)

    def start(self, threshold: int, entropy: Entropy, *, runs: int = 1) -> SparseVectorRun:
        """Begin a run (or several independent ones) against a public threshold."""
        noise = discrete_laplace(self.threshold_scale, runs, entropy)
        lines = add(integers(np.full(runs, threshold), "threshold"), noise)
        return SparseVectorRun(self, lines, np.zeros(runs, dtype=np.int64), entropy)

    def sample(self, values: ArrayLike, entropy: Entropy, *, threshold: int = 0) -> Judgement:
        """Judge the queries of each row of a (runs, queries) array in their order."""
        queries = integers(values, "values", dimensions=2)
        session = self.start(threshold, entropy, runs=len(queries))
        asked = [session.ask(column) for column in queries.T]
        verdicts = np.stack([answer.verdicts for answer in asked], axis=1)
        if self.numeric_epsilon is None:
            return Judgement(verdicts, None)
        numbers = [answer.numbers for answer in asked if answer.numbers is not None]
        return Judgement(verdicts, np.stack(numbers, axis=1))

    def bound(self, beta: float, *, queries: int) -> float:
        """Give a distance from the threshold beyond which all judgements are right but for beta."""
        half = check_beta(beta) / 2
        threshold = Geometric(epsilon=1 / self.threshold_scale).bound(half)
        return threshold + Geometric(epsilon=1 / self.query_scale).bound(half / queries)


@dataclass(frozen=True)
class Judgement:
    """Verdicts, and where numbers were paid for a number beside each ABOVE and 0 elsewhere."""

    verdicts: IntArray
    numbers: NDArray[Any] | None


@dataclass
class SparseVectorRun:
    """A run that has begun; each query may depend on the answers before it."""

    mechanism: SparseVector
    lines: NDArray[Any]
    positives: IntArray
    entropy: Entropy

    def ask(self, values: ArrayLike) -> Judgement:
        """Judge one query, given by its value in each run."""
        private = integers(values, "values", dimensions=1)
        noise = discrete_laplace(self.mechanism.query_scale, len(private), self.entropy)
        running = self.positives < self.mechanism.cutoff
        above = np.asarray(add(private, noise) >= self.lines) & running
        self.positives = self.positives + above
        verdicts = np.where(running, np.where(above, ABOVE, BELOW), STOPPED)
        share = self.mechanism.numeric_epsilon
        if share is None:
            return Judgement(verdicts, None)
        # One share pays for `cutoff` numbers, and no more than that many are ever above.
        scale = self.mechanism.cutoff * self.mechanism.sensitivity / share
        fresh = discrete_laplace(scale, len(private), self.entropy)
        return Judgement(verdicts, np.where(above, add(private, fresh), 0))
