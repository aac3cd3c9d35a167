"""The searches, one member per module and one line in the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sfumato.anonymize.cost import named
from sfumato.anonymize.search import (
    aggarwal_generalize,
    aggarwal_suppress,
    datafly,
    incognito,
    k_optimize,
    meyerson_williams,
    mondrian,
    mondrian_relaxed,
    optimal,
    samarati,
    sweeney,
)
from sfumato.anonymize.search.base import Search, Watch
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sfumato.anonymize.outcome import Outcome
    from sfumato.anonymize.problem import Problem


class Member(NamedTuple):
    """A search, and the cost it minimises or chooses by when none is named."""

    search: Search
    cost: str = "loss"


SEARCHES: dict[str, Member] = {
    optimal.NAME: Member(optimal.search),
    incognito.NAME: Member(incognito.search),
    samarati.NAME: Member(samarati.search),
    sweeney.NAME: Member(sweeney.search, cost="precision"),
    datafly.NAME: Member(datafly.search),
    mondrian.NAME: Member(mondrian.search),
    mondrian_relaxed.NAME: Member(mondrian_relaxed.search),
    k_optimize.NAME: Member(k_optimize.search, cost="discernability"),
    meyerson_williams.NAME: Member(meyerson_williams.search),
    aggarwal_suppress.NAME: Member(aggarwal_suppress.search),
    aggarwal_generalize.NAME: Member(aggarwal_generalize.search),
}


def run(
    problem: Problem,
    algorithm: str = optimal.NAME,
    *,
    cost: str | None = None,
    weights: Mapping[str, float] | None = None,
    limit_seconds: float | None = None,
    progress: Callable[[float, float], None] | None = None,
) -> Outcome:
    """Search a release by name; `cost` None means the algorithm's own."""
    if algorithm not in SEARCHES:
        raise ParameterError(
            "algorithm_unknown",
            f"Algorithm {algorithm!r} is not known; take one of {', '.join(SEARCHES)}.",
        )
    unknown = set(weights or ()) - {column.name for column in problem.quasi}
    if unknown:
        raise ParameterError(
            "weight_column_unknown",
            f"Column {min(unknown)!r} has a weight but is no quasi-identifier; those are "
            f"{', '.join(repr(column.name) for column in problem.quasi)}.",
        )
    member = SEARCHES[algorithm]
    chosen = named(cost or member.cost, weights)
    return member.search(problem, chosen, Watch(progress, limit_seconds))


__all__ = ["SEARCHES", "Member", "Search", "Watch", "run"]
