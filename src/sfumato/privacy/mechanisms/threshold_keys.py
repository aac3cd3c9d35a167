"""Release of group keys that are not public: only those whose noisy count passes a threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.data.schema.unit import Neighbours
from sfumato.errors import ParameterError
from sfumato.exact_numbers import integer_at_least, store
from sfumato.privacy.accounting import events
from sfumato.privacy.mechanisms.base import integers
from sfumato.privacy.mechanisms.gaussian import Gaussian

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import ArrayLike, NDArray

    from sfumato.arrays import IntArray
    from sfumato.privacy.mechanisms.laplace import Geometric
    from sfumato.privacy.noise.entropy import Entropy


@dataclass(frozen=True)
class ReleasedKeys:
    """The keys that passed, as positions in the input, and their noisy counts."""

    positions: IntArray
    counts: NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class ThresholdKeys:
    """Add noise to the counts of the keys found in the data; release those above a threshold.

    *Guarantee*: The noise's own loss plus delta: a key that only one person's rows hold appears
    with probability at most delta, over all the keys of that person together. Under replace-one two
    people's keys are at stake, and delta covers both.
    *Sensitivity*: The noise's, over all counts of one person (L1 or L2); at most `max_count` in any
    one of at most `max_groups` keys. Bounded by the engine before counting.
    *Error*: A released count errs like the noise; a key with fewer than about `threshold` rows is
    usually withheld.
    *Edges*: A key with a count of 0 is never released, whatever its noise: the proof counts only
    keys with rows. The number of withheld keys is not released. The threshold is derived from the
    tail of the same noise that is added.
    *Reference*: Korolova, Kenthapadi, Mishra & Ntoulas 2009; Wilson et al. 2020, Theorem 2.
    """

    noise: Geometric | Gaussian
    delta: Fraction
    max_groups: int
    max_count: int = 1
    relation: Neighbours = Neighbours.ADD_REMOVE

    def __post_init__(self) -> None:
        checked = events.ThresholdKeysEvent(delta=self.delta)
        if isinstance(self.noise, Gaussian) and self.noise.granule != 1:
            raise ParameterError(
                "bounds_invalid",
                f"Counts have granule 1, so noise of granule {self.noise.granule} does not fit.",
            )
        store(
            self,
            delta=checked.delta,
            max_groups=integer_at_least(self.max_groups, "max_groups", least=1),
            max_count=integer_at_least(self.max_count, "max_count", least=1),
        )

    @property
    def event(self) -> events.Composed:
        """The cost of one release."""
        return events.Composed((self.noise.event, events.ThresholdKeysEvent(delta=self.delta)))

    @property
    def threshold(self) -> int:
        """The least noisy count at which a key is released."""
        people = 1 if self.relation is Neighbours.ADD_REMOVE else 2
        # Union bound over the keys of the people who can differ between neighbours.
        allowed = self.delta / (people * self.max_groups)
        # The least t with P(noise >= t) <= allowed; tails are rounded up, so t is never too small.
        low, high = 0, 1
        while self.noise.tail(high) > allowed:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.noise.tail(middle) <= allowed else (middle, high)
        return self.max_count + high

    def sample(self, values: ArrayLike, entropy: Entropy) -> ReleasedKeys:
        """Release the keys whose noisy counts pass, in the order of the input.

        The caller must order the input independently of the data; an order of first appearance
        would leak.
        """
        counts = integers(values, "values")
        noisy = self.noise.steps(counts, entropy)
        positions = np.flatnonzero((noisy >= self.threshold) & (counts > 0))
        return ReleasedKeys(positions, noisy[positions])

    @property
    def variance(self) -> float:
        """The variance of the noise on a released count."""
        return self.noise.variance

    @property
    def stddev(self) -> float:
        """The standard deviation of the noise on a released count."""
        return self.noise.stddev

    def bound(self, beta: float) -> float:
        """Give a count at and above which a key is withheld with probability at most beta."""
        return self.threshold + self.noise.bound(beta)
