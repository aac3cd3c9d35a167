"""w-event privacy: counts of every period, released anew only when they have changed.

All that a person does in any `window` consecutive periods is hidden with epsilon, however long the
stream runs. A plan divides half of epsilon among the releases of a window. It uses only the amounts
that earlier periods spent, which are public, and counts the half in whole parts, so that no
remainder is rounded. The ledger composes over all time, so the cost of a person with rows in more
periods than one window is bounded here too. Decision `streams`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.arguments import one_of
from sfumato.data.schema.unit import count_sensitivity
from sfumato.errors import ParameterError
from sfumato.exact_numbers import integer_at_least, plain, store, store_positive
from sfumato.methods.stream.method import StepFigures, of_cells, only
from sfumato.privacy.accounting.events import PureEvent
from sfumato.privacy.mechanisms.base import narrow
from sfumato.privacy.mechanisms.laplace import Geometric

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import IntArray
    from sfumato.data.schema.unit import Unit
    from sfumato.methods.stream.method import State
    from sfumato.methods.stream.request import StreamRequest
    from sfumato.privacy.noise.entropy import Entropy


# The most periods of a window: the state holds twice as many whole numbers.
LONGEST_WINDOW = 100_000

# The parts into which budget distribution divides half of epsilon.
_FINEST = 1 << 30


@dataclass(frozen=True)
class _OfWindow:
    window: int

    def __post_init__(self) -> None:
        length = integer_at_least(self.window, "window", least=1)
        if length > LONGEST_WINDOW:
            raise ParameterError(
                "stream_invalid",
                f"A window has at most {LONGEST_WINDOW:,} periods, not {length:,}. Take longer "
                "periods.",
            )
        store(self, window=length)


class BudgetDistribution(_OfWindow):
    """A release gets half of what its window has left: most for the first, less for later ones.

    *Reference*: Kellaris, Papadopoulos, Xiao & Papadias 2014, section 5.1.
    """

    name: ClassVar[str] = "distribution"
    share_count: ClassVar[int] = _FINEST

    def offered(self, spent: Sequence[int]) -> int:
        """The parts that a release may take, given the parts of earlier periods, oldest first."""
        recent = spent[-(self.window - 1) :] if self.window > 1 else ()
        # Half of what is left, rounded down: the sum over any window never exceeds all parts.
        return (self.share_count - sum(recent)) // 2

    def most_apart(self, periods: int) -> Fraction:
        """The most that so many periods spend, wherever they lie, in halves of epsilon."""
        return Fraction(periods, 2)

    def most_in_a_row(self, periods: int) -> Fraction:
        """The same for consecutive periods: each takes half of what is left."""
        windows, remainder = divmod(periods, self.window)
        # Within a window the parts are 1/2, 1/4, ..., which sum to 1 - 2^-n.
        return windows + 1 - Fraction(1, 2**remainder)

    def most_from_the_start(self, periods: int) -> Fraction:
        """The same for the first periods of a stream."""
        return self.most_in_a_row(periods)


class BudgetAbsorption(_OfWindow):
    """A release absorbs the parts of skipped periods before it; as many periods then are skipped.

    *Reference*: Kellaris, Papadopoulos, Xiao & Papadias 2014, section 5.2.
    """

    name: ClassVar[str] = "absorption"

    @property
    def share_count(self) -> int:
        """One for each period of a window."""
        return self.window

    def offered(self, spent: Sequence[int]) -> int:
        """The parts that a release may take, given the parts of earlier periods, oldest first.

        Periods more than two windows back have no effect.
        """
        for age, amount in enumerate(reversed(spent), start=1):
            if amount:
                # The release took the part of its own period and amount - 1 earlier ones. As many
                # later periods are skipped, so that no window over them spends more than its own.
                return max(0, min(age - (amount - 1), self.window))
        return min(len(spent) + 1, self.window)

    def most_apart(self, periods: int) -> Fraction:
        """The most that so many periods spend, wherever they lie, in halves of epsilon."""
        return Fraction(periods)

    def most_in_a_row(self, periods: int) -> Fraction:
        """The same for consecutive periods; the first may absorb earlier ones."""
        return Fraction(max(periods, self.window), self.window)

    def most_from_the_start(self, periods: int) -> Fraction:
        """The same for the first periods of a stream, which have no earlier ones to absorb."""
        return Fraction(periods, self.window)


Plan = BudgetDistribution | BudgetAbsorption

# Plans by name.
PLANS: dict[str, type[Plan]] = {plan.name: plan for plan in (BudgetDistribution, BudgetAbsorption)}


@dataclass(frozen=True, kw_only=True)
class Presence:
    """The periods in which one person has rows, as far as the privacy unit bounds them."""

    periods: int | None = None
    """The most periods; None where they are not bounded."""
    in_a_row: bool = False
    """Whether they are all within so many consecutive periods."""
    ends: int | None = None
    """The number of periods of the stream; None for a stream without end."""

    def __post_init__(self) -> None:
        for name in ("periods", "ends"):
            if getattr(self, name) is not None:
                integer_at_least(getattr(self, name), name, least=1)
        if self.periods is None and self.ends is None:
            raise ParameterError(
                "stream_invalid",
                "A stream without an end, in which nothing bounds the periods of a person, costs "
                "without end. Say how many periods it has, or in how many a person counts.",
            )

    @property
    def most(self) -> int:
        """The most periods in which a person has rows."""
        return min(end for end in (self.periods, self.ends) if end is not None)

    def whole_cost(self, plan: Plan, epsilon: Fraction) -> Fraction:
        """The largest cost of one person over the whole stream, at epsilon for each window.

        Half of a window's epsilon measures the changes, evenly over periods, whether or not they
        are released. The plan spends the other half, for which every bound here holds.
        """
        # Each of these bounds holds, so the smallest one is the cost.
        bounds = [plan.most_apart(self.most)]
        if self.in_a_row:
            bounds.append(plan.most_in_a_row(self.most))
        if self.ends is not None:
            bounds.append(plan.most_from_the_start(self.ends))
        return epsilon / 2 * (Fraction(self.most, plan.window) + min(bounds))


REPEATED = "repeated: too little has changed since the last release"


def prepare(request: StreamRequest) -> WEvent:
    """Windows with the epsilon at which the whole stream costs the price of the request."""
    only(request, WEvent.name, "plan", "caution")
    if request.window is None:
        raise ParameterError(
            "stream_invalid",
            "A stream by 'w-event' needs to know how many periods in a row it hides together. "
            "Give a window, such as 7 for a week of days.",
        )
    plan_name = request.options.get("plan", "absorption")
    one_of(plan_name, "plan", tuple(PLANS))
    plan = PLANS[plan_name](request.window)
    presence = Presence(periods=request.people.periods, ends=request.periods)
    price = request.spendings[0].pure_epsilon()
    epsilon = price / presence.whole_cost(plan, Fraction(1))
    return WEvent(
        plan=plan, epsilon=epsilon, cells=request.cells, unit=request.unit, presence=presence,
        caution=integer_at_least(request.options.get("caution", 1), "caution", least=0),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class WEvent:
    """Measure the distance of the counts from the last release; release anew if it is large.

    *Guarantee*: epsilon-differential privacy for all that one person does in any `window`
    consecutive periods: every period spends epsilon / (2 window) on the distance, released or not,
    and the releases of a window spend at most epsilon / 2 together (`Plan`). The ledger composes
    over all time, so `event` charges the loss of a person over all periods in which the unit allows
    rows (`presence`): epsilon itself only where those lie within one window.
    *Sensitivity*: L1 of one period's histogram, by the unit, d: 1 for a row that is present or
    not, 2 for one that is replaced. The distance to the last release, summed over cells, moves by
    at most d, because that release is public; so its mean moves by d / cells. If a person is
    replaced by one with rows in other periods, each period moves by half of d only, so that the two
    people together lose as much as one.
    *Error*: of a release that of its noise; of a repeated one the measured mean distance of a cell,
    plus one standard deviation of that measurement. A release is repeated where that distance is
    below the noise that a new release would add to a cell. `caution` adds a multiple of the scale
    of the distance's own noise, without which streams of few cells are released anew in vain.
    Decision `streams`.
    *Edges*: before the first release zeros are repeated. Whether a period was released is public;
    so is the state, which consists of released figures and may be seized. A period without rows is
    like any other. Where a window has no budget left, the last release is repeated.
    *Reference*: Kellaris, Papadopoulos, Xiao & Papadias 2014, Theorems 3, 5 and 6.
    """

    plan: Plan
    epsilon: Fraction
    """The epsilon of any window of periods."""
    cells: int
    unit: Unit
    """What one person can change in one period."""
    presence: Presence
    caution: int = 1
    """The scales of its own noise that the distance must exceed too; 0 is the paper's rule."""

    name: ClassVar[str] = "w-event"
    may_be_seized: ClassVar[bool] = True

    def __post_init__(self) -> None:
        store_positive(self, "epsilon")
        store(self, cells=integer_at_least(self.cells, "cells", least=1))
        store(self, caution=integer_at_least(self.caution, "caution", least=0))

    @property
    def event(self) -> PureEvent:
        """The largest privacy cost of the whole stream for a person."""
        return PureEvent(epsilon=self.presence.whole_cost(self.plan, self.epsilon))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """All public parameters."""
        return {
            "method": self.name,
            "plan": self.plan.name,
            "window": self.plan.window,
            "epsilon": str(self.epsilon),
            "cells": self.cells,
            "caution": self.caution,
            "unit": self.unit.sentence(),
            "periods": self.presence.periods,
            "in_a_row": self.presence.in_a_row,
            "ends": self.presence.ends,
        }

    def sentence(self) -> str:
        """A sentence on the epsilon of a window and of the whole stream."""
        return (
            f"epsilon {plain(self.epsilon, digits=6, up=True)} for any {self.plan.window} periods "
            f"in a row, and {plain(self.event.epsilon, digits=6, up=True)} for all of a person's "
            f"up to {self.presence.most:,} periods. {self.unit.sentence()}"
        )

    @cached_property
    def _moved(self) -> Fraction:
        """The L1 change of the counts of one period by one person."""
        return count_sensitivity(self.unit, grouped=True).l1

    @cached_property
    def distance_noise(self) -> Geometric:
        """The noise on the distance to the last release, of every period."""
        share = self.epsilon / (2 * self.plan.window)
        return Geometric(epsilon=share, l1_sensitivity=self._moved)

    def release_noise(self, share_count: int) -> Geometric:
        """The noise of a release that takes so many parts of half of epsilon."""
        share = self.epsilon / 2 * share_count / self.plan.share_count
        return Geometric(epsilon=share, l1_sensitivity=self._moved)

    def variance(self, step: int) -> None:
        """None: the noise of a step depends on which earlier periods were released."""
        del step

    def begin(self, entropy: Entropy) -> State:
        """The state before the first period: nothing released, nothing spent."""
        del entropy
        return {"released": [0] * self.cells, "spent": []}

    def step(self, state: State, counts: IntArray, entropy: Entropy) -> tuple[State, StepFigures]:
        """Release the counts of a period with noise, or repeat the last release."""
        private = of_cells(counts, self.cells)
        released = np.array(state["released"], dtype=object)
        distance = int(np.abs(private.astype(object) - released).sum())
        measured = int(self.distance_noise.steps([distance], entropy)[0])
        offer = self.plan.offered(state["spent"])
        if not self._is_far(measured, offer):
            return self._after(state, 0, released), self._repeated(released, measured)
        noise = self.release_noise(offer)
        fresh = noise.steps(private, entropy)
        figures = StepFigures(fresh, np.full(self.cells, noise.stddev))
        return self._after(state, offer, fresh), figures

    def _is_far(self, measured: int, offer: int) -> bool:
        """Whether the last release errs more than a new one would; in exact arithmetic."""
        own = self.caution * self.distance_noise.scale
        return offer > 0 and measured > self.cells * self.release_noise(offer).scale + own

    def _after(self, state: State, share_count: int, released: NDArray[Any]) -> State:
        spent = [*state["spent"], share_count][-2 * self.plan.window :]
        return {"released": [int(value) for value in released], "spent": spent}

    def _repeated(self, released: NDArray[Any], measured: int) -> StepFigures:
        off = (max(measured, 0) + self.distance_noise.stddev) / self.cells
        return StepFigures(narrow(released), np.full(self.cells, off), REPEATED)
