"""The exponential mechanism over a finite set of candidates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.errors import ParameterError
from sfumato.mechanisms.base import check_beta, store
from sfumato.mechanisms.selection import Selection
from sfumato.noise.selection import choose
from sfumato.privacy.events import ExponentialChoice
from sfumato.privacy.numbers import positive

if TYPE_CHECKING:
    from fractions import Fraction

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from sfumato.noise.entropy import Entropy


@dataclass(frozen=True, kw_only=True)
class Exponential(Selection):
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
                "prior_wrong_length",
                f"A prior for {self.candidates} candidates needs as many weights, "
                f"not {len(self.prior)}.",
            )

    @property
    def event(self) -> ExponentialChoice:
        """What one choice costs."""
        return ExponentialChoice(epsilon=self.epsilon)

    def sample(self, values: ArrayLike, entropy: Entropy) -> NDArray[np.int64]:
        """Choose for each row of scores; give the indices of the chosen candidates."""
        scores = self.scores(values)
        return choose(scores, rate=self.rate, weights=self.prior, entropy=entropy)

    def bound(self, beta: float) -> float:
        """Give a loss of score against the best that is passed with probability at most beta."""
        if self.prior is None:
            return super().bound(beta)
        rarest = float(min(self.prior) / sum(self.prior))
        return -math.log(check_beta(beta) * rarest) / float(self.rate)
