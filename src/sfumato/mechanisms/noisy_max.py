"""Report noisy max: the candidate whose score plus noise is largest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.mechanisms.arrays import add
from sfumato.mechanisms.base import check_beta
from sfumato.mechanisms.geometric import Geometric
from sfumato.mechanisms.selection import Selection, uniform_among
from sfumato.noise.laplace import discrete_laplace
from sfumato.privacy.events import PureEvent

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from sfumato.noise.entropy import Entropy


@dataclass(frozen=True, kw_only=True)
class NoisyMax(Selection):
    """Add discrete Laplace noise of scale 1 / rate to each score and name the largest.

    *Guarantee*: epsilon-differential privacy under the neighbour relation for which the sensitivity
    holds; rate = epsilon / (2 sensitivity), or epsilon / sensitivity for monotone scores. Only the
    index leaves: the noisy score would cost more.
    *Sensitivity*: The largest change of any score by one person; established by the caller.
    *Error*: The chosen score is below the best by more than about 2 log(candidates / beta) / rate
    with probability at most beta.
    *Edges*: Whole noise can tie. Ties go to a uniformly random one, which is private: given any
    fixed order of preference, a candidate wins exactly when its own noise reaches a threshold.
    *Reference*: Dwork & Roth 2014, Claim 3.9.
    """

    @property
    def event(self) -> PureEvent:
        """What one choice costs."""
        return PureEvent(epsilon=self.epsilon)

    def sample(self, values: ArrayLike, entropy: Entropy) -> NDArray[np.int64]:
        """Choose for each row of scores; give the indices of the chosen candidates."""
        scores = self.scores(values)
        noise = discrete_laplace(1 / self.rate, scores.size, entropy)
        noisy = add(scores, noise.reshape(scores.shape))
        return uniform_among(noisy == noisy.max(axis=-1, keepdims=True), entropy)

    def bound(self, beta: float) -> float:
        """Give a loss of score against the best that is passed with probability at most beta."""
        return 2 * Geometric(epsilon=self.rate).bound(check_beta(beta) / self.candidates)
