"""Anonymize a table in its engine: check the request, count, search, and describe the release.

Decision `optimal-search`.
"""

from __future__ import annotations

from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, replace
from datetime import date
from fractions import Fraction
from sys import float_info
from typing import TYPE_CHECKING, Any, Literal

from sfumato import arguments
from sfumato.anonymize.alternatives import TOO_LARGE, advise, too_large
from sfumato.anonymize.criteria import BetaLikeness, DeltaDisclosure, KAnonymity, KMap, TCloseness
from sfumato.anonymize.mondrian_in_engine import CutTree, cells_to_cut, cut_in_engine
from sfumato.anonymize.outcome import Generalization
from sfumato.anonymize.perturbative_release import PERTURBATIVE, PerturbativeOptions
from sfumato.anonymize.problem import person_of, pose
from sfumato.anonymize.released_classes import numbers_of_values, regroup
from sfumato.anonymize.result import Anonymized
from sfumato.anonymize.search import SEARCHES, SearchProgress, all_needed, people_unknown, run
from sfumato.anonymize.search.mondrian import NAME as MONDRIAN
from sfumato.anonymize.search.refine import refine as refine_suppressed
from sfumato.anonymize.source_check import mark_before
from sfumato.anonymize.summary import (
    costs_of_untouched,
    figures_of_outcome,
    in_plain_words,
    risk_before,
)
from sfumato.attack.release_check import attacked
from sfumato.attack.requirements import attacks_wanted, check_fitting, read_requirements
from sfumato.data.counting.memory_limit import (
    SizeCounts,
    TooManyCombinationsError,
    cells_of,
    smallest_crowds,
)
from sfumato.data.inspection.risk import attacker
from sfumato.data.schema.column import Kind, Role
from sfumato.errors import ParameterError, option
from sfumato.exact_numbers import decimal_of, not_negative, probability
from sfumato.release.open_table import read_population
from sfumato.release.recoding import ByCuts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sfumato.anonymize.criteria import Criterion
    from sfumato.anonymize.criteria.request import CriteriaRequest
    from sfumato.anonymize.outcome import Outcome
    from sfumato.anonymize.problem import Problem
    from sfumato.anonymize.released_classes import ReleasedClasses
    from sfumato.anonymize.result import Suppressed
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.engines.sources import Source
    from sfumato.data.schema.schema import Schema
    from sfumato.exact_numbers import Number
    from sfumato.release.open_table import Table


def check_options(
    algorithm: str, options: Mapping[str, object], criteria: Sequence[Criterion]
) -> None:
    """Refuse an unknown algorithm, and options that it would ignore; None means not given."""
    takes = {name: search.takes for name, search in SEARCHES.items()}
    takes |= {name: method.takes for name, method in PERTURBATIVE.items()}
    if algorithm not in takes:
        raise ParameterError(
            "choice_unknown",
            f"Algorithm {algorithm!r} is not known; take one of {', '.join(takes)}.",
            parameter="algorithm",
        )
    ignored = [
        name
        for name, value in options.items()
        if value is not None and name not in takes[algorithm]
    ]
    if ignored:
        alternatives = [
            name for name, options_taken in takes.items() if options_taken.issuperset(ignored)
        ]
        raise ParameterError(
            "option_not_applicable",
            f"Algorithm {algorithm!r} does not take {' and '.join(map(_option_name, ignored))}; it "
            f"takes {', '.join(map(_option_name, sorted(takes[algorithm]))) or 'none'}. "
            f"Leave it out, or take {', '.join(alternatives) or 'another algorithm'}.",
        )
    if options.get("suppressed") not in (None, "drop", "star"):
        raise ParameterError(
            "choice_unknown",
            f"Suppressed rows are 'drop' or 'star', not {options['suppressed']!r}.",
            parameter="suppressed",
        )
    compares = any(criterion.compares_population for criterion in criteria)
    if options.get("population") is not None and not compares:
        raise ParameterError(
            "option_not_applicable",
            "A population is given, but no criterion uses it. Leave it out, or require k-map with "
            f"{option('k')} or delta-presence with {option('presence')}.",
        )


_PYTHON_ONLY = {"weights"}


def _option_name(name: str) -> str:
    """Write an option in a sentence; parameters of Python alone are left unchanged."""
    return name if name in _PYTHON_ONLY else option(name)


_COMPARE_ORIGINAL = (TCloseness, DeltaDisclosure, BetaLikeness)


