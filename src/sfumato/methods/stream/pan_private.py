"""How many people came, and how many often, by a state that may be seized: pan-private counts.

Nothing that is kept between updates tells who came, to anybody, also to the owner of the machine
on which it lies. Decision `pan-private`.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.errors import ParameterError, option
from sfumato.exact_numbers import integer_at_least, store, store_positive
from sfumato.methods.stream.pan_table import PanCells, PanTable, PeopleSample, check_epsilon
from sfumato.privacy.accounting.events import PureEvent
from sfumato.privacy.mechanisms.laplace import Geometric

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from fractions import Fraction

    from sfumato.arrays import IntArray
    from sfumato.privacy.noise.entropy import Entropy


@dataclass(frozen=True)
class PanState:
    """Who has a place, and what the places hold. All of it may be seized, once.

    `update` changes it where it lies. `passed` counts in its one number the places that all updates
    have gone through: an update that was stopped is known by the remainder, and goes on from there.
    Every update passes every place, so that the number tells nothing of who came.
    """

    sample: PeopleSample
    tables: tuple[PanCells, ...]
    passed: memoryview

    @property
    def updates(self) -> int:
        """How many updates have come to their end."""
        return int(self.passed[0]) // len(self.sample.digests)

    @property
    def position(self) -> int:
        """How many places an update that has not come to its end has passed; 0 where all have."""
        return int(self.passed[0]) % len(self.sample.digests)


@dataclass(frozen=True)
class PanEstimate:
    """A share of all people of the roll, and how far off it is."""

    share: float
    stddev: float
    people: int

    @property
    def count(self) -> float:
        """How many people that are."""
        return self.share * self.people


@dataclass(frozen=True, kw_only=True)
class PanPrivateDensity:
    """The share of people of a roll who came at least once.

    *Guarantee*: for all that one person ever did, epsilon + output_epsilon together: epsilon for
    whoever seizes the state once, at any moment, and output_epsilon for all `reads` answers. Say a
    thief sees the state between two answers. Whatever a person's bit was at each answer, it moves
    each of them by at most 1, so that all answers together are as likely within e^output_epsilon
    for any two courses of that bit; and the bit that the thief sees is as likely within e^epsilon
    (`PanTable`). So the two multiply. Answers without noise would not do: with the state they tell
    whether a bit was drawn anew since.
    *Sensitivity*: of the number of ones 1, at each answer: one person has one place.
    *Error*: without bias; `stddev` holds the bits' variance, at most 4 / (epsilon^2 size), that of
    the noise and that of a sample. Larger samples err less and cost no privacy.
    *Edges*: whether somebody is on the roll is not hidden. Who is not on it is not counted. A
    share may come out below 0 or above 1. One look: a copy of the state from another day is a
    second one, and with two looks nothing is promised: bits of who did not come are equal in both,
    so a bit that differs names a visitor with certainty, and the loss has no bound. Hence a state
    is changed where it lies, one byte for each place.
    *Reference*: Dwork, Naor, Pitassi, Rothblum & Yekhanin 2010, section 3 and Theorem 3.1.
    """

    people: int
    """How many are on the roll, which is public."""
    size: int
    """How many of them have a place."""
    epsilon: Fraction
    output_epsilon: Fraction
    reads: int = 1

    name: ClassVar[str] = "density"
    may_be_seized: ClassVar[bool] = True

    def __post_init__(self) -> None:
        store_positive(self, "epsilon", "output_epsilon")
        check_epsilon(self.epsilon)
        for name in ("people", "size", "reads"):
            store(self, **{name: integer_at_least(getattr(self, name), name, least=1)})
        if not len(self.rounds) <= self.size <= self.people:
            raise ParameterError(
                "parameter_out_of_range",
                f"A sample must have from {len(self.rounds)} to all {self.people:,} people of the "
                f"roll, not {self.size:,}.",
            )

    @property
    def rounds(self) -> tuple[int, ...]:
        """After how many visits counters come round, of each table."""
        return (1,)

    @property
    def weights(self) -> tuple[int, ...]:
        """What the shares of the tables count in the answer."""
        return (1,)

    @cached_property
    def tables(self) -> tuple[PanTable, ...]:
        """The tables, the people of a sample divided among them."""
        total = sum(self.rounds)
        ends = [max(1, self.size * sum(self.rounds[: at + 1]) // total) for at in
                range(len(self.rounds))]  # fmt: skip
        sizes = np.diff([0, *ends])
        return tuple(
            PanTable(size=int(size), epsilon=self.epsilon, round=round_)
            for size, round_ in zip(sizes, self.rounds, strict=True)
        )

    @property
    def event(self) -> PureEvent:
        """What state and answers reveal of one person together."""
        return PureEvent(epsilon=self.epsilon + self.output_epsilon)

    @cached_property
    def output_noise(self) -> Geometric:
        """The noise on the ones of every table, of one answer."""
        return Geometric(epsilon=self.output_epsilon / self.reads)

    def begin(self, roll: Iterable[str], entropy: Entropy) -> PanState:
        """Choose who has a place, and fill the places before anybody came."""
        sample = PeopleSample.of(roll, self.size, entropy)
        if len(sample.digests) < self.size:
            raise ParameterError(
                "table_empty", f"The roll has fewer than {self.size:,} different people."
            )
        tables = tuple(table.begin(entropy) for table in self.tables)
        return PanState(sample, tables, memoryview(array("Q", [0])))

    def update(
        self,
        state: PanState,
        people: Sequence[str],
        entropy: Entropy,
        visits: object = None,
        *,
        resume: bool = False,
    ) -> None:
        """Take in who came, each name as often as it stands there or as `visits` says.

        The state is changed where it lies, place by place. Of an update that was stopped the places
        that it had passed hold its visits and the others do not: with the same people again and
        `resume` it goes on with the others. Where it was killed between the two stores of a place,
        the visits of one person are counted twice.
        """
        if state.position and not resume:
            raise ParameterError(
                "pan_unfinished",
                f"The last update stopped after {state.position:,} of {self.size:,} places. Give "
                f"its tables again with {option('resume', True)}, which takes in the rest; with "
                f"{option('resume', True)} and no table the rest of it is left out.",
            )
        positions = state.sample.positions(people)
        known = positions >= 0
        times = (
            np.ones(len(positions), np.int64) if visits is None else np.asarray(visits, np.int64)
        )
        counted = np.zeros(self.size, dtype=np.int64)
        np.add.at(counted, positions[known], times[known])
        passed, skipped = state.passed, state.position

        def count() -> None:
            passed[0] += 1

        for table, cells in zip(self.tables, state.tables, strict=True):
            visits_of_table, counted = counted[: table.size], counted[table.size :]
            start = min(skipped, table.size)
            table.update(cells, visits_of_table, entropy, start=start, passed=count)
            skipped -= start

    def estimate(self, state: PanState, entropy: Entropy) -> PanEstimate:
        """One of the answers that are paid for."""
        one_counts = np.array([cells.one_count for cells in state.tables])
        noisy: IntArray = self.output_noise.steps(one_counts, entropy)
        share = sum(
            weight * table.share(float(one_count))
            for weight, table, one_count in zip(
                self.weights, self.tables, noisy.tolist(), strict=True
            )
        )
        return PanEstimate(share, math.sqrt(self.variance), self.people)

    @property
    def variance(self) -> float:
        """Of an answer, at most."""
        noise = self.output_noise.variance
        weighted = zip(self.weights, self.tables, strict=True)
        own = sum(weight**2 * table.variance(noise, self.people) for weight, table in weighted)
        # Samples without a person in common: what one has the other lacks.
        first, *weights_left = (abs(weight) for weight in self.weights)
        return (
            own + sum(2 * first * weight for weight in weights_left) / max(self.people - 1, 1) / 4
        )


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
        store(self, at_least=integer_at_least(self.at_least, "at_least", least=1))
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
