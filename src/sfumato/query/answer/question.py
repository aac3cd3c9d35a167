"""Answering a plan: what it costs, and the release with error bars once it was paid for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sfumato.errors import QueryError
from sfumato.mechanisms.threshold_keys import ThresholdKeys
from sfumato.privacy.numbers import EPSILON_MAXIMUM
from sfumato.query.answer.explain import Explanation, explain
from sfumato.query.answer.figures import Estimates, figures
from sfumato.query.answer.noisy import NoisyLevel, release
from sfumato.query.answer.postprocessing import error_bars, finished, noisy_table, placed
from sfumato.query.plan import Function, canonical
from sfumato.query.plan.allocation import Allocation, QueryPrice, cost, split
from sfumato.release.release import Guarantee, Provenance, Release
from sfumato.schema.names import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from fractions import Fraction

    from sqlglot import exp

    from sfumato.engines.base import Engine
    from sfumato.method import Dataset
    from sfumato.noise.entropy import Entropy
    from sfumato.privacy.events import Event
    from sfumato.query.answer.postprocessing import OpenTable
    from sfumato.query.plan import Plan

BIAS = (
    "Error bars count the noise alone, not what clamping values into their bounds and bounding "
    "each person's rows took away."
)
_ADDITIVE = (Function.COUNT, Function.SUM)


def prepare(
    plan: Plan,
    *,
    open_table: OpenTable,
    epsilon: object = None,
    rho: object = None,
    delta: object = 0,
    weights: Mapping[str, object] | None = None,
    maximum: Fraction = EPSILON_MAXIMUM,
) -> Question:
    """Make a plan ready to be charged and run at a cost: epsilon or rho, with or without delta.

    `open_table` opens an engine on a table in memory; `finish` runs there, over noisy figures.
    `maximum` is the largest epsilon that the owner of the data allows.
    """
    price = cost(epsilon=epsilon, rho=rho, delta=delta, weights=weights, maximum=maximum)
    return Question(plan, price, split(plan, price), open_table)


@dataclass(frozen=True)
class Question:
    """A plan at a cost: what the gatekeeper charges and runs. Nothing in it saw data."""

    plan: Plan
    price: QueryPrice
    split: Allocation
    open_table: OpenTable

    name = "query"

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets it reads."""
        return self.plan.datasets

    @property
    def public(self) -> tuple[str, ...]:
        """The data sets about nobody that it reads too."""
        return self.plan.public

    @property
    def event(self) -> Event:
        """What it costs, from public facts alone."""
        return self.split.event

    @cached_property
    def parameters(self) -> Mapping[str, Any]:
        """Everything that determines what is asked, in canonical JSON form."""
        return {"plan": canonical(self.plan), "cost": self.price.to_record()}

    def run(self, datasets: Mapping[str, Dataset], entropy: Entropy) -> Release:
        """Read bounded aggregates, add noise, and give the answer with its error bars."""
        engine, source = located(self.plan, datasets)
        axes, levels = release(self.plan, self.split, engine, source, entropy)
        made = [(one.groups, self._figures(one)) for one in levels]
        table, errors = finished(self.plan, noisy_table(self.plan, axes, made), self.open_table)
        ranks = {
            measure.name: max(level[place].ranks or 0.0 for _, level in made)
            for place, measure in enumerate(self.plan.measures)
            if measure.function is Function.QUANTILE
        }
        return Release(
            {"answer": table},
            self.guarantee,
            Provenance(self.name, self.parameters, fingerprint=""),
            error_bars(self.plan, errors, ranks),
        )

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the answer must know."""
        return tuple(_notes(self.plan, self.split))

    def explain(self) -> Explanation:
        """Cost, expected error and advice, without spending anything."""
        return explain(self)

    @property
    def guarantee(self) -> Guarantee:
        """What the answer promises."""
        promised = self.price.to_record()
        loss = " and ".join(
            f"{name} {promised[name]}" for name in ("epsilon", "rho", "delta") if promised.get(name)
        )
        return Guarantee(
            "differential privacy",
            f"{loss}. {self.plan.unit.sentence()}",
            {
                **promised,
                "unit": self.plan.unit.sentence(),
                "notes": list(self.notes),
            },
        )

    def _figures(self, one: NoisyLevel) -> list[Estimates]:
        """The measures of one level."""
        adjusted = {**one.noisy, **one.consistent}
        return [
            figures(
                measure,
                self.plan.unit,
                adjusted if measure.function in _ADDITIVE else one.noisy,
            )
            for measure in self.plan.measures
        ]


def located(plan: Plan, datasets: Mapping[str, Dataset]) -> tuple[Engine, exp.Query]:
    """The engine of a plan's data sets, and its source with their tables in place."""
    engines = {id(one.engine): one.engine for one in datasets.values()}
    if len(engines) != 1:
        raise QueryError(
            "engines_differ",
            "The data sets of one question must lie in the same database, but "
            f"{', '.join(map(quoted, datasets))} lie in {len(engines)}. Ask about each apart.",
        )
    tables = {name: one.table for name, one in datasets.items()}
    return next(iter(engines.values())), placed(plan.source, tables)


def _notes(plan: Plan, chosen: Allocation) -> Iterator[str]:
    if plan.kept is not None:
        yield (
            f"Of people with more than {plan.kept:,} rows in a table that is joined only some rows "
            "are joined, drawn by a secret hash."
        )
    for level in chosen.levels:
        names = ", ".join(quoted(key.name) for key in level.keys)
        if not level.declared:
            mechanism = chosen.mechanisms[level.number, chosen.carrier]
            assert isinstance(mechanism, ThresholdKeys)
            yield (
                f"The values of {names} are not all declared: a group is shown only if its noisy "
                f"count reaches {mechanism.threshold}, so small groups are missing."
            )
        elif level.grouped:
            yield f"All {level.groups:,} declared groups of {names} are shown, empty ones too."
    for measure in plan.measures:
        if measure.note:
            yield measure.note
    yield BIAS
