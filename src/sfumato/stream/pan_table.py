"""Bits about people that may be stolen: drawn before anybody comes, drawn anew when they do.

A table has a place for each of some people, chosen by a secret key out of a public roll, whether
they ever come or not. A place holds a random bit and a counter that began at a random number, so
that one look at it tells next to nothing about its person. Decision 0411.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import ParameterError
from sfumato.local.draws import below, happens
from sfumato.mechanisms.base import whole
from sfumato.privacy.elementary import exp_up
from sfumato.privacy.numbers import plain, store, store_positive

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from sfumato.noise.entropy import Entropy

MOST_VISITS = 1000
"""The largest number of visits that can be asked about: a counter fits 16 bits."""

_DIGEST_BYTES = 8
_COUNTER = np.dtype("<u2")


def check_epsilon(epsilon: Fraction) -> None:
    """Refuse an epsilon for which bits of chance 1/2 + epsilon/4 would tell more than it says.

    A bit 0 has the chance 1/2 - epsilon/4 of somebody who came, which must be at least e^-epsilon
    times the 1/2 of all others. That fails from 1.5936 on.
    """
    if 1 - epsilon / 2 < exp_up(-epsilon):
        raise ParameterError(
            "pan_epsilon_too_large",
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

    def places(self, people: Iterable[str]) -> NDArray[np.int64]:
        """The place of each of those who have one; others are left out."""
        wanted = digests(people, self.key)
        found = np.minimum(np.searchsorted(self.digests, wanted), len(self.digests) - 1)
        return np.asarray(np.where(self.digests[found] == wanted, found, -1), dtype=np.int64)


def digests(people: Iterable[str], key: bytes) -> NDArray[np.uint64]:
    """A number of 64 bits for each name, which nobody foresees without the key."""
    hashed = b"".join(
        blake2b(one.encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES, key=key).digest()
        for one in people
    )
    return np.frombuffer(hashed, dtype="<u8").astype(np.uint64)


@dataclass(frozen=True)
class HeldBits:
    """What a table holds: a bit and a counter for each place."""

    bits: NDArray[np.bool_]
    counters: NDArray[np.int64]

    def to_record(self) -> dict[str, Any]:
        """As JSON, of the same length whatever it holds."""
        counters = self.counters.astype(_COUNTER).tobytes().hex()
        return {"bits": np.packbits(self.bits).tobytes().hex(), "counters": counters}

    @classmethod
    def from_record(cls, record: Any, size: int) -> HeldBits:
        """Read what `to_record` wrote; ValueError where it cannot be."""
        packed = np.frombuffer(bytes.fromhex(record["bits"]), dtype=np.uint8)
        counters = np.frombuffer(bytes.fromhex(record["counters"]), dtype=_COUNTER)
        if len(packed) != -(-size // 8) or len(counters) != size:
            raise ValueError("a table of another size")
        return cls(np.unpackbits(packed)[:size].astype(bool), counters.astype(np.int64))


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
        store(self, size=whole(self.size, "size", least=1))
        store(self, round=whole(self.round, "round", least=1))

    @property
    def chance(self) -> Fraction:
        """That a bit is 1 when it is drawn anew."""
        return Fraction(1, 2) + self.epsilon / 4

    def begin(self, entropy: Entropy) -> HeldBits:
        """Before anybody came: fair bits, and counters that begin anywhere."""
        bits = happens(Fraction(1, 2), self.size, entropy)
        return HeldBits(bits, below(self.round, self.size, entropy))

    def update(self, held: HeldBits, visits: NDArray[np.int64], entropy: Entropy) -> HeldBits:
        """After so many visits to each place.

        As many bits are drawn as there are places, so that time tells nothing of who came round.
        """
        moved = held.counters + visits
        came_round = moved >= self.round
        fresh = happens(self.chance, self.size, entropy)
        return HeldBits(np.where(came_round, fresh, held.bits), moved % self.round)

    def share(self, ones: float) -> float:
        """The mean of min(visits, round) / round over people, without bias, from ones and noise."""
        return (ones / self.size - 0.5) * 4 / float(self.epsilon)

    def variance(self, noise: float, people: int) -> float:
        """Of that share, at most: of the bits, of noise on the ones, and of who has a place."""
        bits = 1 / (4 * self.size) + noise / self.size**2
        chosen = (1 / self.size - 1 / people) * people / max(people - 1, 1) / 4
        return bits * 16 / float(self.epsilon) ** 2 + chosen
