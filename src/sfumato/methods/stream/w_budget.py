"""How releases of a stream share half of an epsilon so that no window of periods spends more.

A plan sees what earlier periods spent, which is public, and offers a period what it may spend on a
release. The half is counted in whole `parts`, so that what is left is never a rounded number. What
a person can lose in more periods than a window has is bounded here too: that is what a ledger,
which adds up over all time, must charge. Decision `stream-units`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from sfumato.errors import ParameterError
from sfumato.exact_numbers import integer_at_least, store

if TYPE_CHECKING:
    from collections.abc import Sequence

# The most periods of a window: so many whole numbers are remembered, twice.
LONGEST_WINDOW = 100_000

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
    """A release gets half of what its window has left: much for the first, ever less for others.

    *Reference*: Kellaris, Papadopoulos, Xiao & Papadias 2014, section 5.1.
    """

    name: ClassVar[str] = "distribution"
    share_count: ClassVar[int] = _FINEST

    def offered(self, spent: Sequence[int]) -> int:
        """The parts that a release may take, by what the periods before it took, the last last."""
        recent = spent[-(self.window - 1) :] if self.window > 1 else ()
        return (self.share_count - sum(recent)) // 2

    def most_apart(self, periods: int) -> Fraction:
        """The most, in halves of epsilon, that so many periods take, wherever they lie."""
        return Fraction(periods, 2)

    def most_in_a_row(self, periods: int) -> Fraction:
        """The same for periods that follow each other: each takes half of what is left."""
        windows, remainder = divmod(periods, self.window)
        return windows + 1 - Fraction(1, 2**remainder)

    def most_from_the_start(self, periods: int) -> Fraction:
        """The same for the first periods of a stream."""
        return self.most_in_a_row(periods)


class BudgetAbsorption(_OfWindow):
    """A release gets the parts of the periods before it that went without; as many then go without.

    *Reference*: Kellaris, Papadopoulos, Xiao & Papadias 2014, section 5.2.
    """

    name: ClassVar[str] = "absorption"

    @property
    def share_count(self) -> int:
        """One for each period of a window."""
        return self.window

    def offered(self, spent: Sequence[int]) -> int:
        """The parts that a release may take, by what the periods before it took, the last last.

        What lies two windows back has no bearing any more.
        """
        for age, amount in enumerate(reversed(spent), start=1):
            if amount:
                # The release took its own period's part and those before it; it is paid back by
                # taken - 1 periods after it, so that a window over both has no more than its own.
                return max(0, min(age - (amount - 1), self.window))
        return min(len(spent) + 1, self.window)

    def most_apart(self, periods: int) -> Fraction:
        """The most, in halves of epsilon, that so many periods take, wherever they lie."""
        return Fraction(periods)

    def most_in_a_row(self, periods: int) -> Fraction:
        """The same for periods that follow each other; the first may absorb earlier ones."""
        return Fraction(max(periods, self.window), self.window)

    def most_from_the_start(self, periods: int) -> Fraction:
        """The same for the first periods of a stream, before which there is nothing to absorb."""
        return Fraction(periods, self.window)


Plan = BudgetDistribution | BudgetAbsorption

# Plans by name.
PLANS: dict[str, type[Plan]] = {plan.name: plan for plan in (BudgetDistribution, BudgetAbsorption)}


@dataclass(frozen=True, kw_only=True)
class Presence:
    """In how many periods of a stream one person has rows, as far as the privacy unit bounds it."""

    periods: int | None = None
    """The most periods; None where nothing bounds them."""
    in_a_row: bool = False
    """Whether they all lie within so many periods that follow each other."""
    ends: int | None = None
    """The periods of the whole stream; None where it does not end."""

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
        """The most that one person loses over the whole stream, at epsilon for each window.

        Half of a window's epsilon is spent on measuring how much has changed, evenly, whether or
        not anything is released; the other half by the plan, in which every bound here holds.
        """
        bounds = [plan.most_apart(self.most)]
        if self.in_a_row:
            bounds.append(plan.most_in_a_row(self.most))
        if self.ends is not None:
            bounds.append(plan.most_from_the_start(self.ends))
        return epsilon / 2 * (Fraction(self.most, plan.window) + min(bounds))
