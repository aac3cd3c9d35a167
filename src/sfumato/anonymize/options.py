"""What a person wishes of a release, by whatever door: numbers and criteria, and what they ask."""

from __future__ import annotations

from contextlib import closing, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from sfumato import arguments
from sfumato.anonymize.perturbative_release import PERTURBATIVE
from sfumato.anonymize.pipeline import anonymize
from sfumato.attack.own_release import attacked
from sfumato.attack.requirements import attacks_wanted, check_fitting, read_requirements
from sfumato.errors import ParameterError
from sfumato.release.open_table import read_population

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.anonymize.criteria import Criterion
    from sfumato.anonymize.problem_setup import CriteriaRequest
    from sfumato.anonymize.result import Anonymized
    from sfumato.data.engines.sources import Source
    from sfumato.data.schema.schema import Schema
    from sfumato.release.open_table import Table

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
_ANATOMY = "anatomy"


def criteria_of(
    schema: Schema, numbers: CriteriaRequest, columns: Sequence[str], algorithm: str
) -> tuple[list[Criterion], Sequence[str]]:
    """The criteria of the numbers given, and the columns that the algorithm is to rearrange."""
    if algorithm == _ANATOMY and numbers.l is not None and numbers.diversity is None:
        numbers = replace(numbers, diversity="folk")
    criteria = numbers.criteria(schema, columns)
    if algorithm in PERTURBATIVE:
        return criteria, columns
    if columns and not any(one.column for one in criteria):
        raise ParameterError(
            "option_without_other",
            f"--sensitive means nothing to {algorithm!r} without --l, --t, --beta or "
            "--delta-disclosure. Give one of them, or drop it.",
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
    """Decide on a release by criteria and numbers together, and attack it where that is asked."""
    required = read_requirements(require)
    check_fitting(required, table.schema)
    publish = arguments.flag(publish_findings, "publish_findings")
    asked_for = arguments.maybe_flag(attacks, "attacks")
    wanted = attacks_wanted(asked_for, required, publish=publish, off="attacks=False")
    for one in criteria:
        if not hasattr(one, "compares_population"):
            raise ParameterError(
                "type_wrong",
                f"A criterion must be one such as sf.KAnonymity(5), not {arguments.shown(one)}. "
                "Numbers are given by name: k=5.",
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
    return attacked(decided, required, publish=publish) if wanted else decided