def anonymize(
    table: Table,
    criteria: Sequence[Criterion],
    *,
    algorithm: str = "optimal",
    cost: str | None = None,
    suppress: Number = 0,
    suppressed: Suppressed = "drop",
    sensitive: Sequence[str] = (),
    population: Table | None = None,
    weights: Mapping[str, float] | None = None,
    refine: bool = False,
    limit_seconds: Number | None = None,
    progress: Callable[[float, float], None] | None = None,
    advice: bool = False,
    by: str | None = None,
) -> Anonymized:
    """Decide on a release of a table that satisfies the criteria.

    `sensitive` names the columns that anatomy, permute and perturb rearrange, by default those of
    the criteria or all that are declared sensitive. `refine` searches rows again that a full-domain
    search suppressed. `advice` lists for the holder what would have cost less. Options that an
    algorithm does not have are refused. A search that reaches `limit_seconds`, or is interrupted,
    ends with the best release so far. `by` is the maker of the release.
    """
    limit = seconds_of(limit_seconds)
    options = {
        "cost": cost,
        "suppress": suppress if probability(suppress, "suppress") else None,
        "suppressed": suppressed if suppressed != "drop" else None,
        "sensitive": sensitive or None,
        "population": population,
        "weights": weights,
        "refine": refine or None,
        "limit_seconds": limit,
    }
    check_options(algorithm, options, criteria)
    origin: dict[str, Any] = {"by": by, "mark": mark_before(table)}
    if algorithm in PERTURBATIVE:
        perturbative_options = PerturbativeOptions(tuple(sensitive), limit, progress)
        with _advise_on_memory(algorithm, table, criteria):
            decided = PERTURBATIVE[algorithm].decide(table, criteria, perturbative_options)
        return replace(decided, **origin)
    chosen_search = SEARCHES[algorithm]
    problem, counted = _pose(table, criteria, algorithm, suppress, population)
    watch = SearchProgress(progress, limit)
    outcome = _search(table, problem, counted, algorithm, cost, weights, watch)
    if refine:
        outcome = _refine(outcome, cost or chosen_search.cost, weights, watch)
    used = {
        "cost": cost or chosen_search.cost,
        "suppress": decimal_of(probability(suppress, "suppress")),
        "suppressed": suppressed,
        "weights": None if weights is None else dict(weights),
        "refine": refine,
        "limit_seconds": limit,
    }
    parameters = {name: value for name, value in used.items() if name in chosen_search.takes}
    decided = replace(_describe_outcome(table, counted, problem, outcome, parameters), **origin)
    # The classes follow from counts in memory; otherwise the engine counts them when needed.
    if problem.floor is None and suppressed == "drop":
        decided = replace(decided, classes=_classes(decided, counted))
    return _add_advice(decided, problem, outcome, weights, watch, options) if advice else decided


def _pose(
    table: Table,
    criteria: Sequence[Criterion],
    algorithm: str,
    suppress: Number,
    population: Table | None,
) -> tuple[Problem, Frequencies]:
    """Pose the problem in the form that an algorithm needs if combinations do not fit in memory."""
    cuts = algorithm == MONDRIAN
    able = SEARCHES[algorithm].rolls_up or cuts
    with (
        nullcontext()
        if SEARCHES[algorithm].rolls_up
        else _advise_on_memory(algorithm, table, criteria)
    ):
        return pose(
            table,
            criteria,
            suppress=suppress,
            population=population,
            rolls_up=able,
            to_roots=cuts,
            shared=numbers_of_values(table.engine, _sensitive_kinds(table)),
        )


def _search(
    table: Table,
    problem: Problem,
    counted: Frequencies,
    algorithm: str,
    cost: str | None,
    weights: Mapping[str, float] | None,
    watch: SearchProgress,
) -> Outcome:
    """Run the search; a table that does not fit in memory is cut in its engine."""
    # Mondrian needs finer values than those of the floor: it cuts in the engine instead.
    if algorithm == MONDRIAN and problem.floor is not None:
        with _advise_on_memory(algorithm, table, problem.criteria):
            return cut_in_engine(table, problem, counted, watch, weights)
    limit, progress = watch.limit_seconds, watch.progress
    return run(
        problem, algorithm, cost=cost, weights=weights, limit_seconds=limit, progress=progress
    )


@contextmanager
def _advise_on_memory(
    algorithm: str, table: Table, criteria: Sequence[Criterion]
) -> Iterator[None]:
    """Say in the error what exceeds the memory, and which algorithms need less."""
    try:
        yield
    except TooManyCombinationsError as error:
        if algorithm == MONDRIAN:
            cells = cells_to_cut(table, criteria)
        else:
            cells = cells_of(table.engine, table.engine.table, error.columns)
        raise all_needed(algorithm, cells) from None


