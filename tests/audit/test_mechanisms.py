"""Every shipped mechanism before the auditor: within its claim, and near it where it is tight.

Entropy is seeded, so every run draws the same. Each audit would accuse a sound mechanism with
probability at most 1e-6 over the seeds; there are no retries.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.fixtures.slices import few_fast

from sfumato.data.schema.unit import Neighbours, Rows
from sfumato.privacy.accounting.losses import Approx, Pure
from sfumato.privacy.mechanisms.block_quantile import BlockQuantile
from sfumato.privacy.mechanisms.gaussian import Gaussian
from sfumato.privacy.mechanisms.laplace import Geometric, Laplace, TruncatedGeometric
from sfumato.privacy.mechanisms.quantile import Counted, Quantile
from sfumato.privacy.mechanisms.randomized_response import RandomizedResponse
from sfumato.privacy.mechanisms.sample_aggregate import SampleAggregate
from sfumato.privacy.mechanisms.selection import Exponential, NoisyMax, PermuteAndFlip
from sfumato.privacy.mechanisms.smooth_median import SmoothMedian
from sfumato.privacy.mechanisms.sparse_vector import SparseVector
from sfumato.privacy.mechanisms.threshold_keys import ThresholdKeys
from sfumato.testing.audit import Curve, audit, lowest_bit, on_grid, patterns, worst
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.privacy.noise.entropy import Entropy

EPSILONS = [Fraction(1, 2), Fraction(1), Fraction(2)]
ABSENT = -(10**6)
Case = Callable[[Fraction], "Audited"]


@dataclass(frozen=True)
class Audited:
    """A mechanism in the auditor's shape, the pair to try it on, and what to expect."""

    run: Callable[[Any, int, Entropy], NDArray[Any]]
    pair: tuple[Any, Any]
    tight: bool = True
    draws: int = 100_000


def repeat(mechanism: Any) -> Callable[[Any, int, Entropy], NDArray[Any]]:
    """Give the mechanism the same private values once for each output."""

    def run(values: Any, count: int, entropy: Entropy) -> NDArray[Any]:
        array = np.asarray(values)
        many = np.broadcast_to(array, (count, *array.shape))
        return np.asarray(mechanism.sample(many, entropy))

    return run


def geometric(epsilon: Fraction) -> Audited:
    return Audited(repeat(Geometric(epsilon=epsilon)), (10, 11))


def geometric_vector(epsilon: Fraction) -> Audited:
    mechanism = Geometric(epsilon=epsilon, l1_sensitivity=Fraction(2))
    return Audited(repeat(mechanism), ([5, 5], [6, 4]), tight=False)


def truncated_geometric(epsilon: Fraction) -> Audited:
    return Audited(repeat(TruncatedGeometric(epsilon=epsilon, low=0, high=20)), (10, 11))


def truncated_at_an_end(epsilon: Fraction) -> Audited:
    return Audited(repeat(TruncatedGeometric(epsilon=epsilon, low=0, high=3)), (0, 1))


def laplace(epsilon: Fraction) -> Audited:
    mechanism = Laplace(epsilon=epsilon, l1_sensitivity=Fraction(1), granule=Fraction(1, 2**20))
    return Audited(repeat(mechanism), (0, 2**20))


def exponential(epsilon: Fraction) -> Audited:
    mechanism = Exponential(epsilon=epsilon, candidates=11)
    return Audited(repeat(mechanism), ([0] * 10 + [1], [1] * 10 + [0]), tight=False)


def exponential_monotone(epsilon: Fraction) -> Audited:
    mechanism = Exponential(epsilon=epsilon, candidates=10, monotone=True)
    return Audited(repeat(mechanism), ([0] * 9 + [1], [0] * 10), tight=False)


def exponential_with_prior(epsilon: Fraction) -> Audited:
    """One candidate of prior 20 does the work of twenty; at 1/2 it takes a million draws."""
    draws = {Fraction(1): 400_000, Fraction(2): 200_000}.get(epsilon, 100_000)
    mechanism = Exponential(epsilon=epsilon, candidates=2, prior=(Fraction(20), Fraction(1)))
    return Audited(repeat(mechanism), ([0, 1], [1, 0]), tight=epsilon >= 1, draws=draws)


def permute_and_flip(epsilon: Fraction) -> Audited:
    mechanism = PermuteAndFlip(epsilon=epsilon, candidates=11)
    return Audited(repeat(mechanism), ([0] * 10 + [1], [1] * 10 + [0]), tight=False)


