"""How many people came, and how many often, by a state that may be seized: pan-private counts.

Nothing that is kept between updates tells who came, to anybody, also to the owner of the machine
on which it lies. Decision `pan-private`.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.errors import ParameterError, option
from sfumato.exact_numbers import integer_at_least, plain, store, store_positive
from sfumato.methods.local.draws import below, happens
from sfumato.privacy.accounting.elementary import exp_up
from sfumato.privacy.accounting.events import PureEvent
from sfumato.privacy.mechanisms.laplace import Geometric

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, IntArray
    from sfumato.privacy.noise.entropy import Entropy


# Bits about people that may be stolen: drawn before anybody comes, drawn anew when they do.
#
# A table has a place for each of some people, chosen by a secret key out of a public roll,
# whether
# they ever come or not. A place holds a random bit and a counter that began at a random number,
# so
# that one look at it tells next to nothing about its person. Decision `pan-private`.

# The largest number of visits that can be asked about: a counter fits the seven bits of a byte
# that its bit leaves. With 5,000,000 places and epsilon 1 it is off by 23 % there.
MOST_VISITS = 128

# So many places are gone through with one draw of fresh bits.
BLOCK = 4096

_DIGEST_BYTES = 8


def check_epsilon(epsilon: Fraction) -> None:
    """Refuse an epsilon for which bits of chance 1/2 + epsilon/4 would tell more than it says.

    A bit 0 has the chance 1/2 - epsilon/4 of somebody who came, which must be at least e^-epsilon
    times the 1/2 of all others. That fails from 1.5936 on.
    """
    # From 2 on the chance would be below 0. Tested first: the exponential of an epsilon of hundreds
    # of digits, which a file of a stranger may hold, would take hours.
    if epsilon >= 2 or 1 - epsilon / 2 < exp_up(-epsilon):
        raise ParameterError(
            "parameter_out_of_range",
            f"Bits that may be seized cannot keep an epsilon of {plain(epsilon, digits=6)}: their "
            "formula holds up to 1.5936 alone. Give at most that.",
        )


@dataclass(frozen=True)
class PeopleSample:
    """The people who have a place, by digests under a key, in ascending order.

    Whoever knows the key knows who has a place, which is public knowledge: no privacy rests on it.
    It is secret as long as it can be so that nobody crafts names, and random so that the sample is.
    """

    key: bytes
    digests: NDArray[np.uint64]

    @classmethod
    def of(cls, roll: Iterable[str], size: int, entropy: Entropy) -> PeopleSample:
        """So many of a roll, all with the same chance: those of the smallest digests."""
        key = entropy.words(2).tobytes()
        return cls(key, np.unique(digests(roll, key))[:size])

    def positions(self, people: Iterable[str]) -> IntArray:
        """The place of each of those who have one; others are left out."""
        digests_wanted = digests(people, self.key)
        positions = np.minimum(np.searchsorted(self.digests, digests_wanted), len(self.digests) - 1)
        return np.asarray(
            np.where(self.digests[positions] == digests_wanted, positions, -1), dtype=np.int64
        )


def digests(people: Iterable[str], key: bytes) -> NDArray[np.uint64]:
    """A number of 64 bits for each name, which nobody foresees without the key."""
    hashed = b"".join(
        blake2b(person.encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES, key=key).digest()
        for person in people
    )
    return np.frombuffer(hashed, dtype="<u8").astype(np.uint64)


@dataclass(frozen=True)
class PanCells:
    """What a table holds: one byte for each place, its counter in seven bits above its bit.

    The bytes are changed where they lie, in a buffer or a mapped file. Old and new bytes never
    stand side by side: whoever compares them names the visitors.
    """

    data: memoryview

    @property
    def bits(self) -> BoolArray:
        """The bits, copied: for tests and audits."""
        return (np.frombuffer(self.data, np.uint8) & 1).astype(bool)

    @property
    def counters(self) -> IntArray:
        """The counters, copied: for tests and audits."""
        return (np.frombuffer(self.data, np.uint8) >> 1).astype(np.int64)

    def blocks(self) -> Iterator[NDArray[np.uint8]]:
        """The bytes in short stretches, so that no temporary array ever holds all of them."""
        for start in range(0, len(self.data), BLOCK):
            yield np.frombuffer(self.data[start : start + BLOCK], np.uint8)

    @property
    def one_count(self) -> int:
        """How many bits are 1."""
        return sum(int((block & 1).sum()) for block in self.blocks())


@dataclass(frozen=True, kw_only=True)
class PanTable:
    """A bit for each place, drawn anew whenever its person's counter comes round.

    *Guarantee*: one look at all places, at any one moment, is epsilon-differentially private for
    all that one person ever did: present as often as may be, or never. A counter began uniformly
    in [0, round), so it is uniform after any number of visits and tells nothing by itself. Given
    the counter, the bit was either never drawn anew, of chance 1/2, or last with 1/2 + epsilon/4,
    and which of the two depends on the visits. The quotients 1 + epsilon/2 and 1 - epsilon/2 lie
    within e^epsilon and e^-epsilon below 1.5936, so any mixture of the two does, too. Other
    people's places are independent of this one; the key of the sample is drawn before anybody came
    and tells who has a place, not who came. Two looks are not private: a bit that changed between
    them was drawn anew, so its person came.
    *Sensitivity*: one person has one place, so the number of ones moves by at most 1.
    *Error*: somebody who came n times was drawn anew with chance min(n, round) / round, so the
    number of ones is size/2 + epsilon/4 times the sum of these, in the mean; its variance is at
    most size/4, of a share 4 / (epsilon^2 size).
    *Edges*: a bit is drawn anew at every round, not at the first alone: what depends on whether
    somebody had come before would be remembered. Several rounds between two moments are one draw.
    *Reference*: Dwork, Naor, Pitassi, Rothblum & Yekhanin 2010, sections 3 and 4.
    """

    size: int
    epsilon: Fraction
    round: int = 1
    """After how many visits a counter comes round, beginning anywhere."""

    def __post_init__(self) -> None:
        store_positive(self, "epsilon")
        check_epsilon(self.epsilon)
        store(self, size=integer_at_least(self.size, "size", least=1))
        store(self, round=integer_at_least(self.round, "round", least=1))
        if self.round > MOST_VISITS:
            raise ParameterError(
                "parameter_out_of_range",
                f"At most {MOST_VISITS:,} visits can be asked about, not {self.round:,}.",
            )

    @property
    def chance(self) -> Fraction:
        """That a bit is 1 when it is drawn anew."""
        return Fraction(1, 2) + self.epsilon / 4

    def begin(self, entropy: Entropy) -> PanCells:
        """Before anybody came: fair bits, and counters that begin anywhere."""
        bits = happens(Fraction(1, 2), self.size, entropy)
        cells = below(self.round, self.size, entropy) << 1 | bits
        return PanCells(memoryview(bytearray(cells.astype(np.uint8).tobytes())))

    def update(
        self,
        cells: PanCells,
        visits: IntArray,
        entropy: Entropy,
        *,
        start: int = 0,
        passed: Callable[[], None] = lambda: None,
    ) -> None:
        """Take in so many visits to each place, from place `start` on, in the cells themselves.

        Every place gets one store of one byte, whether its person came or not, and then a call of
        `passed`; as many bits are drawn as there are places. So neither time nor what is written
        tells who came. A process that is killed anywhere in between leaves each cell as it was
        either before or after: one look at each person.
        """
        data, round_ = cells.data, self.round
        for first in range(start, self.size, BLOCK):
            block = visits[first : min(first + BLOCK, self.size)]
            fresh = happens(self.chance, len(block), entropy)
            draws = zip(block.tolist(), fresh.tolist(), strict=True)
            for position, (times, fresh_bit) in enumerate(draws, first):
                moved = (data[position] >> 1) + times
                bit = fresh_bit if moved >= round_ else data[position] & 1
                data[position] = moved % round_ << 1 | bit
                passed()

    def share(self, one_count: float) -> float:
        """The mean of min(visits, round) / round over people, without bias, from ones and noise."""
        return (one_count / self.size - 0.5) * 4 / float(self.epsilon)

    def variance(self, noise: float, people: int) -> float:
        """Of that share, at most: of the bits, of noise on the ones, and of who has a place."""
        bits = 1 / (4 * self.size) + noise / self.size**2
        chosen = (1 / self.size - 1 / people) * people / max(people - 1, 1) / 4
        return bits * 16 / float(self.epsilon) ** 2 + chosen


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