def _add_advice(
    decided: Anonymized,
    problem: Problem,
    outcome: Outcome,
    weights: Mapping[str, float] | None,
    watch: SearchProgress,
    options: Mapping[str, object],
) -> Anonymized:
    """Add advice about cheaper options, if there is time to search for it."""
    if outcome.ended is not None:
        return decided
    if too_large(problem) or isinstance(outcome, CutTree):
        return replace(decided, remarks=(*decided.remarks, TOO_LARGE))
    set_names = [name for name, value in options.items() if value is not None]
    tried = advise(problem, outcome, weights, watch, set_names)
    return replace(decided, advice=tuple(tried))


def seconds_of(limit: Number | None) -> float | None:
    """Check a time limit, and return it in seconds."""
    if limit is None:
        return None
    seconds = not_negative(limit, "limit_seconds")
    if seconds > Fraction(float_info.max):
        raise ParameterError(
            "parameter_out_of_range",
            "limit_seconds must be a number of ordinary size.",
            parameter="limit_seconds",
        )
    return float(seconds)


def _refine(
    outcome: Outcome, cost: str, weights: Mapping[str, float] | None, watch: SearchProgress
) -> Outcome:
    """Search the suppressed rows again, and note what that gained."""
    assert isinstance(outcome, Generalization)  # refining is an option of those that choose levels
    people = outcome.node.problem.people
    if people is not None:
        raise people_unknown("Refining", " and ".join(outcome.criteria), people.column)
    refined = refine_suppressed(
        outcome, cost=cost, weights=weights, limit_seconds=watch.seconds_left
    )
    note = (
        f"Suppressed rows were searched again, {refined.rounds} times: "
        f"{outcome.suppressed - refined.outcome.suppressed:,} of them are released after all, and "
        f"{cost} fell by {refined.gain:.6g}."
    )
    return replace(refined.outcome, notes=(*outcome.notes, note))


def _describe_outcome(
    table: Table,
    counted: Frequencies,
    problem: Problem,
    outcome: Outcome,
    parameters: Mapping[str, Any],
) -> Anonymized:
    """Describe what a search decided, with labels in place of quasi-identifiers."""
    quasi = [column.name for column in problem.quasi]
    roles = (Role.SENSITIVE, Role.OTHER)
    unchanged = tuple(column.name for column in table.schema.columns if column.role in roles)
    person = person_of(table.schema)
    floor = problem.floor
    sizes = SizeCounts.of(counted.marginal(quasi).counts) if floor is None else floor.sizes
    protected = dict.fromkeys(
        criterion.column for criterion in problem.criteria if criterion.column is not None
    )
    return Anonymized(
        table=table,
        figures={**figures_of_outcome(outcome), "k": _k(problem.criteria)},
        statement=f"Every class of released rows satisfies {problem.asked()}.",
        recoding=outcome.recoding(unchanged),
        recoded=dict.fromkeys(quasi, Kind.TEXT),
        unchanged=unchanged,
        parameters=parameters,
        before={"classes": len(sizes), **costs_of_untouched(sizes, k=problem.k)},
        lost=outcome.ncp,
        reference={
            criterion.column: _distribution(counted, criterion.column, person)
            for criterion in problem.criteria
            if isinstance(criterion, _COMPARE_ORIGINAL)
        },
        protected=tuple(protected),
        remarks=(*outcome.notes, *([outcome.verdict] if outcome.verdict else [])),
        watched=tuple(_sensitive_kinds(table)),
        suppressed=parameters.get("suppressed", "drop"),
        risk=_risk(table, counted, quasi, sizes, rolled_up=floor is not None),
        **in_plain_words(problem.criteria, person),
    )


def _sensitive_kinds(table: Table) -> dict[str, Kind]:
    """Return the sensitive columns in which everyone of a class may share a value."""
    return {column.name: column.kind for column in table.schema.by_role(Role.SENSITIVE)}


def _classes(decided: Anonymized, counted: Frequencies) -> ReleasedClasses | None:
    """Return the classes; None if the engine cut, or equal rows may be in different classes."""
    recoding = decided.spelled_recoding()
    if isinstance(recoding, ByCuts) or not recoding.by_value:
        return None
    return regroup(counted, recoding, labelled=[*decided.recoded], sensitive=decided.watched)