def permute_and_flip_of_two(epsilon: Fraction) -> Audited:
    mechanism = PermuteAndFlip(epsilon=epsilon, candidates=2)
    return Audited(repeat(mechanism), ([0, 2], [1, 1]))


def noisy_max(epsilon: Fraction) -> Audited:
    mechanism = NoisyMax(epsilon=epsilon, candidates=11)
    return Audited(repeat(mechanism), ([0] * 10 + [1], [1] * 10 + [0]), tight=False)


def noisy_max_far_apart(epsilon: Fraction) -> Audited:
    mechanism = NoisyMax(epsilon=epsilon, candidates=2)
    gap = math.ceil(3 / epsilon)
    return Audited(repeat(mechanism), ([0, gap + 1], [1, gap]), tight=False)


def randomized_response(epsilon: Fraction) -> Audited:
    return Audited(repeat(RandomizedResponse(epsilon=epsilon, categories=2)), (0, 1))


def randomized_response_of_many(epsilon: Fraction) -> Audited:
    mechanism = RandomizedResponse(epsilon=epsilon, categories=16)
    return Audited(repeat(mechanism), (0, 1), tight=epsilon > 1)


def quantile(epsilon: Fraction) -> Audited:
    mechanism = Quantile(epsilon=epsilon, rank=Fraction(9, 10), size=104)
    first = [0] * 8 + [101] * 2
    return Audited(over_groups(mechanism), (first, [*first, 103]), tight=False)


def median(epsilon: Fraction) -> Audited:
    mechanism = Quantile(epsilon=epsilon, rank=Fraction(1, 2), size=4)
    return Audited(over_groups(mechanism), ([0], [0, 3]), tight=False)


def median_of_replaced_row(epsilon: Fraction) -> Audited:
    """A row goes from one end to the other: all scores below fall, all above rise."""
    unit = Rows(relation=Neighbours.REPLACE_ONE)
    mechanism = Quantile(epsilon=epsilon, rank=Fraction(1, 2), size=105, unit=unit)
    pair = ([0] * 3 + [101] * 3 + [104] * 3, [0] * 2 + [101] * 3 + [104] * 4)
    return Audited(over_groups(mechanism), pair, tight=False)


def over_groups(mechanism: Quantile) -> Callable[[Any, int, Entropy], NDArray[Any]]:
    def run(points: list[int], count: int, entropy: Entropy) -> NDArray[Any]:
        one = Counted.of(np.array(points, dtype=np.int64))
        many = Counted(
            np.tile(one.points, count),
            np.tile(one.counts, count),
            np.repeat(np.arange(count), len(one.points)),
            count,
        )
        return mechanism.sample(many, entropy)

    return run


def smooth_median(epsilon: Fraction) -> Audited:
    mechanism = SmoothMedian(epsilon=epsilon, rows=9, size=2, resolution=100)
    return Audited(repeat(mechanism), ([0] * 5 + [1] * 4, [0] * 6 + [1] * 3), tight=False)


def smooth_median_moved(epsilon: Fraction) -> Audited:
    mechanism = SmoothMedian(epsilon=epsilon, rows=9, size=2, resolution=100)
    return Audited(repeat(mechanism), ([0] * 5 + [1] * 4, [0] * 4 + [1] * 5), tight=False)


def sparse_vector(epsilon: Fraction) -> Audited:
    return judged(SparseVector(epsilon=epsilon, cutoff=1), [0] * 5 + [1], [1] * 5 + [0])


def sparse_vector_of_five(epsilon: Fraction) -> Audited:
    mechanism = SparseVector(epsilon=epsilon, cutoff=5)
    return judged(mechanism, [0] * 5 + [1] * 5, [1] * 5 + [0] * 5)


def sparse_vector_monotone(epsilon: Fraction) -> Audited:
    mechanism = SparseVector(epsilon=epsilon, cutoff=2, monotone=True)
    return judged(mechanism, [0] * 6, [1] * 6)


def sparse_vector_with_numbers(epsilon: Fraction) -> Audited:
    mechanism = SparseVector(epsilon=epsilon / 2, cutoff=1, numeric_epsilon=epsilon / 2)
    return judged(mechanism, [0] * 5 + [1], [1] * 5 + [0])


def judged(mechanism: SparseVector, first: list[int], second: list[int]) -> Audited:
    def run(queries: list[int], count: int, entropy: Entropy) -> NDArray[Any]:
        found = mechanism.sample(np.broadcast_to(queries, (count, len(queries))), entropy)
        if found.numbers is None:
            return found.verdicts
        return np.where(found.verdicts == 1, found.numbers, 1000 * (found.verdicts - 1))

    return Audited(run, (first, second), tight=False)


