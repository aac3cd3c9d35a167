"""Mechanisms of edge privacy: counts by the ladder and by smooth sensitivity."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, exp
from typing import TYPE_CHECKING

from sfumato.data.schema.names import quoted
from sfumato.data.schema.unit import Neighbours
from sfumato.errors import ParameterError, option
from sfumato.exact_numbers import store_positive
from sfumato.privacy.accounting.events import PureEvent
from sfumato.privacy.mechanisms.spending import spendings
from sfumato.privacy.noise.discrete import geometric, rounded_cauchy
from sfumato.privacy.noise.entropy import BLOCK
from sfumato.privacy.noise.selection import uniform_integers

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.methods.publish.request import FormRequest
    from sfumato.privacy.noise.entropy import Entropy


def require_epsilon(epsilon: Fraction, least: Fraction) -> None:
    """Refuse an epsilon below `least`: a mechanism takes steps in proportion to 1 / epsilon.

    Below it, a release would take many thousands of steps and be noise alone.
    """
    if epsilon < least:
        raise ParameterError(
            "parameter_out_of_range",
            f"A count of a graph needs an epsilon of at least {float(least):g}, but was given "
            f"{float(epsilon):g}: it would be noise alone. Give it more with {option('epsilon')}.",
            parameter="epsilon",
        )


def edge_privacy(request: FormRequest, kind: str) -> Fraction:
    """Return the pure epsilon of a method that protects single edges; other units are refused."""
    unit = request.unit
    # `by_person` itself refuses a unit in which a row belongs to two people, with advice.
    if unit.by_person or unit.relation is not Neighbours.ADD_REMOVE:
        raise ParameterError(
            "unit_unsupported",
            f"A publication of kind {quoted(kind)} protects single edges, but the unit of "
            f'{quoted(request.dataset)} is another. Declare unit = "row".',
        )
    return spendings(request.price)[0].pure_epsilon()


# The ladder mechanism: the farther away in edges a number is, the less likely it is released.

LEAST_EPSILON = Fraction(1, 10_000)


@dataclass(frozen=True, kw_only=True)
class LadderCount:
    """Release a whole number with weight exp(-epsilon t / 2), t the rung that it is on.

    *Guarantee*: pure epsilon-differential privacy for graphs that differ in one edge. Rung 0 is the
    count itself, rung t the next I_(t-1) numbers on each side, I_t the local sensitivity at
    distance t. I_t(G) <= I_(t+1)(G'), so a number's rung moves by at most 1, in both graphs the
    weights of all numbers sum to nearly the same, and the exponential mechanism's argument holds.
    *Sensitivity*: of the rung of a number, 1; established by the caller's local sensitivities,
    which must satisfy I_t <= I_0 + t.
    *Error*: depends on the graph: about I_0 times 2 / epsilon where I_t grows slowly.
    *Edges*: a count of 0 is no special case; a released count may be negative. The rung is drawn
    exactly: a proposal proportional to (I_0 + t) exp(-epsilon t / 2) is a mixture of a geometric
    variable and of a sum of two, and a rung is kept with chance (its width) / (2 (I_0 + t)). The
    time grows with the drawn rung, so an epsilon below `LEAST_EPSILON` is refused.
    *Reference*: Zhang, Cormode, Procopiuc, Srivastava & Xiao 2015.
    """

    epsilon: Fraction

    def __post_init__(self) -> None:
        store_positive(self, "epsilon")
        require_epsilon(self.epsilon, LEAST_EPSILON)

    @property
    def event(self) -> PureEvent:
        """The event of one count."""
        return PureEvent(epsilon=self.epsilon)

    def sample(self, value: int, sensitivity: Callable[[int], int], entropy: Entropy) -> int:
        """Release a count, given its local sensitivity at each distance."""
        base = max(sensitivity(0), 1)
        while True:
            rung = self._propose_rung(base, entropy)
            width = 2 * sensitivity(rung - 1) if rung else 1
            position = int(uniform_integers(2 * (base + rung), 1, entropy)[0])
            if position < width:
                break
        if not rung:
            return value
        inside = sum(sensitivity(t) for t in range(rung - 1))
        step = inside + position // 2 + 1
        return value + step if position % 2 else value - step

    def _propose_rung(self, base: int, entropy: Entropy) -> int:
        """Draw a rung t with probability proportional to (base + t) exp(-epsilon t / 2).

        With q = exp(-epsilon / 2) and geometric variables that are 0 with probability 1 - q, this
        is a mixture: one variable, or 1 + the sum of two, with the odds base : q / (1 - q).
        """
        scale = 2 / self.epsilon
        while True:
            draws = geometric(scale, BLOCK, entropy)
            lucky = uniform_integers(base, BLOCK, entropy) == 0
            decided = (draws == 0) | lucky
            if decided.any():
                first = int(decided.argmax())
                draws_of_rung = geometric(scale, BLOCK, entropy)[:2]
                first_draw, second_draw = int(draws_of_rung[0]), int(draws_of_rung[1])
                return first_draw if draws[first] == 0 else first_draw + second_draw + 1


# Smooth sensitivity: for counts that the ladder cannot release, and to compare with it.

_INFLATION = 1 + 2.0**-40
_BETA = 1 - 2.0**-30
# Noise grows with the same power of t as LS(t): with power 4 it reaches 6e15 at this epsilon.
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
    *Edges*: a released count may be negative. `power` says how fast LS(t) can
    grow, and so where the search for the maximum ends: see `smooth_sensitivity`. An epsilon below
    `LEAST_EPSILON`, or below `LEAST_OF_POWERS` for a power of 2 or more, is refused.
    *Reference*: Nissim, Raskhodnikova & Smith 2007.
    """

    epsilon: Fraction
    power: int = 1

    def __post_init__(self) -> None:
        store_positive(self, "epsilon")
        require_epsilon(self.epsilon, LEAST_EPSILON if self.power == 1 else LEAST_OF_POWERS)

    @property
    def event(self) -> PureEvent:
        """The event of one count."""
        return PureEvent(epsilon=self.epsilon)

    def sample(self, value: int, sensitivity: Callable[[int], int], entropy: Entropy) -> int:
        """Release a count, given its local sensitivity at each distance."""
        smooth = smooth_sensitivity(sensitivity, float(self.epsilon / 2) * _BETA, power=self.power)
        scale = 2 * Fraction(smooth * _INFLATION) / self.epsilon
        return value + int(rounded_cauchy(scale, 1, entropy)[0])


def smooth_sensitivity(sensitivity: Callable[[int], int], beta: float, *, power: int = 1) -> float:
    """Return the largest exp(-beta t) LS(t): LS(t) = C(x, power) + constant, x growing with t.

    x grows by at most 1 a step and is at least t / 2. Once x - power + 1 is at least power / beta,
    s more steps multiply LS by at most (1 + s beta / power)^power <= exp(beta s).
    """
    last = 2 * ceil(power / beta + power) + 2
    return max(exp(-beta * distance) * sensitivity(distance) for distance in range(last))