def _risk(
    table: Table, counted: Frequencies, quasi: Sequence[str], sizes: SizeCounts, *, rolled_up: bool
) -> dict[str, float]:
    """Return the risk of re-identification in the original table."""
    person = person_of(table.schema)
    if not rolled_up:
        return risk_before(counted, quasi, person)
    if person is not None and person not in quasi:
        crowds = smallest_crowds(table.engine, table.engine.table, quasi, person)
        return asdict(attacker(crowds.classes, crowds.sizes))
    return asdict(attacker(sizes.rows, sizes.sizes))


def _k(criteria: Sequence[Criterion]) -> int:
    """Return the k of the criteria; 1 without one."""
    return max(
        (criterion.k for criterion in criteria if isinstance(criterion, KAnonymity | KMap)),
        default=1,
    )


def _distribution(counted: Frequencies, column: str, person: str | None) -> list[list[Any]]:
    """Count the values of a sensitive column, with which classes were compared."""
    marginal = counted.marginal([column]) if person is None else counted.people([column], person)
    values = marginal.axes[0].decode(marginal.codes[0]).to_pylist()
    spelled = [value.isoformat() if isinstance(value, date) else value for value in values]
    return [list(pair) for pair in zip(spelled, marginal.counts.tolist(), strict=True)]


Algorithm = Literal[
    "optimal",
    "incognito",
    "samarati",
    "sweeney",
    "datafly",
    "mondrian",
    "mondrian-relaxed",
    "k-optimize",
    "meyerson-williams",
    "aggarwal-suppress",
    "aggarwal-generalize",
    "anatomy",
    "permute",
    "perturb",
]
CostName = Literal[
    "loss",
    "loss-geometric",
    "discernability",
    "average-class-size",
    "c-avg",
    "precision",
    "entropy",
    "suppressed",
]


def criteria_of(
    schema: Schema, numbers: CriteriaRequest, columns: Sequence[str], algorithm: str
) -> tuple[list[Criterion], Sequence[str]]:
    """Return criteria from numbers, and the columns that the algorithm rearranges."""
    if algorithm == "anatomy" and numbers.l is not None and numbers.diversity is None:
        numbers = replace(numbers, diversity="folk")
    criteria = numbers.criteria(schema, columns)
    if algorithm in PERTURBATIVE:
        return criteria, columns
    if columns and not any(criterion.column for criterion in criteria):
        raise ParameterError(
            "options_conflict",
            f"{option('sensitive')} has no effect on {algorithm!r} without {option('l')}, "
            f"{option('t')}, {option('beta')} or {option('delta_disclosure')}. Give one of them, "
            "or leave it out.",
        )
    return criteria, ()


def decide(
    table: Table,
    criteria: Sequence[Criterion],
    numbers: CriteriaRequest,
    *,
    algorithm: str,
    sensitive: Sequence[str] | str,
    population: Source | None,
    attacks: bool | None = None,
    require: Sequence[str] | str = (),
    publish_findings: bool = False,
    **options: Any,
) -> Anonymized:
    """Decide on a release by criteria and numbers together, and attack it if required."""
    required = read_requirements(require)
    check_fitting(required, table.schema)
    publish = arguments.flag(publish_findings, "publish_findings")
    asked_for = arguments.maybe_flag(attacks, "attacks")
    wants_attacks = attacks_wanted(asked_for, required, publish=publish, off="attacks=False")
    for criterion in criteria:
        if not hasattr(criterion, "compares_population"):
            raise ParameterError(
                "parameter_type_wrong",
                "A criterion must be one such as sf.KAnonymity(5), not "
                f"{arguments.shown(criterion)}. Numbers are given by name: k=5.",
                parameter="criteria",
                given=arguments.shown(criterion),
            )
    columns = arguments.names(sensitive, "sensitive")
    asked, rearranged = criteria_of(
        table.schema, numbers, columns, arguments.text(algorithm, "algorithm")
    )
    arguments.amounts(options["weights"], "weights")
    arguments.maybe_text(options["cost"], "cost")
    arguments.flag(options["refine"], "refine")
    arguments.text(options["suppressed"], "suppressed")
    people = None if population is None else read_population(population, table.schema)
    with nullcontext() if people is None else closing(people):
        decided = anonymize(
            table,
            [*criteria, *asked],
            algorithm=algorithm,
            sensitive=rearranged,
            population=people,
            **options,
        )
    return attacked(decided, required, publish=publish) if wants_attacks else decided