def sample_aggregate(epsilon: Fraction) -> Audited:
    mechanism = SampleAggregate(
        epsilon=epsilon, blocks=4, low=Fraction(0), high=Fraction(1), granule=Fraction(1, 2**10)
    )
    return Audited(repeat(mechanism), ([0.25, 0.5, 0.0, 0.0], [0.25, 0.5, 0.0, 1.0]))


def sample_aggregate_failing(epsilon: Fraction) -> Audited:
    mechanism = SampleAggregate(
        epsilon=epsilon, blocks=2, low=Fraction(0), high=Fraction(1), granule=Fraction(1, 2**10)
    )
    return Audited(repeat(mechanism), ([0.5, math.nan], [0.5, 1e300]), tight=False)


def sample_aggregate_repeated(epsilon: Fraction) -> Audited:
    """A person in two of four blocks."""
    mechanism = SampleAggregate(
        epsilon=epsilon,
        blocks=4,
        low=Fraction(0),
        high=Fraction(1),
        granule=Fraction(1, 2**10),
        repeats=2,
    )
    return Audited(repeat(mechanism), ([0.0, 0.5, 0.0, 0.5], [1.0, 0.5, 1.0, 0.5]))


def block_quantile(epsilon: Fraction) -> Audited:
    mechanism = BlockQuantile(
        epsilon=epsilon, blocks=5, low=Fraction(0), high=Fraction(1), granule=Fraction(1, 8)
    )
    return Audited(repeat(mechanism), ([0, 0, 0, 1, 1], [0, 0, 1, 1, 1]), tight=False)


def block_quantile_of_failures(epsilon: Fraction) -> Audited:
    mechanism = BlockQuantile(
        epsilon=epsilon,
        blocks=4,
        low=Fraction(0),
        high=Fraction(1),
        granule=Fraction(1, 8),
        repeats=2,
        rank=Fraction(1, 4),
    )
    return Audited(repeat(mechanism), ([0, 0, 0, 0], [1e9, math.nan, 0, 0]), tight=False)


PURE: list[Case] = [
    geometric,
    geometric_vector,
    truncated_geometric,
    truncated_at_an_end,
    laplace,
    exponential,
    exponential_monotone,
    exponential_with_prior,
    permute_and_flip,
    permute_and_flip_of_two,
    noisy_max,
    noisy_max_far_apart,
    randomized_response,
    randomized_response_of_many,
    quantile,
    median,
    median_of_replaced_row,
    smooth_median,
    smooth_median_moved,
    sparse_vector,
    sparse_vector_of_five,
    sparse_vector_monotone,
    sparse_vector_with_numbers,
    sample_aggregate,
    sample_aggregate_failing,
    sample_aggregate_repeated,
    block_quantile,
    block_quantile_of_failures,
]


@pytest.mark.parametrize("epsilon", few_fast(EPSILONS, 1), ids=["half", "one", "two"])
@pytest.mark.parametrize("case", PURE, ids=[case.__name__ for case in PURE])
def test_pure_mechanism_keeps_its_claim(case: Case, epsilon: Fraction) -> None:
    audited = case(epsilon)
    found = audit(
        audited.run,
        audited.pair,
        Pure(epsilon=epsilon),
        entropy=SeededEntropy(1),
        draws=audited.draws,
    )
    assert not found.violated, found.sentence()
    if audited.tight:
        assert found.power >= 0.85, found.sentence()


@pytest.mark.parametrize(
    "case",
    [
        geometric,
        truncated_geometric,
        laplace,
        permute_and_flip_of_two,
        randomized_response,
        sample_aggregate,
    ],
)
def test_too_little_noise_for_a_claim_is_caught(case: Case) -> None:
    """The same code claiming a quarter less: a test that could not see this would be dead."""
    audited = case(Fraction(1))
    claim = Pure(epsilon=Fraction(3, 4))
    assert audit(audited.run, audited.pair, claim, entropy=SeededEntropy(10)).violated


@pytest.mark.parametrize("mu", [0.5, 1.0, 2.0])
def test_gaussian_keeps_its_curve_and_comes_near_it(mu: float) -> None:
    mechanism = Gaussian(rho=Fraction(mu) ** 2 / 2, granule=Fraction(1, 2**10))
    found = audit(repeat(mechanism), (0, 2**10), Curve(mu), entropy=SeededEntropy(2))
    assert not found.violated, found.sentence()
    assert found.power >= 0.85, found.sentence()
    short = Curve(0.75 * mu)
    assert audit(repeat(mechanism), (0, 2**10), short, entropy=SeededEntropy(2)).violated


