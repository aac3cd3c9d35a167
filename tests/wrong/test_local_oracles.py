"""Wrong local oracles, some of them shipped by others: each must be caught."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.methods import local
from sfumato.privacy.accounting.losses import Pure
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.random import Generator
    from numpy.typing import NDArray

    from sfumato.testing.audit import Audit

ONE = Pure(epsilon=Fraction(1))
E = math.e
FILTERS = np.array([[1, 1, 0, 0], [0, 0, 1, 1]])
"""The filters of two values: two hashes each, that meet nowhere."""


def packed(bits: NDArray[Any]) -> NDArray[np.int64]:
    return np.asarray(bits @ (1 << np.arange(bits.shape[-1])))


def lies_from_all_values(value: int, size: int, generator: Generator) -> Any:
    """k-ary response whose lie may be the truth: it is told too often."""
    truth = generator.random(size) < E / (E + 3)
    return np.where(truth, value, generator.integers(0, 4, size))


def never_clears_a_bit(value: int, size: int, generator: Generator) -> Any:
    """RAPPOR whose permanent response sets bits but leaves every 1 as it is."""
    half = 1 / (1 + math.exp(1 / 4))
    return packed(FILTERS[value] | (generator.random((size, 4)) < half))


def forgets_its_hashes(value: int, size: int, generator: Generator) -> Any:
    """RAPPOR of two hashes at the f of one: epsilon is 2 h log(...), not 2 log(...)."""
    half = 1 / (1 + math.exp(1 / 2))
    return packed(FILTERS[value] ^ (generator.random((size, 4)) < half))


def true_bit_always_kept(value: int, size: int, generator: Generator) -> Any:
    """OUE whose true bit is not tossed."""
    bits = generator.random((size, 4)) < 1 / (E + 1)
    bits[:, value] = True
    return packed(bits)


def sets_with_and_without_alike(value: int, size: int, generator: Generator) -> Any:
    """Subset selection that puts the truth in with e^eps / (e^eps + 1), whatever the set's size."""
    found = []
    for held in generator.random(size) < E / (E + 1):
        others = [one for one in range(4) if one != value]
        found.append(1 << value if held else 1 << others[generator.integers(0, 3)])
    return np.array(found)


def seed_by_the_value(value: int, size: int, generator: Generator) -> Any:
    """Local hashing whose hash depends on the value."""
    said = np.where(generator.random(size) < E / (E + 3), 0, generator.integers(1, 4, size))
    return value * 4 + said


@pytest.mark.parametrize(
    "wrong",
    [
        lies_from_all_values,
        never_clears_a_bit,
        forgets_its_hashes,
        true_bit_always_kept,
        sets_with_and_without_alike,
        seed_by_the_value,
    ],
)
def test_a_leak_is_caught(accuse: Callable[..., Audit], wrong: Any) -> None:
    found = accuse(wrong, (0, 1), ONE, draws=20_000)
    assert found.violated, found.sentence()


def off_by(estimate: Callable[[Any, Any], NDArray[np.float64]], share: float) -> float:
    """How many standard errors the estimated shares of 100,000 people are off, at most."""
    oracle: Any = local.oracle("olh", 16, epsilon=1)
    people = 100_000
    held = int(share * people)
    values = np.concatenate([np.zeros(held, dtype=np.int64), np.arange(people - held) % 15 + 1])
    sketch = oracle.sketch(oracle.randomize(values, SeededEntropy(5)))
    truth = np.bincount(values, minlength=16) / people
    return float(
        np.abs(estimate(oracle, sketch) - truth).max() / math.sqrt(oracle.variance(people))
    )


def with_q_of_k_ary(oracle: Any, sketch: Any) -> NDArray[np.float64]:
    """The chance that another value is supported taken for that of a lie."""
    p = float(oracle.p)
    q = (1 - p) / (oracle.buckets - 1)
    return np.asarray((sketch.tally / sketch.n - q) / (p - q))


def with_p_for_all(oracle: Any, sketch: Any) -> NDArray[np.float64]:
    """The chance of the true number taken for that of a domain of k values."""
    p = E / (E + oracle.size - 1)
    return np.asarray((sketch.tally / sketch.n - float(oracle.q)) / (p - float(oracle.q)))


@pytest.mark.parametrize("wrong", [with_q_of_k_ary, with_p_for_all])
def test_a_collector_with_wrong_chances_is_caught(wrong: Any) -> None:
    assert off_by(wrong, 0.4) > 20


def test_the_right_collector_is_not_accused() -> None:
    assert off_by(lambda oracle, sketch: oracle._shares(sketch), 0.4) < 6


def test_a_fixed_pool_of_hashes_adds_an_error_that_stays() -> None:
    """Eight hashes for all: twice as many people do not halve the variance."""
    oracle: Any = local.oracle("olh", 64, epsilon=4)
    people, held = 200_000, np.zeros(200_000, dtype=np.int64)
    pool = oracle.hashes.draw(8, SeededEntropy(1))
    which = np.arange(people) % 8
    factors, shifts = (one[which] for one in pool)
    said = oracle.hashes.of(held, factors, shifts)
    keep = np.random.default_rng(2).random(people) < float(oracle.p)
    lie = (said + np.random.default_rng(3).integers(1, oracle.buckets, people)) % oracle.buckets
    tally = oracle.hashes.supports(factors, shifts, np.where(keep, said, lie))
    shares = (tally / people - float(oracle.q)) / float(oracle.p - oracle.q)
    assert np.abs(shares[1:]).max() > 20 * math.sqrt(oracle.variance(people))
    fresh = oracle._shares(oracle.sketch(oracle.randomize(held, SeededEntropy(4))))
    assert np.abs(fresh[1:]).max() < 6 * math.sqrt(oracle.variance(people))


def test_the_channel_itself_shows_a_leak() -> None:
    """The matrix of a k-ary response that lies from all values, and of a RAPPOR that keeps 1s."""
    from sfumato.methods.local.mechanism import Channel

    leaky = Channel.of([[3 * 4 + 1 if x == y else 1 for y in range(4)] for x in range(4)])
    assert leaky.epsilon > math.log(3) + 1
    kept = Channel.of([[0, 1], [1, 1 - 1]])
    assert kept.ratio is None
    assert kept.epsilon == math.inf
