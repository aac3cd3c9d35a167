"""The searches, by family, and one line in the registry for each. Decision `optimal-search`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from sfumato.anonymize.cost import named
from sfumato.anonymize.search import (
    aggarwal,
    full_domain,
    incognito,
    k_optimize,
    meyerson_williams,
    mondrian,
    optimal,
)
from sfumato.anonymize.search.base import Search, SearchProgress
from sfumato.data.counting.memory_limit import SETTING, most_cells
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sfumato.anonymize.outcome import Outcome
    from sfumato.anonymize.problem import Problem


Counting = Literal["all", "absorbing", "none"]


class Member(NamedTuple):
    """A search, the options it takes, and whose rows it keeps together.

    `cost` is what it minimises or chooses by when none is named. `people` says of which criteria it
    can count people: of all, of absorbing ones alone, or of none, because it deals the rows of one
    combination, which may be one person's, to several classes. One that `rolls_up` needs no finer
    combinations than those of the levels from which a table fits in memory.
    """

    search: Search
    takes: frozenset[str]
    cost: str = "loss"
    people: Counting = "all"
    rolls_up: bool = False


_ANY = frozenset({"weights", "limit_seconds"})
_SUPPRESSES = _ANY | {"suppress", "suppressed"}
_LEVELS = _SUPPRESSES | {"population", "refine"}

SEARCHES: dict[str, Member] = {
    optimal.NAME: Member(optimal.search, _LEVELS | {"cost"}, rolls_up=True),
    incognito.NAME: Member(incognito.search, _LEVELS | {"cost"}, rolls_up=True),
    full_domain.SAMARATI: Member(full_domain.samarati, _LEVELS | {"cost"}, rolls_up=True),
    full_domain.SWEENEY: Member(
        full_domain.sweeney, _LEVELS | {"cost"}, cost="precision", rolls_up=True
    ),
    full_domain.DATAFLY: Member(full_domain.datafly, _LEVELS, rolls_up=True),
    mondrian.NAME: Member(mondrian.search, _ANY),
    mondrian.RELAXED: Member(mondrian.search_relaxed, _ANY, people="absorbing"),
    k_optimize.NAME: Member(
        k_optimize.search, _SUPPRESSES | {"cost"}, cost="discernability", rolls_up=True
    ),
    meyerson_williams.NAME: Member(meyerson_williams.search, _ANY, people="none"),
    aggarwal.SUPPRESS: Member(aggarwal.suppress_cells, _ANY, people="none"),
    aggarwal.GENERALIZE: Member(aggarwal.generalize, _ANY, people="none"),
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
            "choice_unknown",
            f"Algorithm {algorithm!r} is not known; take one of {', '.join(SEARCHES)}.",
            parameter="algorithm",
        )
    require_weighted([column.name for column in problem.quasi], weights)
    member = SEARCHES[algorithm]
    chosen = named(cost or member.cost, weights)
    _require_people(problem, algorithm, member)
    # Below the floor of the table nothing can be grouped, which these searches would need.
    if problem.floor is not None and not member.rolls_up:
        raise all_needed(algorithm, len(problem.floor.sizes) * len(problem.quasi))
    watch = SearchProgress(progress, limit_seconds)
    with watch.listening():
        outcome = member.search(problem, chosen, watch)
    # Where the root is all that is left to look at, a search out of time has still proved it.
    ended = None if outcome.optimal else watch.ended
    notes = outcome.notes
    if problem.floor is not None:
        names = [column.name for column in problem.quasi]
        notes = (*notes, problem.floor.sentence(names, proven=outcome.optimal))
    return replace(outcome, ended=ended, minimised=chosen.name, notes=notes)


def require_weighted(quasi: Sequence[str], weights: Mapping[str, float] | None) -> None:
    """Refuse a weight for a column that is not a quasi-identifier."""
    unknown = set(weights or ()) - set(quasi)
    if unknown:
        raise ParameterError(
            "weights_invalid",
            f"Column {min(unknown)!r} has a weight but is no quasi-identifier; those are "
            f"{', '.join(map(repr, quasi))}.",
        )


def _require_people(problem: Problem, algorithm: str, member: Member) -> None:
    """Refuse to count people where one person's rows may be dealt to several classes."""
    if problem.people is None or member.people == "all":
        return
    for criterion in problem.criteria:
        if member.people == "none" or not criterion.absorbing:
            raise people_unknown(f"Algorithm {algorithm!r}", str(criterion), problem.people.column)


def people_unknown(subject: str, asked: str, person: str) -> ParameterError:
    """Return the error of an algorithm that cannot count the people of its classes."""
    return ParameterError(
        "criterion_not_supported",
        f"{subject} cannot promise {asked} of people: it deals rows to classes one by one, and "
        f"several may be of one {person!r}. Take 'optimal' or 'mondrian', or declare "
        'unit = "row" to count rows.',
    )


def all_needed(algorithm: str, cells: int) -> ParameterError:
    """Return the error of an algorithm that needs more cells than fit in memory."""
    able = [name for name, member in SEARCHES.items() if member.rolls_up]
    return ParameterError(
        "problem_too_large",
        f"Algorithm {algorithm!r} must hold {cells:,} cells of this table, and memory is kept for "
        f"{most_cells():,}. Take {', '.join(able[:-1])} or {able[-1]}, which begin at coarser "
        f"levels that fit; or set {SETTING}={cells} or more in the environment.",
    )


__all__ = [
    "SEARCHES",
    "Member",
    "Search",
    "SearchProgress",
    "all_needed",
    "people_unknown",
    "require_weighted",
    "run",
]
