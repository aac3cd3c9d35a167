"""The only step from private to public figures: read bounded aggregates, add exact noise.

Decision `group-keys`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.methods.query.answer.exact_aggregates import (
    EngineQueries,
    ExactAggregates,
    LevelGroups,
    all_groups,
)
from sfumato.methods.query.answer.figures import NoisyStatistic, spread_factor
from sfumato.methods.query.plan.statistics import Count, Rank, Total
from sfumato.privacy.estimation.residuals import MarginalLattice, ResidualEstimate
from sfumato.privacy.mechanisms.base import add
from sfumato.privacy.mechanisms.quantile import Quantile
from sfumato.privacy.mechanisms.threshold_keys import ThresholdKeys
from sfumato.privacy.noise.entropy import random_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from sqlglot import exp

    from sfumato.arrays import FloatArray
    from sfumato.data.counting.axes import Axis
    from sfumato.data.engines.base import Engine
    from sfumato.methods.query.plan import Level, Plan
    from sfumato.methods.query.plan.allocation import Allocation, Mechanism
    from sfumato.methods.query.plan.statistics import Additive, Statistic
    from sfumato.privacy.noise.entropy import Entropy


@dataclass(frozen=True)
class NoisyLevel:
    """The released groups of a level, and their noisy statistics.

    `consistent` has the counts and sums whose totals equal the sums of their parts. `released` is
    how many groups those shown were chosen among: more, where a limit cut off small noisy counts.
    """

    groups: LevelGroups
    noisy: Mapping[Statistic, NoisyStatistic]
    consistent: Mapping[Statistic, NoisyStatistic]
    released: int


def release(
    plan: Plan,
    allocation: Allocation,
    engine: Engine,
    source: exp.Query,
    entropy: Entropy,
    observed_cap: int | None = None,
) -> tuple[Mapping[int, Axis], list[NoisyLevel]]:
    """Read a plan's aggregates from the engine and add noise to every figure.

    Of observed groups each level shows at most `observed_cap`.
    """
    # The salt is secret and new for each question: it keys the hash that samples rows. With a
    # known salt a person could choose which rows of theirs are sampled; with a reused one, two
    # answers would sample the same rows.
    salt = random_key(entropy)
    questions = EngineQueries(
        plan, allocation.levels, allocation.mechanisms, source, salt, engine.traits.hashed
    )
    exact = ExactAggregates(questions, engine)
    levels = [
        _release_level(allocation, exact, level, entropy, observed_cap)
        for level in allocation.levels
    ]
    return exact.axes, _make_consistent(allocation, levels)


def _release_level(
    allocation: Allocation,
    exact: ExactAggregates,
    level: Level,
    entropy: Entropy,
    observed_cap: int | None,
) -> NoisyLevel:
    """Add noise to the groups and statistics of one level."""
    noisy: dict[Statistic, NoisyStatistic] = {}
    if level.declared:
        # Declared groups are all answered, empty ones too: which of them occur is private.
        groups = all_groups(level)
        released = groups.count
    else:
        passed = _passing_groups(allocation, exact, level, entropy, observed_cap)
        groups, noisy[allocation.carrier], released = passed
    for statistic, mechanism in allocation.at(level).items():
        if statistic in noisy:
            continue
        if isinstance(mechanism, Quantile):
            assert isinstance(statistic, Rank)
            chosen = mechanism.sample(exact.value_counts(statistic, groups), entropy)
            noisy[statistic] = NoisyStatistic(
                chosen, 0.0, partial(allocation.bound, level, statistic)
            )
        else:
            assert not isinstance(mechanism, ThresholdKeys)
            fine = allocation.granules[statistic]
            steps = mechanism.steps(exact.values(statistic, groups), entropy)
            # Post-processing: round granules to whole rows.
            values = add(steps, np.full_like(steps, fine // 2)) // fine
            margin = partial(allocation.bound, level, statistic)
            noisy[statistic] = NoisyStatistic(values, allocation.variance(level, statistic), margin)
    return NoisyLevel(groups, noisy, {}, released)


def _passing_groups(
    allocation: Allocation,
    exact: ExactAggregates,
    level: Level,
    entropy: Entropy,
    observed_cap: int | None,
) -> tuple[LevelGroups, NoisyStatistic, int]:
    """The observed groups whose noisy count passes the threshold, these counts, and their number.

    If more groups pass than may be shown, those with the largest noisy counts are shown. This
    chooses among released figures, so it costs nothing.
    """
    mechanism = allocation.mechanisms[level.number, allocation.carrier]
    assert isinstance(mechanism, ThresholdKeys)
    # The groups read here are private until the threshold has selected some of them.
    groups, counts = exact.occurring_groups(allocation.carrier, level)
    passed = mechanism.sample(counts, entropy)
    positions, noisy_counts = passed.positions, passed.counts
    if observed_cap is not None and len(positions) > observed_cap:
        # Sorted again by position: groups stay in the order of their keys, which depends on no
        # count.
        largest = np.sort(np.argsort(-noisy_counts, kind="stable")[:observed_cap])
        positions, noisy_counts = positions[largest], noisy_counts[largest]
    codes = tuple(column[positions] for column in groups.codes)
    shown = LevelGroups(level, groups.sizes, codes, len(positions))
    margin = partial(_passed_margin, allocation, level, noisy_counts)
    variance = allocation.variance(level, allocation.carrier)
    return shown, NoisyStatistic(noisy_counts, variance, margin), len(passed.positions)


def _passed_margin(
    allocation: Allocation, level: Level, counts: NDArray[Any], beta: float
) -> FloatArray:
    """The bound of the error of a count that has passed the threshold, exceeded by beta.

    Only high noise lets a small count pass. Given that it passes, its excess over the threshold
    exceeds the plain bound B no more often than non-negative noise does; so a count at most B above
    the threshold may be any number from 1 on. A group that passes with probability 1/2 or more
    exceeds B with probability at most beta' / (1 - beta' / 2) = beta, if B is the bound for beta'.
    """
    mechanism = allocation.mechanisms[level.number, allocation.carrier]
    assert isinstance(mechanism, ThresholdKeys)
    noisy, margin = (
        counts.astype(np.float64),
        allocation.bound(level, allocation.carrier, beta / (1 + beta / 2)),
    )
    return np.where(noisy <= mechanism.threshold + margin, np.maximum(noisy - 1, margin), margin)


def _make_consistent(allocation: Allocation, levels: list[NoisyLevel]) -> list[NoisyLevel]:
    """Make counts and sums of several declared levels consistent, by least squares."""
    dense = [level for level in levels if level.groups.level.declared]
    # One level is consistent with itself.
    if len(dense) < 2:
        return levels
    adjusted: dict[int, dict[Statistic, NoisyStatistic]] = {
        level.groups.level.number: {} for level in dense
    }
    for statistic in allocation.statistics:
        if isinstance(statistic, Count | Total):
            for number, noisy in _adjust(statistic, dense, allocation).items():
                adjusted[number][statistic] = noisy
    return [
        replace(level, consistent=adjusted.get(level.groups.level.number, {})) for level in levels
    ]


def _adjust(
    statistic: Additive, dense: Sequence[NoisyLevel], allocation: Allocation
) -> dict[int, NoisyStatistic]:
    """One statistic of the declared levels by weighted least squares, by the level's number."""
    levels = [level.groups.level for level in dense]
    estimate = _least_squares(statistic, levels, allocation)
    residuals = estimate.residuals(
        level.noisy[statistic].values.astype(float).reshape(level.groups.level.sizes)
        for level in dense
    )
    adjusted = {}
    for level in levels:
        variance = estimate.cell_variance(level.positions)
        mechanism = allocation.mechanisms[level.number, statistic]
        margin = partial(_adjusted_margin, mechanism, variance)
        values = estimate.marginal(residuals, level.positions).ravel()
        adjusted[level.number] = NoisyStatistic(values, variance, margin)
    return adjusted


def _adjusted_margin(mechanism: Mechanism, variance: float, beta: float) -> float:
    return spread_factor(mechanism, beta) * math.sqrt(variance)


def adjusted_variances(allocation: Allocation, statistic: Additive) -> dict[int, float]:
    """The variances after levels were adjusted to each other; nothing where they are not."""
    dense = [level for level in allocation.levels if level.declared]
    if len(dense) < 2:
        return {}
    estimate = _least_squares(statistic, dense, allocation)
    return {level.number: estimate.cell_variance(level.positions) for level in dense}


def _least_squares(
    statistic: Additive, dense: Sequence[Level], allocation: Allocation
) -> ResidualEstimate:
    """The estimate that treats declared levels as noisy marginals of one table."""
    sets = tuple(level.positions for level in dense)
    known = allocation.sizes
    sizes = tuple(known.get(position, 1) for position in range(max(known, default=-1) + 1))
    # Weighted by precision: the least squares estimate with the smallest variance.
    precisions = np.array([1 / allocation.variance(level, statistic) for level in dense])
    return ResidualEstimate(MarginalLattice(sizes, sets), sets, precisions)
