"""Divide the price of a query among its statistics, and choose the noise with the least error.

The cost is either a pure epsilon, spent on Laplace noise, or a rho, spent on Gaussian noise. With
epsilon and a delta both are possible, and the one with smaller errors is used. By default
the errors of all statistics are equal in units of their declared range: Laplace noise of relative
L1 sensitivity a gets a share a of epsilon, Gaussian noise of relative L2 sensitivity a a share a^2
of rho. A caller's weights share the cost among the measures instead. Decision `budgets`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sfumato import exact_numbers
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError, QueryError, option
from sfumato.methods.query.plan import Level, levels
from sfumato.methods.query.plan.statistics import (
    Count,
    Effect,
    PeopleCount,
    Rank,
    Statistic,
    bounded_unit,
    effect,
    granule,
    statistics,
    statistics_of,
)
from sfumato.privacy.accounting.events import Composed
from sfumato.privacy.accounting.price import Price, price
from sfumato.privacy.mechanisms.gaussian import Gaussian
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.mechanisms.quantile import Quantile
from sfumato.privacy.mechanisms.spending import Spending, spendings
from sfumato.privacy.mechanisms.threshold_keys import ThresholdKeys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.methods.query.plan import Plan
    from sfumato.privacy.accounting.events import Event

Mechanism = Geometric | Gaussian | Quantile | ThresholdKeys
Slot = tuple[int, Statistic]
"""A statistic at a level, by the level's number."""


@dataclass(frozen=True, kw_only=True)
class QueryPrice(Price):
    """What a question may cost: epsilon or rho, a delta, and shares of the measures by name."""

    weights: Mapping[str, Fraction] = field(default_factory=dict)

    def to_record(self) -> dict[str, Any]:
        """Write the cost as JSON-able data; exact numbers become texts like "1/10"."""
        record = super().to_record()
        if self.weights:
            record["weights"] = {name: str(self.weights[name]) for name in sorted(self.weights)}
        return record


def query_price(
    *,
    epsilon: object = None,
    rho: object = None,
    delta: object = 0,
    weights: Mapping[str, object] | None = None,
    maximum: Fraction = exact_numbers.EPSILON_MAXIMUM,
) -> QueryPrice:
    """Read the cost that a caller offers: exactly one of epsilon and rho."""
    offered = price(epsilon=epsilon, rho=rho, delta=delta, maximum=maximum)
    return QueryPrice(
        epsilon=offered.epsilon,
        rho=offered.rho,
        delta=offered.delta,
        weights={
            name: exact_numbers.weight(value, "weight") for name, value in (weights or {}).items()
        },
    )


@dataclass(frozen=True)
class Allocation:
    """The mechanism of every statistic at every level, and what all of them cost together."""

    levels: tuple[Level, ...]
    mechanisms: Mapping[Slot, Mechanism]
    epsilon: Fraction | None
    """The pure epsilon that was shared; None where it was a rho."""
    rho: Fraction | None
    carrier: Statistic
    """The statistic whose noisy value decides which observed keys are released."""
    granules: Mapping[Statistic, int]
    """The units of a noisy integer in one row, or in one step of a value."""

    @cached_property
    def statistics(self) -> tuple[Statistic, ...]:
        """Every statistic that gets noise at some level."""
        return tuple(dict.fromkeys(statistic for _, statistic in self.mechanisms))

    @property
    def sizes(self) -> dict[int, int]:
        """How many values each declared key has, by its position."""
        return {
            position: key.axis.size
            for level in self.levels
            for position, key in zip(level.positions, level.keys, strict=True)
            if key.axis is not None
        }

    def at(self, level: Level) -> dict[Statistic, Mechanism]:
        """The mechanisms of one level."""
        return {
            statistic: mechanism
            for (number, statistic), mechanism in self.mechanisms.items()
            if number == level.number
        }

    def variance(self, level: Level, statistic: Statistic) -> float:
        """The variance of a statistic, in rows or steps, rounding from granules included."""
        mechanism = self.mechanisms[level.number, statistic]
        assert not isinstance(mechanism, Quantile)
        fine = self.granules[statistic]
        # Rounding granules to whole rows adds a uniform error of variance 1 / 12.
        return mechanism.variance / fine**2 + (1 / 12 if fine > 1 else 0.0)

    def bound(self, level: Level, statistic: Statistic, beta: float) -> float:
        """The bound of a statistic's error, in rows or steps, or of its rank: exceeded by beta."""
        mechanism = self.mechanisms[level.number, statistic]
        noise = mechanism.noise if isinstance(mechanism, ThresholdKeys) else mechanism
        fine = self.granules[statistic]
        return noise.bound(beta) / fine + (0.5 if fine > 1 else 0.0)

    @property
    def event(self) -> Event:
        """What all of it costs."""
        return Composed(tuple(mechanism.event for mechanism in self.mechanisms.values()))


