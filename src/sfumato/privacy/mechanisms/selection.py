"""Private selection of one candidate by its score: exponential, noisy max, permute-and-flip."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import ParameterError
from sfumato.exact_numbers import integer_at_least, positive, store, store_positive
from sfumato.privacy.accounting.events import ExponentialChoice, PureEvent
from sfumato.privacy.mechanisms.base import add, check_beta, integers
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.noise.discrete import discrete_laplace
from sfumato.privacy.noise.exponential import bernoulli_exp
from sfumato.privacy.noise.selection import choose, uniform_below

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from sfumato.arrays import BoolArray, IntArray
    from sfumato.privacy.noise.entropy import Entropy


@dataclass(frozen=True, kw_only=True)
class ScoredChoice:
    """A choice among `candidates` by whole-number scores; higher is better.

    Scores are monotone if adding a person lowers none of them (or raises none). That saves a factor
    of two. It is meaningful under add/remove only, and the caller must guarantee it.
    """

    epsilon: Fraction
    candidates: int
    sensitivity: Fraction = Fraction(1)
    monotone: bool = False

    def __post_init__(self) -> None:
        store_positive(self, "epsilon", "sensitivity")
        store(self, candidates=integer_at_least(self.candidates, "candidates", least=1))

    @property
    def rate(self) -> Fraction:
        """The factor of the score in the exponent."""
        return self.epsilon / (self.sensitivity * (1 if self.monotone else 2))

    def scores(self, values: ArrayLike) -> NDArray[Any]:
        """Read scores: the last axis runs over the candidates, the others over choices."""
        scores = integers(values, "scores")
        if scores.ndim == 0 or scores.shape[-1] != self.candidates:
            raise ParameterError(
                "array_invalid",
                f"Scores must have {self.candidates} candidates on their last axis, "
                f"but their shape is {scores.shape}.",
            )
        # Differences of scores must not wrap around: beyond 2^62 use Python integers.
        return scores.astype(object) if (np.abs(scores // 2) >= 2**61).any() else scores

    def bound(self, beta: float) -> float:
        """Give a loss against the best score, exceeded with probability at most beta."""
        return math.log(self.candidates / check_beta(beta)) / float(self.rate)


def uniform_among(candidates: BoolArray, entropy: Entropy) -> IntArray:
    """Give, for each row, the index of a uniformly random true entry; each row has one."""
    ranks = np.cumsum(candidates, axis=-1)
    target = uniform_below(ranks[..., -1].ravel(), entropy).reshape(ranks.shape[:-1])
    return np.asarray(np.argmax(ranks > target[..., None], axis=-1))


@dataclass(frozen=True, kw_only=True)
class Exponential(ScoredChoice):
    """Choose candidate c with probability proportional to prior(c) exp(rate score(c)).

    *Guarantee*: epsilon-differential privacy of bounded range epsilon, under the neighbour relation
    for which the sensitivity holds; rate = epsilon / (2 sensitivity), or epsilon / sensitivity for
    monotone scores. One `sample` of several choices costs this for each.
    *Sensitivity*: The largest change of any score by one person; established by the caller.
    *Error*: The chosen score is below the best by more than log(1 / (beta p)) / rate with
    probability at most beta, where p is the smallest prior probability.
    *Edges*: Scores are whole numbers of any size, equal ones are equally likely, and a choice is
    decided by exact comparison. Infinite and missing scores cannot be written. A prior is public.
    *Reference*: McSherry & Talwar 2007, Theorem 6; Dong, Durfee & Rogers 2020 for the bounded
    range.
    """

    prior: tuple[Fraction, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prior is None:
            return
        store(self, prior=tuple(positive(weight, "prior") for weight in self.prior))
        if len(self.prior) != self.candidates:
            raise ParameterError(
                "array_invalid",
                f"A prior for {self.candidates} candidates needs as many weights, "
                f"not {len(self.prior)}.",
            )

    @property
    def event(self) -> ExponentialChoice:
        """The privacy cost of one choice."""
        return ExponentialChoice(epsilon=self.epsilon)

    def sample(self, values: ArrayLike, entropy: Entropy) -> IntArray:
        """Choose for each row of scores; give the indices of the chosen candidates."""
        scores = self.scores(values)
        return choose(scores, rate=self.rate, weights=self.prior, entropy=entropy)

    def bound(self, beta: float) -> float:
        """Give a loss against the best score, exceeded with probability at most beta."""
        if self.prior is None:
            return super().bound(beta)
        rarest = float(min(self.prior) / sum(self.prior))
        return -math.log(check_beta(beta) * rarest) / float(self.rate)


@dataclass(frozen=True, kw_only=True)
class NoisyMax(ScoredChoice):
    """Add discrete Laplace noise of scale 1 / rate to each score and choose the largest.

    *Guarantee*: epsilon-differential privacy under the neighbour relation for which the sensitivity
    holds; rate = epsilon / (2 sensitivity), or epsilon / sensitivity for monotone scores. Only the
    index is released: the noisy score would cost more.
    *Sensitivity*: The largest change of any score by one person; established by the caller.
    *Error*: The chosen score is below the best by more than about 2 log(candidates / beta) / rate
    with probability at most beta.
    *Edges*: Whole noise can tie. Ties go to a uniformly random one, which is private: given any
    fixed order of preference, a candidate wins exactly when its own noise reaches a threshold.
    *Reference*: Dwork & Roth 2014, Claim 3.9.
    """

    @property
    def event(self) -> PureEvent:
        """The privacy cost of one choice."""
        return PureEvent(epsilon=self.epsilon)

    def sample(self, values: ArrayLike, entropy: Entropy) -> IntArray:
        """Choose for each row of scores; give the indices of the chosen candidates."""
        scores = self.scores(values)
        noise = discrete_laplace(1 / self.rate, scores.size, entropy)
        noisy = add(scores, noise.reshape(scores.shape))
        return uniform_among(noisy == noisy.max(axis=-1, keepdims=True), entropy)

    def bound(self, beta: float) -> float:
        """Give a loss against the best score, exceeded with probability at most beta."""
        return 2 * Geometric(epsilon=self.rate).bound(check_beta(beta) / self.candidates)


@dataclass(frozen=True, kw_only=True)
class PermuteAndFlip(ScoredChoice):
    """Go through the candidates in random order; take c with probability exp(-rate gap(c)).

    *Guarantee*: epsilon-differential privacy under the neighbour relation for which the sensitivity
    holds; rate = epsilon / (2 sensitivity), or epsilon / sensitivity for monotone scores. It has no
    bounded range, so it costs a pure epsilon for each choice.
    *Sensitivity*: The largest change of any score by one person; established by the caller.
    *Error*: The chosen score is below the best by more than log(candidates / beta) / rate with
    probability at most beta; the expected loss is never above the exponential mechanism's.
    *Edges*: The best candidate has gap 0 and is always taken when reached, so a choice is always
    made. All coins are flipped at once: the first success in a random order is a uniform success.
    *Reference*: McKenna & Sheldon 2020, Algorithm 1 and Theorem 1.
    """

    @property
    def event(self) -> PureEvent:
        """The privacy cost of one choice."""
        return PureEvent(epsilon=self.epsilon)

    def sample(self, values: ArrayLike, entropy: Entropy) -> IntArray:
        """Choose for each row of scores; give the indices of the chosen candidates."""
        scores = self.scores(values)
        gaps = scores.max(axis=-1, keepdims=True) - scores
        return uniform_among(bernoulli_exp(gaps, rate=self.rate, entropy=entropy), entropy)
