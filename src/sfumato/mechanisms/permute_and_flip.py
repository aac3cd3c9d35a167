"""Permute-and-flip: never worse than the exponential mechanism, up to twice as good."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.mechanisms.selection import Selection, uniform_among
from sfumato.noise.bernoulli import bernoulli_exp
from sfumato.privacy.events import PureEvent

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from sfumato.noise.entropy import Entropy


@dataclass(frozen=True, kw_only=True)
class PermuteAndFlip(Selection):
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
        """What one choice costs."""
        return PureEvent(epsilon=self.epsilon)

    def sample(self, values: ArrayLike, entropy: Entropy) -> NDArray[np.int64]:
        """Choose for each row of scores; give the indices of the chosen candidates."""
        scores = self.scores(values)
        gaps = scores.max(axis=-1, keepdims=True) - scores
        return uniform_among(bernoulli_exp(gaps, rate=self.rate, entropy=entropy), entropy)
