"""Randomized response over k values: each person's answer is true with a known probability."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import ParameterError
from sfumato.exact_numbers import integer_at_least, store, store_positive
from sfumato.privacy.accounting import events
from sfumato.privacy.mechanisms.base import check_beta, integers
from sfumato.privacy.noise.selection import choose_within, uniform_integers

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import ArrayLike

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.privacy.noise.entropy import Entropy


@dataclass(frozen=True, kw_only=True)
class RandomizedResponse:
    """Tell the truth with probability e^epsilon / (e^epsilon + k - 1), else any other value.

    *Guarantee*: epsilon-differential privacy of each person's own answer, whoever collects it
    (replace-one; that a person answers at all is not hidden). Answering twice costs twice.
    *Sensitivity*: None to establish: a person answers with one of k values.
    *Error*: The frequency of a rare value among n answers is estimated without bias, with standard
    deviation sqrt(n q (1 - q)) / (p - q), p and q the probabilities of a true and of one given
    false answer; for k = 2 sqrt(n p (1 - p)) / (2p - 1).
    *Edges*: Values are coded 0, ..., k - 1; a code outside is refused, which its owner alone sees.
    *Reference*: Warner 1965; Kairouz, Oh & Viswanath 2014 for k values.
    """

    epsilon: Fraction
    categories: int

    def __post_init__(self) -> None:
        store_positive(self, "epsilon")
        store(self, categories=integer_at_least(self.categories, "categories", least=2))

    @property
    def event(self) -> events.RandomizedResponseEvent:
        """The cost of one answer to the person who gives it."""
        return events.RandomizedResponseEvent(epsilon=self.epsilon, categories=self.categories)

    @property
    def truth(self) -> float:
        """The probability of a true answer."""
        return 1 / (1 + (self.categories - 1) * math.exp(-float(self.epsilon)))

    @property
    def falsehood(self) -> float:
        """The probability of one given false answer."""
        return math.exp(-float(self.epsilon)) * self.truth

    def sample(self, values: ArrayLike, entropy: Entropy) -> IntArray:
        """Randomize each person's value on its own."""
        truths = integers(values, "values")
        if ((truths < 0) | (truths >= self.categories)).any():
            raise ParameterError(
                "value_outside_domain",
                f"Values must be coded 0 to {self.categories - 1}; at least one is not.",
            )
        # One choice per person: the truth with score 1 and weight 1, or any other value with score
        # 0 and weight k - 1; then a uniform one among those others.
        starts = 2 * np.arange(truths.size)
        chosen = choose_within(
            np.tile([1, 0], truths.size),
            starts,
            rate=self.epsilon,
            weights=np.tile(np.array([1, self.categories - 1], dtype=object), truths.size),
            entropy=entropy,
        )
        shift = 1 + uniform_integers(self.categories - 1, truths.size, entropy)
        offsets = (chosen - starts) * shift
        return (truths.astype(np.int64) + offsets.reshape(truths.shape)) % self.categories

    def estimate(self, counts: ArrayLike) -> FloatArray:
        """Estimate without bias how many people hold each value, from the counts of the answers."""
        answers = np.asarray(counts, dtype=np.float64)
        total = answers.sum(axis=-1, keepdims=True)
        return np.asarray((answers - total * self.falsehood) / (self.truth - self.falsehood))

    def stddev(self, people: int) -> float:
        """The standard deviation of the estimated count of a value that nobody holds."""
        spread = people * self.falsehood * (1 - self.falsehood)
        return math.sqrt(spread) / (self.truth - self.falsehood)

    def bound(self, beta: float, *, people: int) -> float:
        """Give an error of an estimated count, exceeded with probability at most beta."""
        # Hoeffding: the answers are independent and each counts 0 or 1.
        deviation = math.sqrt(people * math.log(2 / check_beta(beta)) / 2)
        return deviation / (self.truth - self.falsehood)
