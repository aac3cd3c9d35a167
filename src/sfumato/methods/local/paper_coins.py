"""Randomized response with real coins and dice, for people who trust no script.

Guarantee: with probability `truth` a person reports the truth, otherwise one of all k choices at
random. So the true choice has probability truth + (1 - truth)/k and any other (1 - truth)/k. This
is k-ary randomized response of epsilon ln(1 + k truth/(1 - truth)), exactly. A device is offered
only if that is at most the epsilon of the round.
Error: that of k-ary at its own epsilon. Edges: two dice suffice for at most 36 choices.
Reference: Warner 1965; the coins of "yes, or heads" for truth = 1/2. Decision `surveys`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.methods.local.local_epsilon import LocalEpsilon

MOST_CHOICES = 36


@dataclass(frozen=True)
class HandDevice:
    """The first throw, and the outcome that asks for the truth."""

    truth: Fraction
    throw: str
    honest: str


# From the least private to the most private; the first that the round allows is offered.
_DEVICES = (
    HandDevice(Fraction(5, 6), "Roll a die.", "it shows 1, 2, 3, 4 or 5"),
    HandDevice(Fraction(3, 4), "Flip two coins.", "at least one of them shows heads"),
    HandDevice(Fraction(2, 3), "Roll a die.", "it shows 1, 2, 3 or 4"),
    HandDevice(Fraction(1, 2), "Flip a coin.", "it shows heads"),
    HandDevice(Fraction(1, 3), "Roll a die.", "it shows 1 or 2"),
    HandDevice(Fraction(1, 4), "Flip two coins.", "both show heads"),
    HandDevice(Fraction(1, 6), "Roll a die.", "it shows 1"),
    HandDevice(Fraction(1, 8), "Flip three coins.", "all show heads"),
    HandDevice(Fraction(1, 16), "Flip four coins.", "all show heads"),
    HandDevice(Fraction(1, 32), "Flip five coins.", "all show heads"),
    HandDevice(Fraction(1, 64), "Flip six coins.", "all show heads"),
)


def likelihood_ratio(truth: Fraction, choices: int) -> Fraction:
    """The ratio of a report's probabilities under two true choices: e to the epsilon."""
    return 1 + choices * truth / (1 - truth)


def device(choices: int, claimed: LocalEpsilon) -> HandDevice | None:
    """The most accurate device whose epsilon is at most this, if there is one."""
    if choices > MOST_CHOICES:
        return None
    fitting = (
        hand_device
        for hand_device in _DEVICES
        if claimed.allows(likelihood_ratio(hand_device.truth, choices))
    )
    return next(fitting, None)


def second_throw(choices: int) -> str:
    """Instructions to draw one of the choices at random."""
    # Rolling again keeps all remaining choices equally likely.
    if choices == 2:
        return "Flip a coin: heads is number 1, tails is number 2."
    if choices <= 6:
        again = "" if choices == 6 else f" If it shows more than {choices}, roll again."
        return f"Roll a die: what it shows is the number.{again}"
    again = "" if choices == MOST_CHOICES else f" If that is more than {choices}, roll both again."
    return (
        "Roll two dice, one after the other: the number is 6 times what the first shows, minus 6, "
        f"plus what the second shows.{again}"
    )
