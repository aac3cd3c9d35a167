"""The sparse vector technique: only queries above a threshold consume the budget."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.exact_numbers import integer_at_least, store, store_positive
from sfumato.privacy.accounting.events import PureEvent
from sfumato.privacy.mechanisms.base import add, check_beta, integers
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.noise.discrete import discrete_laplace

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from sfumato.arrays import IntArray
    from sfumato.privacy.noise.entropy import Entropy

BELOW, ABOVE, STOPPED = 0, 1, -1


@dataclass(frozen=True, kw_only=True)
class SparseVector:
    """Report for each query whether it is above the threshold, until `cutoff` of them were.

    *Guarantee*: epsilon (+ numeric_epsilon)-differential privacy for any number of queries, asked
    one after the other in view of earlier answers, under the neighbour relation for which the
    sensitivity holds. The threshold's noise is drawn once and costs t; each query's noise is fresh,
    of scale 2 cutoff sensitivity / (epsilon - t), or half of that for monotone queries.
    *Sensitivity*: The largest change of any query by one person; established by the caller. Queries
    are monotone when one person moves all of them the same way.
    *Error*: With probability 1 - beta, every one of k queries is judged correctly that is further
    from the threshold than about (threshold's scale + query's scale) log(2 k / beta).
    *Edges*: After the last positive answer every query is answered STOPPED. Numeric answers get
    fresh noise from a share of their own: releasing the compared value would void the proof.
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
        store(self, cutoff=integer_at_least(self.cutoff, "cutoff", least=1))
        if self.numeric_epsilon is not None:
            store_positive(self, "numeric_epsilon")

    @property
    def event(self) -> PureEvent:
        """The cost of the whole run, for any number of queries."""
        return PureEvent(epsilon=self.epsilon + (self.numeric_epsilon or 0))

    @property
    def threshold_epsilon(self) -> Fraction:
        """The threshold's share of epsilon. Every split is private; this one errs least."""
        changes = self.cutoff if self.monotone else 2 * self.cutoff
        # Rounded to 20 binary digits: the split must be rational, and its optimum is flat.
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
        """Begin one run, or several independent ones, against a public threshold."""
        noise = discrete_laplace(self.threshold_scale, runs, entropy)
        lines = add(integers(np.full(runs, threshold), "threshold"), noise)
        return SparseVectorRun(self, lines, np.zeros(runs, dtype=np.int64), entropy)

    def sample(self, values: ArrayLike, entropy: Entropy, *, threshold: int = 0) -> Judgement:
        """Judge the queries of each row of a (runs, queries) array in their order."""
        queries = integers(values, "values", dimensions=2)
        session = self.start(threshold, entropy, runs=len(queries))
        answers = [session.ask(column) for column in queries.T]
        verdicts = np.stack([answer.verdicts for answer in answers], axis=1)
        if self.numeric_epsilon is None:
            return Judgement(verdicts, None)
        numbers = [answer.numbers for answer in answers if answer.numbers is not None]
        return Judgement(verdicts, np.stack(numbers, axis=1))

    def bound(self, beta: float, *, queries: int) -> float:
        """Give a distance from the threshold beyond which all queries are judged correctly.

        It fails with probability at most beta.
        """
        half = check_beta(beta) / 2
        threshold = Geometric(epsilon=1 / self.threshold_scale).bound(half)
        return threshold + Geometric(epsilon=1 / self.query_scale).bound(half / queries)


@dataclass(frozen=True)
class Judgement:
    """Verdicts; with a numeric epsilon also a number for each ABOVE, 0 elsewhere."""

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
        # The numeric share pays for `cutoff` numbers; never more than that many are above.
        scale = self.mechanism.cutoff * self.mechanism.sensitivity / share
        fresh = discrete_laplace(scale, len(private), self.entropy)
        return Judgement(verdicts, np.where(above, add(private, fresh), 0))
