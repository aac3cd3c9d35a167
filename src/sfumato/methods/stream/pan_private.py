"""Pan-private counts of visitors: the state itself is differentially private.

The state between updates hides who came from everybody, also from the owner of the machine. A table
has a position for each of some people, whom a secret key samples from a public roll, whether they
ever come or not. A position holds a random bit and a counter with a random start, so that one look
at it reveals almost nothing about its person. Decision `pan-private`.
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
from sfumato.methods.local.draws import draw_events, draw_integers
from sfumato.privacy.accounting.elementary import exp_up
from sfumato.privacy.accounting.events import PureEvent
from sfumato.privacy.mechanisms.laplace import Geometric

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, IntArray
    from sfumato.privacy.noise.entropy import Entropy


# The largest number of visits that can be counted: counter and bit share one byte. With 5,000,000
# positions and epsilon 1 the error there is 23 %.
MOST_VISITS = 128

# Positions per draw of fresh bits.
BLOCK = 4096

_DIGEST_BYTES = 8


def check_epsilon(epsilon: Fraction) -> None:
    """Refuse an epsilon for which bits of probability 1/2 + epsilon/4 would lose more than epsilon.

    A visitor's bit is 0 with probability 1/2 - epsilon/4, which must be at least e^-epsilon times
    the 1/2 of all others. That fails from 1.5936 on.
    """
    # From 2 on the probability would be negative. *Attack*: tested first, because the exponential
    # of an epsilon of hundreds of digits, which a forged file may hold, would take hours.
    if epsilon >= 2 or 1 - epsilon / 2 < exp_up(-epsilon):
        raise ParameterError(
            "parameter_out_of_range",
            f"epsilon {plain(epsilon, digits=6)} is too large for a state that may be seized: the "
            "formula of its bits holds only up to 1.5936. Give at most that.",
            parameter="epsilon",
        )


@dataclass(frozen=True)
class PeopleSample:
    """The people of the sample, by keyed digests in ascending order.

    The key reveals who is in the sample; no guarantee relies on hiding that. The key is kept secret
    so that nobody crafts names, and it is random so that the sample is.
    """

    key: bytes
    digests: NDArray[np.uint64]

    @classmethod
    def of(cls, roll: Iterable[str], size: int, entropy: Entropy) -> PeopleSample:
        """A uniform sample of a roll: the people of the smallest digests."""
        key = entropy.words(2).tobytes()
        return cls(key, np.unique(digests(roll, key))[:size])

    def positions(self, people: Iterable[str]) -> IntArray:
        """The position of each person in the sample; -1 for all others."""
        sought = digests(people, self.key)
        positions = np.minimum(np.searchsorted(self.digests, sought), len(self.digests) - 1)
        return np.where(self.digests[positions] == sought, positions, -1).astype(np.int64)


def digests(people: Iterable[str], key: bytes) -> NDArray[np.uint64]:
    """A number of 64 bits for each name, unpredictable without the key."""
    hashed = b"".join(
        blake2b(person.encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES, key=key).digest()
        for person in people
    )
    return np.frombuffer(hashed, dtype="<u8").astype(np.uint64)


@dataclass(frozen=True)
class PanCells:
    """The cells of a table: one byte for each position, a counter of seven bits above the bit.

    The bytes are changed in place, in a buffer or a mapped file. *Attack*: comparing old and new
    bytes would name the visitors, so both never exist at the same time.
    """

    data: memoryview

    @property
    def bits(self) -> BoolArray:
        """A copy of the bits, for tests and audits."""
        return (np.frombuffer(self.data, np.uint8) & 1).astype(bool)

    @property
    def counters(self) -> IntArray:
        """A copy of the counters, for tests and audits."""
        return (np.frombuffer(self.data, np.uint8) >> 1).astype(np.int64)

    def blocks(self) -> Iterator[NDArray[np.uint8]]:
        """The bytes in short blocks, so that no temporary array ever holds all of them."""
        for start in range(0, len(self.data), BLOCK):
            yield np.frombuffer(self.data[start : start + BLOCK], np.uint8)

    @property
    def one_count(self) -> int:
        """The number of bits that are 1."""
        return sum(int((block & 1).sum()) for block in self.blocks())


@dataclass(frozen=True, kw_only=True)
class PanTable:
    """A bit for each position, redrawn whenever its person's counter wraps around.

    *Guarantee*: one look at all positions, at any one moment, is epsilon-differentially private for
    all visits of one person, any number or none. A counter starts uniformly in [0, round), so it
    is uniform after any number of visits and reveals nothing by itself. Given the counter, the bit
    is 1 with probability 1/2 if it was never redrawn, else with 1/2 + epsilon/4, and the visits
    decide which. The ratios 1 + epsilon/2 and 1 - epsilon/2 lie between e^-epsilon and e^epsilon
    for epsilon below 1.5936, and so do those of any mixture of the two. The positions of other
    people are independent of this one. The key of the sample is drawn before any visit and
    determines who is in the sample, not who came. Two looks are not private: a bit that changed
    between them was redrawn, so its person came.
    *Sensitivity*: one person has one position, so the number of ones moves by at most 1.
    *Error*: a person of n visits was redrawn with probability min(n, round) / round, so the mean
    number of ones is size/2 + epsilon/4 times the sum of these; its variance is at most size/4,
    that of a share 4 / (epsilon^2 size).
    *Edges*: a bit is redrawn at every wrap-around, not only at the first: otherwise the state would
    remember whether the person had come before. Several wraps between two moments are one draw.
    *Reference*: Dwork, Naor, Pitassi, Rothblum & Yekhanin 2010, sections 3 and 4.
    """

    size: int
    epsilon: Fraction
    round: int = 1
    """The number of visits after which a counter wraps around."""

    def __post_init__(self) -> None:
        store_positive(self, "epsilon")
        check_epsilon(self.epsilon)
        store(self, size=integer_at_least(self.size, "size", least=1))
        store(self, round=integer_at_least(self.round, "round", least=1))
        if self.round > MOST_VISITS:
            raise ParameterError(
                "parameter_out_of_range",
                f"At most {MOST_VISITS:,} visits can be asked about, not {self.round:,}.",
                parameter="visits",
                given=self.round,
            )

    @property
    def chance(self) -> Fraction:
        """The probability that a redrawn bit is 1."""
        return Fraction(1, 2) + self.epsilon / 4

    def begin(self, entropy: Entropy) -> PanCells:
        """The cells before any visit: fair bits, and counters with uniform starts."""
        bits = draw_events(Fraction(1, 2), self.size, entropy)
        cells = draw_integers(self.round, self.size, entropy) << 1 | bits
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
        """Add the visits of each position, from position `start` on, to the cells in place.

        Every position gets one store of one byte, whether its person came or not, and then a call
        of `passed`; a bit is drawn for every position. So neither timing nor writes reveal who
        came. A process that is killed in between leaves each cell either old or new: one look at
        each person.
        """
        data, round_ = cells.data, self.round
        for first in range(start, self.size, BLOCK):
            block = visits[first : min(first + BLOCK, self.size)]
            fresh = draw_events(self.chance, len(block), entropy)
            draws = zip(block.tolist(), fresh.tolist(), strict=True)
            for position, (times, fresh_bit) in enumerate(draws, first):
                moved = (data[position] >> 1) + times
                # Every position draws a bit and stores a byte: time and writes show no visits.
                bit = fresh_bit if moved >= round_ else data[position] & 1
                data[position] = moved % round_ << 1 | bit
                passed()

    def share(self, one_count: float) -> float:
        """Estimate the mean of min(visits, round) / round, unbiased, from a noisy count."""
        return (one_count / self.size - 0.5) * 4 / float(self.epsilon)

    def variance(self, noise: float, people: int) -> float:
        """The largest variance of a share: from bits, from noise on the ones, and from sampling."""
        bits = 1 / (4 * self.size) + noise / self.size**2
        chosen = (1 / self.size - 1 / people) * people / max(people - 1, 1) / 4
        return bits * 16 / float(self.epsilon) ** 2 + chosen


@dataclass(frozen=True)
class PanState:
    """The sample and the cells of all tables. A thief may see all of it, once.

    `update` changes it in place. The number in `passed` counts the positions that all updates have
    passed; its remainder shows where an interrupted update continues. Every update passes every
    position, so the number reveals nothing about visits.
    """

    sample: PeopleSample
    tables: tuple[PanCells, ...]
    passed: memoryview

    @property
    def updates(self) -> int:
        """The number of completed updates."""
        return int(self.passed[0]) // len(self.sample.digests)

    @property
    def position(self) -> int:
        """The positions that an interrupted update has passed; 0 if no update is interrupted."""
        return int(self.passed[0]) % len(self.sample.digests)


@dataclass(frozen=True)
class PanEstimate:
    """An estimated share of the people of the roll, and its standard deviation."""

    share: float
    stddev: float
    people: int

    @property
    def count(self) -> float:
        """The estimated number of people."""
        return self.share * self.people


@dataclass(frozen=True, kw_only=True)
class PanPrivateDensity:
    """The share of people of a roll who came at least once.

    *Guarantee*: epsilon + output_epsilon together for all visits of one person: epsilon against a
    thief who sees the state once, at any moment, and output_epsilon for all `reads` answers. A
    person's bit moves each answer by at most 1. So for any two histories of this bit the
    likelihoods of all answers are within e^output_epsilon, and the likelihoods of the stolen bit
    are within e^epsilon (`PanTable`). The two factors multiply. Answers without noise would not
    suffice: together with the state they reveal whether a bit was redrawn in between.
    *Sensitivity*: 1 for the number of ones, at each answer: one person has one position.
    *Error*: unbiased; `stddev` includes the variance of the bits, at most 4 / (epsilon^2 size), of
    the noise and of sampling. Larger samples err less and cost no privacy.
    *Edges*: membership of the roll is not hidden. People who are not on it are not counted. A share
    may be below 0 or above 1. One look only: a copy of the state from another day is a second look,
    and two looks have no guarantee. Bits of absent people are equal in both, so a bit that differs
    names a visitor with certainty. Hence a state is changed in place, one byte for each position.
    *Reference*: Dwork, Naor, Pitassi, Rothblum & Yekhanin 2010, section 3 and Theorem 3.1.
    """

    people: int
    """The number of people on the roll, which is public."""
    size: int
    """The number of people in the sample."""
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
                parameter="size",
                given=self.size,
            )

    @property
    def rounds(self) -> tuple[int, ...]:
        """For each table the number of visits after which its counters wrap around."""
        return (1,)

    @property
    def weights(self) -> tuple[int, ...]:
        """The weights of the shares of the tables in the answer."""
        return (1,)

    @cached_property
    def tables(self) -> tuple[PanTable, ...]:
        """The tables, which divide the people of the sample among them."""
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
        """The privacy loss of one person by state and answers together."""
        return PureEvent(epsilon=self.epsilon + self.output_epsilon)

    @cached_property
    def output_noise(self) -> Geometric:
        """The noise on the ones of every table in one answer."""
        return Geometric(epsilon=self.output_epsilon / self.reads)

    def begin(self, roll: Iterable[str], entropy: Entropy) -> PanState:
        """Draw the sample, and the cells before any visit."""
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
        """Count visits: one for each name, or as many as `visits` lists.

        The state is changed in place, position by position. After an interrupted update the
        positions that it passed hold its visits, the others do not; `resume` with the same people
        continues with the others. If the process was killed between the two stores of a position,
        the visits of that person count twice.
        """
        if state.position and not resume:
            raise ParameterError(
                "pan_unfinished",
                f"The last update stopped after {state.position:,} of {self.size:,} positions. "
                f"Give its tables again with {option('resume', True)} to count the rest; or give "
                f"{option('resume', True)} and no table to leave the rest out.",
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
        """Compute one of the paid answers."""
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
        """The largest variance of an answer."""
        noise = self.output_noise.variance
        weighted = zip(self.weights, self.tables, strict=True)
        own = sum(weight**2 * table.variance(noise, self.people) for weight, table in weighted)
        # The tables sample disjoint people, so their shares are negatively correlated.
        first, *weights_left = (abs(weight) for weight in self.weights)
        return (
            own + sum(2 * first * weight for weight in weights_left) / max(self.people - 1, 1) / 4
        )


@dataclass(frozen=True, kw_only=True)
class PanPrivateHeavy(PanPrivateDensity):
    """The share of people of a roll who came at least `at_least` times.

    With k for that number, the mean of min(visits, k) minus the mean of min(visits, k - 1) is the
    share of people with k or more visits. One part of the sample has counters that wrap around
    after k visits, the other after k - 1; each estimates one of the means.

    *Guarantee*: that of `PanPrivateDensity`, epsilon + output_epsilon: a person has one position in
    one of the two tables, so nothing is paid twice.
    *Sensitivity*: 1 for the ones of both tables together.
    *Error*: unbiased, but the means are k and k - 1 times as uncertain as a share, with a sample
    divided in the ratio k to k - 1: the standard deviation is about 2 (2k - 1) / (epsilon
    sqrt(size)). For k above a few, samples must be large.
    *Edges*: k = 1 is the density; it needs one table.
    *Reference*: Dwork, Naor, Pitassi, Rothblum & Yekhanin 2010, section 4 (cropped means), from
    which heavy hitters follow here as a difference of two.
    """

    at_least: int = 2

    name: ClassVar[str] = "heavy"

    def __post_init__(self) -> None:
        store(self, at_least=integer_at_least(self.at_least, "at_least", least=1))
        super().__post_init__()
        _ = self.tables  # raises for more visits than a counter holds

    @property
    def rounds(self) -> tuple[int, ...]:
        """For each table the number of visits after which its counters wrap around."""
        return (1,) if self.at_least == 1 else (self.at_least, self.at_least - 1)

    @property
    def weights(self) -> tuple[int, ...]:
        """The weights of the two cropped means in their difference."""
        return (1,) if self.at_least == 1 else (self.at_least, 1 - self.at_least)
