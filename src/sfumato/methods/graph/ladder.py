"""The ladder: a count released by how many edges would have to change to reach another one."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.exact_numbers import store_positive
from sfumato.methods.graph.units import require_epsilon
from sfumato.privacy.accounting.events import PureEvent
from sfumato.privacy.noise.discrete import geometric
from sfumato.privacy.noise.entropy import BLOCK
from sfumato.privacy.noise.selection import uniform_integers

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.privacy.noise.entropy import Entropy

LEAST_EPSILON = Fraction(1, 10_000)


@dataclass(frozen=True, kw_only=True)
class LadderCount:
    """Choose a whole number by the rung it stands on, rung t with weight exp(-epsilon t / 2).

    *Guarantee*: pure epsilon-differential privacy for graphs that differ in one edge. Rung 0 is the
    count itself, rung t the next I_(t-1) numbers on each side, I_t the local sensitivity at
    distance t. I_t(G) <= I_(t+1)(G'), so a number's rung moves by at most 1, in both graphs the
    weights of all numbers sum to nearly the same, and the exponential mechanism's argument holds.
    *Sensitivity*: of the rung of a number, 1; established by the caller's local sensitivities,
    which must satisfy I_t <= I_0 + t.
    *Error*: depends on the graph: about I_0 times 2 / epsilon where I_t grows slowly.
    *Edges*: the count 0 is as good as any; what is released may be negative. The rung is drawn
    exactly: a proposal proportional to (I_0 + t) exp(-epsilon t / 2) is a mixture of a geometric
    variable and of a sum of two, and a rung is kept with chance (its width) / (2 (I_0 + t)). As
    many rungs are added up as there are: an epsilon below `LEAST_EPSILON` is refused.
    *Reference*: Zhang, Cormode, Procopiuc, Srivastava & Xiao 2015.
    """

    epsilon: Fraction

    def __post_init__(self) -> None:
        store_positive(self, "epsilon")
        require_epsilon(self.epsilon, LEAST_EPSILON)

    @property
    def event(self) -> PureEvent:
        """What one count costs."""
        return PureEvent(epsilon=self.epsilon)

    def sample(self, value: int, sensitivity: Callable[[int], int], entropy: Entropy) -> int:
        """Release a count, given its local sensitivity at each distance."""
        base = max(sensitivity(0), 1)
        while True:
            rung = self._proposed(base, entropy)
            width = 2 * sensitivity(rung - 1) if rung else 1
            position = int(uniform_integers(2 * (base + rung), 1, entropy)[0])
            if position < width:
                break
        if not rung:
            return value
        inside = sum(sensitivity(t) for t in range(rung - 1))
        step = inside + position // 2 + 1
        return value + step if position % 2 else value - step

    def _proposed(self, base: int, entropy: Entropy) -> int:
        """A rung t with chance proportional to (base + t) exp(-epsilon t / 2).

        It is t by a geometric variable with odds base : q / (1 - q) against one more than the sum
        of two, q = exp(-epsilon / 2): one is 0 with chance 1 - q.
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
