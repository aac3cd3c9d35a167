"""How many people came often, by a state that may be seized: pan-private heavy hitters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sfumato.exact_numbers import store
from sfumato.methods.stream.pan_private import PanPrivateDensity
from sfumato.privacy.mechanisms.base import whole


@dataclass(frozen=True, kw_only=True)
class PanPrivateHeavy(PanPrivateDensity):
    """The share of people of a roll who came at least `at_least` times.

    With k for that number: the mean of min(visits, k) less the mean of min(visits, k - 1) is the
    share who came k times or more. One part of the sample has counters that come round after k
    visits, the other after k - 1; each gives one of the means.
    *Guarantee*: that of `PanPrivateDensity`, epsilon + output_epsilon: a person has one place in
    one of the two tables, so that nothing is paid twice.
    *Sensitivity*: of the ones of both tables together 1.
    *Error*: without bias, but the means are k and k - 1 times as uncertain as a share, with a
    sample divided in k to k - 1: the standard deviation is about 2 (2k - 1) / (epsilon
    sqrt(size)). For a k of more than a few, samples must be large.
    *Edges*: k = 1 is the density; it takes one table alone.
    *Reference*: Dwork, Naor, Pitassi, Rothblum & Yekhanin 2010, section 4 (cropped means), from
    which heavy hitters are told here as a difference of two.
    """

    at_least: int = 2

    name: ClassVar[str] = "heavy"

    def __post_init__(self) -> None:
        store(self, at_least=whole(self.at_least, "at_least", least=1))
        super().__post_init__()
        _ = self.tables  # which refuse more visits than a counter holds

    @property
    def rounds(self) -> tuple[int, ...]:
        """After how many visits counters come round, of each table."""
        return (1,) if self.at_least == 1 else (self.at_least, self.at_least - 1)

    @property
    def weights(self) -> tuple[int, ...]:
        """The cropped means: their rounds times their shares, less the shorter one."""
        return (1,) if self.at_least == 1 else (self.at_least, 1 - self.at_least)