def allocate(plan: Plan, price: QueryPrice) -> Allocation:
    """Choose noise for every statistic within a cost: of the ways to spend it, the best one."""
    plan_levels = levels(plan)
    observed = [level for level in plan_levels if not level.declared]
    if observed and not price.delta:
        # Observed keys are private: without a threshold, a group would reveal that a person is in
        # it.
        names = ", ".join(quoted(key.name) for key in plan.keys if key.axis is None)
        raise QueryError(
            "parameter_missing",
            f"The values of {names} are not declared, so groups can be released only by a "
            f"threshold, which needs a delta. Give {option('delta', 1e-7)}, say, which is a part "
            "of the budget's delta, or add under the column in its schema: values = [...]",
            parameter="delta",
        )
    _check_weights(plan, price.weights)
    # The statistic of smallest sensitivity that is 0 for a group without people.
    carrier: Statistic = PeopleCount() if plan.unit.by_person else Count()
    effects = _effects(plan, plan_levels, carrier)
    if not effects:
        raise QueryError(
            "column_not_aggregated",
            "The question asks for no aggregate, and its keys are declared, so public. Ask for "
            "COUNT, SUM, AVG or another figure of each group.",
        )
    # Chosen by public facts alone: plan, price and declared ranges.
    candidates = [
        _spend(plan, effects, price, strategy) for strategy in _strategies(price, len(observed))
    ]
    strategy, mechanisms = min(candidates, key=lambda candidate: _error(effects, candidate[1]))
    for level in observed:
        # The threshold reuses the noise of the count that it is compared with: one charge for
        # both.
        slot = (level.number, carrier)
        mechanisms[slot] = _threshold(plan, mechanisms[slot], strategy.keys_delta)
    granules = {statistic: granule(plan, statistic) for _, statistic in effects}
    return Allocation(
        plan_levels, mechanisms, strategy.spending.epsilon, strategy.spending.rho, carrier, granules
    )


@dataclass(frozen=True)
class _Strategy:
    """One way to spend a price, and a delta for the keys of each level."""

    spending: Spending
    keys_delta: Fraction


def _strategies(price: QueryPrice, observed: int) -> list[_Strategy]:
    """Read (epsilon, delta) as a pure epsilon, or as the rho that implies it."""
    # Thresholds of several levels each fail with their own delta, so they share it.
    delta_per_level = price.delta / observed if observed else Fraction(0)
    # The conversion takes a delta of its own: half of it where keys need the other half.
    first, *converted = spendings(price, conversion=price.delta / (2 if observed else 1))
    return [
        _Strategy(first, delta_per_level),
        *(_Strategy(spending, delta_per_level / 2) for spending in converted),
    ]


def _effects(plan: Plan, plan_levels: tuple[Level, ...], carrier: Statistic) -> dict[Slot, Effect]:
    """The effect of one person on each statistic at each level."""
    effects: dict[Slot, Effect] = {}
    for level in plan_levels:
        needed = dict.fromkeys(statistics(plan))
        if not level.declared:
            needed[carrier] = None
        for statistic in needed:
            effects[level.number, statistic] = effect(plan, statistic, grouped=level.grouped)
    return effects


def _spend(
    plan: Plan, effects: Mapping[Slot, Effect], price: QueryPrice, strategy: _Strategy
) -> tuple[_Strategy, dict[Slot, Mechanism]]:
    """Make the mechanism of every statistic for its share."""
    sizes = {
        slot: effect_.relative if strategy.spending.rho is None else effect_.relative_squared
        for slot, effect_ in effects.items()
    }
    # Equal errors relative to the ranges: Laplace noise of sensitivity a and a share a of epsilon
    # has one scale for all, as has Gaussian noise of sensitivity a and a share a^2 of rho.
    shares = _weighted_shares(plan, sizes, price.weights) if price.weights else sizes
    total = sum(shares.values())
    if price.weights:
        _check_shares(strategy.spending, min(shares.values()) / total)
    mechanisms: dict[Slot, Mechanism] = {
        slot: _mechanism(slot[1], effect_, strategy, shares[slot] / total)
        for slot, effect_ in effects.items()
    }
    return strategy, mechanisms


