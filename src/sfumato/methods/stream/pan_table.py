"""Bits about people that may be stolen: drawn before anybody comes, drawn anew when they do.

A table has a place for each of some people, chosen by a secret key out of a public roll, whether
they ever come or not. A place holds a random bit and a counter that began at a random number, so
that one look at it tells next to nothing about its person. Decision `pan-private`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import ParameterError
from sfumato.exact_numbers import integer_at_least, plain, store, store_positive
from sfumato.methods.local.draws import below, happens
from sfumato.privacy.accounting.elementary import exp_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, IntArray
    from sfumato.privacy.noise.entropy import Entropy

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
