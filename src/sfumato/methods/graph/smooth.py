"""A count with noise of its smooth sensitivity: the older way, to compare the ladder with."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, exp
from typing import TYPE_CHECKING

from sfumato.exact_numbers import store_positive
from sfumato.methods.graph.units import require_epsilon
from sfumato.privacy.accounting.events import PureEvent
from sfumato.privacy.noise.discrete import rounded_cauchy

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.privacy.noise.entropy import Entropy

_INFLATION = 1 + 2.0**-40
_BETA = 1 - 2.0**-30
LEAST_EPSILON = Fraction(1, 10_000)
# Where LS(t) grows by a power of t, so does noise: that of the 4th power is then 6 10^15.
LEAST_OF_POWERS = Fraction(1, 1000)


@dataclass(frozen=True, kw_only=True)
class SmoothCount:
    """Add Cauchy noise of scale 2 S / epsilon, S = max over t of exp(-epsilon t / 2) LS(t).

    *Guarantee*: pure epsilon-differential privacy for graphs that differ in one edge: for Cauchy
    noise a shift by its scale costs at most 1, and a stretch by e^beta at most beta, half of
    epsilon each.
    *Sensitivity*: S is smooth because LS(t) of a graph is at most LS(t + 1) of its neighbour;
    computed a little too large, for a beta a little too small, to make up for floats.
    *Error*: depends on the graph; half of the noise lies within 2 S / epsilon.
    *Edges*: what is released may be negative. How fast LS(t) can grow (`power`) ends the search for
    the maximum, which lies at 2 power / epsilon at the farthest: less than `LEAST_EPSILON`, or
    `LEAST_OF_POWERS` for a power from 2 on, is refused.
    *Reference*: Nissim, Raskhodnikova & Smith 2007.
    """

    epsilon: Fraction
    power: int = 1

    def __post_init__(self) -> None:
        store_positive(self, "epsilon")
        require_epsilon(self.epsilon, LEAST_EPSILON if self.power == 1 else LEAST_OF_POWERS)

    @property
    def event(self) -> PureEvent:
        """What one count costs."""
        return PureEvent(epsilon=self.epsilon)

    def sample(self, value: int, sensitivity: Callable[[int], int], entropy: Entropy) -> int:
        """Release a count, given its local sensitivity at each distance."""
        smooth = smooth_sensitivity(sensitivity, float(self.epsilon / 2) * _BETA, power=self.power)
        scale = 2 * Fraction(smooth * _INFLATION) / self.epsilon
        return value + int(rounded_cauchy(scale, 1, entropy)[0])


def smooth_sensitivity(sensitivity: Callable[[int], int], beta: float, *, power: int = 1) -> float:
    """The largest exp(-beta t) LS(t), where LS(t) = C(x, power) + constant, x growing with t.

    x grows by at most 1 a step and is at least t / 2. Once x - power + 1 is at least power / beta,
    s more steps multiply LS by at most (1 + s beta / power)^power <= exp(beta s).
    """
    last = 2 * ceil(power / beta + power) + 2
    return max(exp(-beta * distance) * sensitivity(distance) for distance in range(last))
