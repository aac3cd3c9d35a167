"""Datafly: greedily generalize the quasi-identifier with most values, then suppress the rest."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.outcome import Generalization
from sfumato.anonymize.search.base import Examiner, unreachable

if TYPE_CHECKING:
    from sfumato.anonymize.cost import Cost
    from sfumato.anonymize.problem import Problem
    from sfumato.anonymize.search.base import Watch

NAME = "datafly"


def search(problem: Problem, cost: Cost, watch: Watch) -> Generalization:
    """Raise the quasi-identifier with most released values until few enough rows fail."""
    examiner = Examiner(problem)
    levels = [0] * len(problem.shape)
    values = [[np.count_nonzero(label.rows) for label in c.levels] for c in problem.quasi]
    node = examiner.examine(tuple(levels))
    while not node.admissible:
        watch.tell(sum(levels), sum(problem.top))
        rising = [place for place, level in enumerate(levels) if level < problem.top[place]]
        if not rising:
            raise watch.nothing(NAME) if watch.ended else unreachable(problem)
        if watch.expired:
            levels = list(problem.top)
        else:
            levels[max(rising, key=lambda place: values[place][levels[place]])] += 1
        node = examiner.examine(tuple(levels))
    return Generalization.of(
        NAME,
        node,
        checked=examiner.checked,
        lattice=prod(problem.shape),
        weights=cost.weights,
    )