def _check_shares(spending: Spending, smallest_share: Fraction) -> None:
    """Refuse weights that leave a figure less than the smallest unit of a budget."""
    if spending.epsilon is not None:
        amount, unit = spending.epsilon * smallest_share, exact_numbers.EPSILON_UNIT
    else:
        assert spending.rho is not None
        amount, unit = spending.rho * smallest_share, exact_numbers.RHO_UNIT
    if amount < unit or smallest_share < _LEAST_SHARE:
        raise ParameterError(
            "weights_invalid",
            f"The weights leave one of the figures {exact_numbers.plain(smallest_share, digits=2)} "
            "of the "
            f"price, which is less than {exact_numbers.plain(_LEAST_SHARE)} of it or than a budget "
            "counts. Give weights that are closer together, or ask for more.",
        )


_LEAST_SHARE = Fraction(1, 10**9)
"""Below it a figure would be noise alone, and shares unreasonably long fractions."""


def _weighted_shares(
    plan: Plan, sizes: Mapping[Slot, Fraction], weights: Mapping[str, Fraction]
) -> dict[Slot, Fraction]:
    """Divide by the weights of measures, and within a measure in proportion to `sizes`.

    Measures without a weight have weight 1, and so has a count that only decides about keys.
    """
    shares = dict.fromkeys(sizes, Fraction(0))
    weighted = [
        (weights.get(measure.name, Fraction(1)), statistics_of(measure, plan.unit))
        for measure in plan.measures
    ]
    weighted_statistics = {statistic for _, of_measure in weighted for statistic in of_measure}
    hidden = tuple(
        dict.fromkeys(statistic for _, statistic in sizes if statistic not in weighted_statistics)
    )
    # A count that only decides about keys needs budget as well, though no measure shows it.
    if hidden:
        weighted.append((Fraction(1), hidden))
    for weight, of_measure in weighted:
        slots = [slot for slot in sizes if slot[1] in of_measure]
        total = sum(sizes[slot] for slot in slots)
        for slot in slots:
            shares[slot] += weight * sizes[slot] / total
    return shares


def _mechanism(
    statistic: Statistic, effect_: Effect, strategy: _Strategy, share: Fraction
) -> Geometric | Gaussian | Quantile:
    """The noise that a share of the cost pays for."""
    if isinstance(statistic, Rank):
        argument = statistic.argument
        return Quantile(
            epsilon=strategy.spending.choice_epsilon(share),
            rank=statistic.quantile,
            size=argument.high - argument.low + 1,
            unit=effect_.unit,
            granule=effect_.granule,
        )
    return strategy.spending.noise(effect_.sensitivity, share)


def _threshold(plan: Plan, noise: Mechanism, delta: Fraction) -> ThresholdKeys:
    """The noisy count that decides which observed keys are released."""
    assert isinstance(noise, Geometric | Gaussian)
    unit = bounded_unit(plan)
    return ThresholdKeys(
        noise=noise,
        delta=delta,
        max_groups=unit.groups,
        # A person counts once in each group; without persons a group counts up to max_rows of one
        # row's copies.
        max_count=1 if plan.unit.by_person else unit.max_rows,
        relation=unit.relation,
    )


def _error(effects: Mapping[Slot, Effect], mechanisms: Mapping[Slot, Mechanism]) -> float:
    """The sum of the variances, each relative to its declared range."""
    total = 0.0
    for slot, mechanism in mechanisms.items():
        if isinstance(mechanism, Quantile):
            # The error of a rank is about two-sided exponential with this scale.
            variance = 2 * float(2 * mechanism.sensitivity / mechanism.epsilon) ** 2
        else:
            variance = mechanism.variance
        total += variance / float(effects[slot].spread) ** 2
    return total


def relative_error(plan: Plan, chosen: Allocation) -> float:
    """The sum of the variances of all figures, each relative to its declared range."""
    return _error(_effects(plan, chosen.levels, chosen.carrier), chosen.mechanisms)


def _check_weights(plan: Plan, weights: Mapping[str, Fraction]) -> None:
    names = [measure.name for measure in plan.measures]
    for name in weights:
        if name not in names:
            raise ParameterError(
                "weights_invalid",
                f"There is no aggregate {quoted(name)} to weigh; {suggestion(name, names)}",
            )
