"""What the mechanisms that choose one of several candidates by a score have in common."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.errors import ParameterError
from sfumato.mechanisms.arrays import integers
from sfumato.mechanisms.base import EITHER, Norm, Traits, check_beta, store, whole
from sfumato.noise.uniform import uniform_below
from sfumato.privacy.numbers import positive

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from sfumato.noise.entropy import Entropy


@dataclass(frozen=True, kw_only=True)
class Selection:
    """A choice among `candidates` by whole-number scores, of which higher is better.

    Scores are monotone when adding a person moves none of them down (or none of them up); that
    saves a factor of two, holds under add/remove, and is promised by the caller.
    """

    epsilon: Fraction
    candidates: int
    sensitivity: Fraction = Fraction(1)
    monotone: bool = False
    traits: ClassVar[Traits] = Traits(EITHER, Norm.MAXIMUM)

    def __post_init__(self) -> None:
        store(
            self,
            epsilon=positive(self.epsilon, "epsilon"),
            sensitivity=positive(self.sensitivity, "sensitivity"),
            candidates=whole(self.candidates, "candidates", least=1),
        )

    @property
    def rate(self) -> Fraction:
        """How much a point of score counts in the exponent."""
        return self.epsilon / (self.sensitivity * (1 if self.monotone else 2))

    def scores(self, values: ArrayLike) -> NDArray[Any]:
        """Read scores: the last axis runs over the candidates, the others over choices."""
        scores = integers(values, "scores")
        if scores.ndim == 0 or scores.shape[-1] != self.candidates:
            raise ParameterError(
                "scores_wrong_shape",
                f"Scores must have {self.candidates} candidates on their last axis, "
                f"but their shape is {scores.shape}.",
            )
        # Differences of scores must not wrap.
        return scores.astype(object) if (np.abs(scores // 2) >= 2**61).any() else scores

    def bound(self, beta: float) -> float:
        """Give a loss of score against the best that is passed with probability at most beta."""
        return math.log(self.candidates / check_beta(beta)) / float(self.rate)


def uniform_among(chosen: NDArray[np.bool_], entropy: Entropy) -> NDArray[np.int64]:
    """Give, for each row, the index of a uniformly random true entry; each row has one."""
    ranks = np.cumsum(chosen, axis=-1)
    target = uniform_below(ranks[..., -1].ravel(), entropy).reshape(ranks.shape[:-1])
    return np.asarray(np.argmax(ranks > target[..., None], axis=-1))
