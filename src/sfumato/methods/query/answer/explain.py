"""The cost and the expected error of a query, before anything is spent.

Everything here follows from the plan and the price, which are public; no row is read.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.data.schema.names import quoted
from sfumato.methods.query.answer.error_bars import beta_of_rows
from sfumato.methods.query.answer.figures import NoisyStatistic, ratio, spread_factor
from sfumato.methods.query.answer.noisy_aggregates import adjusted_variances
from sfumato.methods.query.plan import Function
from sfumato.methods.query.plan.allocation import QueryPrice, allocate, relative_error
from sfumato.methods.query.plan.statistics import Count, Total, statistics_of
from sfumato.privacy.accounting.price import amounts_in_words
from sfumato.privacy.mechanisms.gaussian import Gaussian
from sfumato.privacy.mechanisms.quantile import Quantile
from sfumato.privacy.mechanisms.threshold_keys import ThresholdKeys
from sfumato.report.display import Card, CardTable, Shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sfumato.methods.query.answer.question import Question
    from sfumato.methods.query.plan import Level, Measure
    from sfumato.methods.query.plan.allocation import Allocation, Mechanism
    from sfumato.methods.query.plan.statistics import Statistic

GROUP_SIZES = (10, 100, 1_000, 10_000, 100_000)
_USUAL_DELTA = Fraction(1, 10**6)
_WORTHWHILE = 0.8


@dataclass(frozen=True)
class Expected:
    """The expected error of one column at one level of grouping.

    The error of averages and variances depends on the size of the group: `sizes` has its largest
    value for groups of some sizes. The error of a quantile is one of its rank, in rows: `ranks95`.
    """

    column: str
    grouped_by: tuple[str, ...]
    mechanism: str
    sd: float | None = None
    bound95: float | None = None
    sizes: dict[int, dict[str, float]] | None = None
    ranks95: float | None = None


@dataclass(frozen=True, repr=False)
class Explanation(Shown):
    """Cost, expected error, notes, and advice for a better answer."""

    cost: dict[str, Any]
    expected: tuple[Expected, ...]
    notes: tuple[str, ...]
    improve: tuple[str, ...]

    def _card(self) -> Card:
        amounts = amounts_in_words(self.cost)
        rows = [
            (row.column, ", ".join(row.grouped_by), row.mechanism, row.bound95, row.ranks95)
            for row in self.expected
        ]
        titles = ("Figure", "By", "How", "± 95 %", "Ranks ± 95 %")
        figures = ", ".join(dict.fromkeys(row.column for row in self.expected))
        line = f"{figures} would cost {amounts}; nothing was spent"
        return Card(line, {"Cost": amounts}, CardTable(titles, rows), [*self.notes, *self.improve])

    def to_json(self) -> dict[str, Any]:
        """The explanation as JSON-able data."""
        return {
            "cost": self.cost,
            "expected": [
                {name: value for name, value in asdict(row).items() if value is not None}
                for row in self.expected
            ],
            "notes": list(self.notes),
            "improve": list(self.improve),
        }

    def text(self) -> str:
        """The explanation for people."""
        lines = [f"Cost: {amounts_in_words(self.cost)}.", "Expected error:"]
        lines += [f"  {_sentence(row)}" for row in self.expected]
        lines += ["Notes:", *(f"  {note}" for note in self.notes)]
        lines += ["What would improve it:", *(f"  {advice}" for advice in self.improve)]
        return "\n".join(lines)


def explain(question: Question) -> Explanation:
    """Explain a question that was prepared."""
    rows = tuple(
        _expected(question, measure, level)
        for level in question.allocation.levels
        for measure in question.plan.measures
    )
    cost = question.price.charged(question.event).to_record()
    return Explanation(cost, rows, tuple(question.notes), tuple(_advice(question)))


def _expected(question: Question, measure: Measure, level: Level) -> Expected:
    components = statistics_of(measure, question.plan.unit)
    mechanisms = question.allocation.at(level)
    used = [mechanisms[component] for component in components]
    grouped_by = tuple(key.name for key in level.keys)
    row = Expected(measure.name, grouped_by, " + ".join(dict.fromkeys(map(_describe, used))))
    first = used[0]
    declared = sum(level_.groups or 0 for level_ in question.allocation.levels)
    beta = beta_of_rows(question.plan, declared)
    if isinstance(first, Quantile):
        ranks = question.allocation.bound(level, components[0], beta)
        return replace(row, ranks95=ranks)
    if len(components) > 1:
        return replace(row, sizes=_by_size(question.allocation, level, measure, components, beta))
    total = components[0]
    step = float(total.argument.step) if isinstance(total, Total) else 1.0
    stddev = math.sqrt(question.allocation.variance(level, total))
    bound = question.allocation.bound(level, total, beta)
    adjusted = (
        adjusted_variances(question.allocation, total) if isinstance(total, Count | Total) else {}
    )
    if level.number in adjusted:
        # Levels that are made consistent by least squares have smaller errors than the noise
        # alone.
        stddev = math.sqrt(adjusted[level.number])
        bound = spread_factor(first, beta) * stddev
    return replace(row, sd=stddev * step, bound95=bound * step)


def _by_size(
    chosen: Allocation,
    level: Level,
    measure: Measure,
    components: Sequence[Statistic],
    beta: float,
) -> dict[int, dict[str, float]]:
    """The largest error in groups of some sizes: all values at a bound, or half at either."""
    sizes = np.array(GROUP_SIZES, dtype=np.float64)
    errors = []
    # Two extreme groups bound the error: all values at one end, and half at each end of the range.
    for mixed in (False, True):
        noisy = []
        for component in components:
            low, high = component.ends if isinstance(component, Total) else (1, 1)
            term = (
                (low + high) / 2
                if mixed and isinstance(component, Total) and component.power == 1
                else high
            )
            variance, margin = (
                chosen.variance(level, component),
                partial(chosen.bound, level, component),
            )
            noisy.append(NoisyStatistic(sizes * float(term), variance, margin))
        errors.append(ratio(measure, components, noisy, beta)[1:])
    stddev, bound = np.max(errors, axis=0)
    return {
        size: {"sd": float(sd), "bound95": float(margin)}
        for size, sd, margin in zip(GROUP_SIZES, stddev, bound, strict=True)
    }


def _describe(mechanism: Mechanism) -> str:
    if isinstance(mechanism, ThresholdKeys):
        return f"{_describe(mechanism.noise)}, shown from {mechanism.threshold} on"
    if isinstance(mechanism, Quantile):
        return f"exponential mechanism at epsilon {float(mechanism.epsilon):.4g}"
    if isinstance(mechanism, Gaussian):
        return f"Gaussian noise at rho {float(mechanism.rho):.4g}"
    return f"Laplace noise at epsilon {float(mechanism.epsilon):.4g}"


def _sentence(row: Expected) -> str:
    where = f" by {', '.join(row.grouped_by)}" if row.grouped_by else ""
    start = f"{row.column}{where} ({row.mechanism}):"
    if row.ranks95 is not None:
        return f"{start} its rank is within {row.ranks95:.4g} rows in 95 % of cases."
    if row.sizes is not None:
        table = ", ".join(f"{size:,} rows {error['sd']:.4g}" for size, error in row.sizes.items())
        return f"{start} sd at most, in groups of {table}."
    return f"{start} sd {row.sd:.4g}, within {row.bound95:.4g} in 95 % of cases."


def _advice(question: Question) -> Iterator[str]:
    """What would lower the error, the strongest first."""
    plan, price = question.plan, question.price
    observed = [quoted(key.name) for key in plan.keys if key.axis is None]
    if observed:
        yield (
            f"Declare the values of {', '.join(observed)} in the schema: every group is then "
            "shown, and nothing is spent on finding out which exist."
        )
    if price.epsilon is not None and not price.delta:
        alternative = allocate(
            plan, QueryPrice(epsilon=price.epsilon, delta=_USUAL_DELTA, weights=price.weights)
        )
        # Both errors are sums of relative variances, so the ratio of standard deviations is a
        # square root.
        gain = math.sqrt(
            relative_error(plan, alternative) / relative_error(plan, question.allocation)
        )
        if gain < _WORTHWHILE:
            yield f"Allow a delta of 1e-6: Gaussian noise would lower the error to {gain:.0%}."
    if plan.unit.max_rows > 1:
        yield (
            f"Lower max_rows, now {plan.unit.max_rows}: the noise shrinks in proportion, though "
            "more rows of busy people are left out."
        )
    for measure in plan.measures:
        argument = measure.argument
        if argument is None or measure.function is not Function.SUM:
            continue
        largest, spread = max(abs(argument.low), abs(argument.high)), argument.high - argument.low
        # The noise of a sum follows the largest magnitude, that of a centred average half of the
        # range.
        if spread and largest > 2 * spread:
            yield (
                f"Ask for AVG instead of SUM in {quoted(measure.name)}: its bounds are far from "
                "zero, and an average needs noise only for the distance from their middle."
            )
        else:
            yield f"Declare narrower bounds for {quoted(measure.name)}: its noise follows them."
    if len(plan.measures) > 1:
        yield "Ask for fewer aggregates at a time, or weigh them: they share the cost."
    yield "Spend more: twice the epsilon, or four times the rho, halves the error."
