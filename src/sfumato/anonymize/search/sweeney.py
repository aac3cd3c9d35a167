"""Sweeney's MinGen: every node of the lattice, the admissible one of least distortion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.anonymize.lattice import check_size
from sfumato.anonymize.node import Node
from sfumato.anonymize.outcome import Generalization
from sfumato.anonymize.search.base import Examiner, Incumbent, unreachable
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.anonymize.cost import Cost
    from sfumato.anonymize.problem import Problem
    from sfumato.anonymize.search.base import Watch

NAME = "sweeney"
_MOST_NODES = 200_000


def search(problem: Problem, cost: Cost, watch: Watch) -> Generalization:
    """Examine every node and return the admissible one of least distortion (precision)."""
    if cost.name != "precision":
        raise ParameterError(
            "cost_not_of_algorithm",
            f"Algorithm {NAME!r} minimises precision; cost {cost.name!r} cannot be asked of it. "
            "Drop the cost, or take algorithm 'optimal'.",
        )
    lattice = check_size(problem.shape, NAME)
    if lattice > _MOST_NODES:
        raise ParameterError(
            "lattice_too_large",
            f"Algorithm {NAME!r} examines every node, and the lattice has {lattice:,}; at most "
            f"{_MOST_NODES:,} are sensible. Take algorithm 'optimal' with cost 'precision', which "
            "returns the same node.",
        )
    found = Incumbent(lambda n: (cost.value(n), n.suppressed, sum(n.levels), n.levels))
    checked = 0
    for node in walk(problem):
        if watch.expired:
            break
        found.offer(node)
        checked += 1
        watch.tell(checked, lattice)
    best = found.or_root(Examiner(problem)) if watch.ended else found.best
    if best is None:
        raise watch.nothing(NAME) if watch.ended else unreachable(problem)
    return Generalization.of(
        NAME,
        best,
        checked=checked,
        lattice=lattice,
        weights=cost.weights,
        optimal=watch.ended is None,
        bound=None if watch.ended else cost.value(best),
    )


def walk(problem: Problem) -> Iterator[Node]:
    """Every node once, each grouped from a neighbour one step finer."""
    base = (0,) * len(problem.shape)
    tables = tuple(view.base for view in problem.views)
    first = tuple(
        view.group(table, base) for view, table in zip(problem.views, tables, strict=True)
    )
    # Raising columns only in order reaches every node on exactly one way.
    waiting = [(Node(problem, base, first), 0)]
    while waiting:
        node, column = waiting.pop()
        yield node
        for place in range(column, len(base)):
            if node.levels[place] < problem.top[place]:
                levels = (
                    *node.levels[:place],
                    node.levels[place] + 1,
                    *node.levels[place + 1 :],
                )
                grouped = tuple(
                    view.group(table, levels)
                    for view, table in zip(problem.views, node.tables, strict=True)
                )
                waiting.append((Node(problem, levels, grouped), place))