@pytest.mark.parametrize("epsilon", EPSILONS, ids=["half", "one", "two"])
def test_smooth_median_with_laplace_noise_keeps_its_claim(epsilon: Fraction) -> None:
    delta = Fraction(1, 1000)
    mechanism = SmoothMedian(epsilon=epsilon, delta=delta, rows=9, size=2, resolution=100)
    for pair in (([0] * 5 + [1] * 4, [0] * 6 + [1] * 3), ([0] * 5 + [1] * 4, [0] * 4 + [1] * 5)):
        claim = Approx(epsilon=epsilon, delta=delta)
        found = audit(repeat(mechanism), pair, claim, entropy=SeededEntropy(3))
        assert not found.violated, found.sentence()


@pytest.mark.parametrize("epsilon", EPSILONS, ids=["half", "one", "two"])
@pytest.mark.parametrize("people", [1, 2, 3])
def test_threshold_keys_keep_their_claim(epsilon: Fraction, people: int) -> None:
    """The rarest key is held by one person, or by one more than the other table's."""
    delta = Fraction(1, 50)
    mechanism = ThresholdKeys(noise=Geometric(epsilon=epsilon), delta=delta, max_groups=1)

    def run(count_of_key: int, count: int, entropy: Entropy) -> NDArray[Any]:
        seen = np.full(count, ABSENT)
        if count_of_key:
            released = mechanism.sample(np.full(count, count_of_key), entropy)
            seen[released.positions] = released.counts
        return seen

    claim = Approx(epsilon=epsilon, delta=delta)
    found = audit(run, (people, people - 1), claim, entropy=SeededEntropy(4))
    assert not found.violated, found.sentence()


def test_key_of_one_person_appears_with_almost_the_probability_delta() -> None:
    delta = Fraction(1, 50)
    noise = Geometric(epsilon=Fraction(1), l1_sensitivity=Fraction(5))
    mechanism = ThresholdKeys(noise=noise, delta=delta, max_groups=5)
    count = 200_000
    released = mechanism.sample(np.ones(5 * count, dtype=np.int64), SeededEntropy(5))
    appeared = len(np.unique(released.positions // 5)) / count
    assert 0.8 * float(delta) < appeared < float(delta)


@pytest.mark.parametrize("mechanism", [Exponential, PermuteAndFlip, NoisyMax])
def test_selection_keeps_its_claim_on_its_worst_pattern(mechanism: Any) -> None:
    run = repeat(mechanism(epsilon=Fraction(1), candidates=5))
    claim = Pure(epsilon=Fraction(1))
    entropy = SeededEntropy(6)
    pair = worst(run, patterns(5), claim, entropy=entropy)
    found = audit(run, pair, claim, entropy=entropy)
    assert not found.violated, found.sentence()


def test_released_floats_lie_on_the_grid_whatever_the_value() -> None:
    """The precision attack: the lowest bit of a release says nothing about the value below it."""
    granule = Fraction(1, 2**10)
    for mechanism in (
        Laplace(epsilon=Fraction(1), l1_sensitivity=Fraction(1), granule=granule),
        Gaussian(rho=Fraction(1, 2), granule=granule),
    ):
        for value in (0, 2**10, 2**50, -(2**50)):
            released = mechanism.sample(np.full(10_000, value), SeededEntropy(8))
            assert on_grid(released, float(granule)).all()
        for value in (0, 2**10):
            released = repeat(mechanism)(value, 100_000, SeededEntropy(9))
            odd = int(np.count_nonzero(lowest_bit(released) == -10))
            # Half of all releases are odd multiples: 4.9 standard deviations are 775.
            assert abs(odd - 50_000) < 775


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", EPSILONS, ids=["half", "one", "two"])
@pytest.mark.parametrize(
    "case",
    [geometric, laplace, randomized_response, permute_and_flip_of_two, exponential_with_prior],
)
def test_a_million_draws_come_nearer_to_the_claim(case: Case, epsilon: Fraction) -> None:
    audited = case(epsilon)
    claim = Pure(epsilon=epsilon)
    found = audit(audited.run, audited.pair, claim, entropy=SeededEntropy(21), draws=10**6)
    assert not found.violated, found.sentence()
    assert found.power >= (0.85 if case is exponential_with_prior else 0.94), found.sentence()
