"""Local refinement: the rows that a full-domain search suppressed are searched again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sfumato.anonymize.labels import at_levels
from sfumato.anonymize.lattice_grouping import GroupedView
from sfumato.anonymize.outcome import Generalization, outcome_facts
from sfumato.anonymize.partition import (
    DataPoints,
    GroupedRelease,
    Partition,
    Shares,
    refuse_population,
    released_classes,
)
from sfumato.anonymize.search import SearchProgress, run
from sfumato.errors import CriterionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.anonymize.lattice_grouping import View
    from sfumato.anonymize.problem import Problem
    from sfumato.arrays import IntArray

# Each round releases at least one class; the limit bounds the time.
_MOST_ROUNDS = 20


class Refined(NamedTuple):
    """A refined release, and the reduction of its cost."""

    outcome: Partition
    gain: float
    rounds: int


def refine(
    outcome: Generalization,
    *,
    cost: str = "loss",
    weights: Mapping[str, float] | None = None,
    limit_seconds: float | None = None,
) -> Refined:
    """Search suppressed rows again, round by round, until none are left or none can be released.

    *Guarantee*: every round's classes pass on their own. Where two rounds write the same labels
    their classes are one, which passes because criteria are union-closed. Sensitive values are
    compared with the original table in every round.
    *Edges*: ends where no rest passes, after 20 rounds, or out of time; the rest stays suppressed.
    """
    # Criteria of a population count people for one node, and a refined release has several nodes.
    problem = outcome.node.problem
    refuse_population(problem, "refine")
    points = DataPoints.of(problem)
    remaining = np.arange(len(points))
    steps: list[Generalization] = []
    groups: list[tuple[IntArray, IntArray]] = []
    step: Generalization | None = outcome
    watch, ended = SearchProgress(limit_seconds=limit_seconds), outcome.ended
    while step is not None:
        numbers = released_classes(step.node, [leaves[remaining] for leaves in points.leaves])
        # Class numbers of each round begin at 0; `_join_rounds` shifts them.
        groups.append((remaining[numbers >= 0], numbers[numbers >= 0]))
        steps.append(step)
        remaining = remaining[numbers < 0]
        ended = ended or step.ended or (watch.ended if watch.expired else None)
        step = None if ended or len(steps) > _MOST_ROUNDS else _again(step, cost, weights, watch)
    release = _join_rounds(problem, points, steps, groups)
    figures = outcome_facts(outcome.algorithm, release, weights)
    refined = Partition(
        **figures,
        release=release,
        checked=outcome.checked,
        ended=ended,
        minimised=outcome.minimised,
    )
    name = cost.replace("-", "_")
    return Refined(refined, outcome.cost[name] - refined.cost[name], len(steps) - 1)


def _again(
    step: Generalization, cost: str, weights: Mapping[str, float] | None, watch: SearchProgress
) -> Generalization | None:
    """Search the rows that a step suppressed; None if none of them can be released."""
    problem = step.node.problem
    if step.suppressed < max(problem.smallest, 1):
        return None
    views = tuple(_failing_rows(view, step) for view in problem.views)
    # A round must release half of the rest; if that is impossible, at least one class.
    for allowed in (step.suppressed // 2, step.suppressed - problem.smallest):
        remaining = replace(problem, views=views, rows=step.suppressed, allowed=allowed)
        try:
            outcome = run(
                remaining,
                step.algorithm,
                cost=cost,
                weights=weights,
                limit_seconds=watch.seconds_left,
            )
        except CriterionError:
            continue
        assert isinstance(outcome, Generalization)
        return outcome
    return None


def _failing_rows(view: View, step: Generalization) -> View:
    """Return the rows of a view in classes that fail."""
    rows = np.flatnonzero(released_classes(step.node, [codes[0] for codes in view.codes]) < 0)
    return replace(
        view,
        codes=tuple(tuple(level[rows] for level in column) for column in view.codes),
        base=GroupedView(np.arange(len(rows)), view.base.counts[rows]),
        values=None if view.values is None else view.values[rows],
    )


def _join_rounds(
    problem: Problem,
    points: DataPoints,
    steps: Sequence[Generalization],
    groups: Sequence[tuple[IntArray, IntArray]],
) -> GroupedRelease:
    """Return the classes of all rounds, each with the labels of its round's levels."""
    counts = [step.classes for step in steps]
    starts = np.cumsum([0, *counts[:-1]])
    point = np.concatenate([members for members, _ in groups])
    group = np.concatenate([mine + at for (_, mine), at in zip(groups, starts, strict=True)])
    member = np.empty(sum(counts), dtype=np.int64)
    member[group] = point
    labels = []
    for position, column in enumerate(problem.quasi):
        levels = np.repeat([step.node.levels[position] for step in steps], counts)
        labels.append(at_levels(column, points.leaves[position][member].astype(np.int64), levels))
    return GroupedRelease(
        problem, Shares(points, point, points.counts[point], group), tuple(labels)
    )
