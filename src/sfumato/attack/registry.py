"""All attacks by name, and what each of them needs.

A new attack is a module of this package with `run(case)` and its entry here. The module has the
name of the attack, with `_` in place of `-`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING

from sfumato.attack.case import PERSON, cannot_run, reason_of
from sfumato.attack.finding import Finding, Findings, percent
from sfumato.attack.person_counts import COUNTED
from sfumato.data.schema.column import Role
from sfumato.data.schema.names import suggestion
from sfumato.errors import CallerError, ParameterError, option

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from sfumato.attack.case import Case

ALL = "all"
"""The name that runs every attack that fits."""

_ROWS_COUNTED = "Rows are counted, not people, of whom some may have several."
_MOST_STRANGERS = 0.5
"""If a larger share of released rows fits nobody in the original, they are not people's rows."""


@dataclass(frozen=True, kw_only=True)
class Attack:
    """The tables that an attack reads, and its conditions to run."""

    summary: str
    on_answers: bool = False
    """It queries the owner's table through the door, and needs no release."""
    on_counts: bool = False
    """It reads published counts, which have no rows."""
    rows_are_people: bool = False
    """It takes released rows for people, so it does not fit a synthetic table."""
    names_people: bool = False
    """Its data has a column that identifies people, whatever the schema's privacy unit."""
    needs_control: bool = False
    """It is often right about anybody, so only the excess over a control group is a leak."""
    measures_leak: bool = True
    """Its success is a leak. False for a change of belief, and for the utility of a join."""
    list_adds_columns: bool = False
    """The list of people has columns that no release has."""
    reads_times: bool = False
    """It compares times of day, not only dates."""
    before_classes: bool = False
    """It runs on every anonymized table before the table leaves."""
    before_rows: bool = False
    """It runs on synthetic rows, and on counts read as rows, before they leave."""
    fits_synthetic: bool = False
    """It can be required of synthetic rows, and of counts read as rows."""
    roles: tuple[Role, ...] = ()
    """The roles that columns of a synthetic release must have."""
    least_columns: int = 1
    """How many columns a synthetic release must have."""
    column_names: tuple[tuple[str, ...], ...] = ()
    """Sets of column names, one of which a release must have unless its owner maps columns."""
    needs: str | None = None
    """An input that is missing before a release, so that it cannot run then."""


_ANSWERS = "a table that answers questions"

ATTACKS: dict[str, Attack] = {
    "link": Attack(
        summary="join a named list with the release",
        before_classes=True,
        before_rows=True,
        fits_synthetic=True,
        roles=(Role.QUASI,),
    ),
    "link-fuzzy": Attack(
        summary="join a list that has typing errors and missing cells", needs="a list of people"
    ),
    "uniqueness": Attack(
        summary="find who is unique in the population",
        rows_are_people=True,
        needs="the population, or its size",
    ),
    "homogeneity": Attack(
        summary="find classes whose people all have one value",
        rows_are_people=True,
        before_classes=True,
    ),
    "background": Attack(
        summary="find classes with one value left after some are excluded", rows_are_people=True
    ),
    "skewness": Attack(
        summary="find classes in which a rare value is common",
        rows_are_people=True,
        measures_leak=False,
        before_classes=True,
    ),
    "similarity": Attack(summary="find classes whose values mean the same", rows_are_people=True),
    "minimality": Attack(summary="reason from where a minimal algorithm did not stop"),
    "definetti": Attack(summary="learn across buckets which values go with which traits"),
    "composition": Attack(
        summary="intersect two releases of the same people",
        rows_are_people=True,
        needs="a second release",
    ),
    "join": Attack(
        summary="join two releases, or a release and a public table, over their labels",
        rows_are_people=True,
        measures_leak=False,
        needs="a second release",
    ),
    "downcoding": Attack(summary="refine minimal labels by one step"),
    "predict": Attack(
        summary="train a model on the release",
        needs_control=True,
        fits_synthetic=True,
        roles=(Role.QUASI, Role.SENSITIVE),
    ),
    "differencing": Attack(
        summary="ask two questions that differ in one person", on_answers=True, needs=_ANSWERS
    ),
    "averaging": Attack(
        summary="ask one question again and again", on_answers=True, needs=_ANSWERS
    ),
    "tracker": Attack(
        summary="ask about many people so that all but one cancel out",
        on_answers=True,
        needs=_ANSWERS,
    ),
    "reconstruct": Attack(
        summary="compute everybody's secret from counts of random groups",
        on_answers=True,
        needs=_ANSWERS,
    ),
    "membership": Attack(
        summary="find out which people were in the data that a table was made from",
        on_counts=True,
        needs="people who are not in the data",
    ),
    "singling-out": Attack(
        summary="describe unique rows of the release and look for people like that",
        needs_control=True,
        fits_synthetic=True,
    ),
    "linkability": Attack(
        summary="link records of two lists by the release",
        needs_control=True,
        fits_synthetic=True,
        least_columns=2,
    ),
    "inference": Attack(
        summary="guess a column of people from the nearest released row",
        needs_control=True,
        before_rows=True,
        fits_synthetic=True,
        roles=(Role.SENSITIVE,),
        least_columns=2,
    ),
    "copies": Attack(
        summary="find released rows that are exact copies of people's rows",
        before_rows=True,
        fits_synthetic=True,
    ),
    "scoreboard": Attack(
        summary="find all ratings of a person by a few of them",
        names_people=True,
        reads_times=True,
        column_names=((PERSON, "item"),),
    ),
    "path": Attack(
        summary="find all points of a person by a few of them",
        names_people=True,
        reads_times=True,
        column_names=((PERSON, "time", "place"), (PERSON, "time", "lon", "lat")),
    ),
    "log": Attack(
        summary="find people by names and places that they search for",
        names_people=True,
        list_adds_columns=True,
        needs="a list of people",
    ),
    "neighbourhood": Attack(
        summary="find people of a graph by their neighbourhood",
        names_people=True,
        column_names=(("source", "target"),),
    ),
}
"""Every attack by its name."""

ANSWER_ATTACKS = tuple(name for name, attack in ATTACKS.items() if attack.on_answers)
CLASS_ATTACKS = tuple(name for name, attack in ATTACKS.items() if attack.before_classes)
ROW_ATTACKS = tuple(name for name, attack in ATTACKS.items() if attack.before_rows)
SYNTHETIC_ATTACKS = tuple(name for name, attack in ATTACKS.items() if attack.fits_synthetic)


def run(name: str, case: Case) -> Finding:
    """Run one attack, or raise the reason why it does not fit."""
    started = perf_counter()
    if name not in ATTACKS:
        raise ParameterError(
            "choice_unknown",
            f"There is no attack {name!r}; " + suggestion(name, [*ATTACKS, ALL]),
            parameter="name",
        )
    attack = ATTACKS[name]
    module = import_module(f"sfumato.attack.{name.replace('-', '_')}")
    if case.release.rows_are == "counts" and not (attack.on_answers or attack.on_counts):
        raise cannot_run(
            name,
            "the release is published counts, not rows. To see what counts give away, run "
            f"membership with the original and {option('control', metavar='FILE')}, or "
            f"differencing and reconstruct with {option('epsilon', metavar='E')}.",
        )
    if case.emptiness is not None:
        raise cannot_run(name, case.emptiness)
    if attack.rows_are_people:
        _check_people(name, case)
    finding: Finding = replace(module.run(case), seconds=perf_counter() - started)
    # Without the column of the privacy unit an attack counts rows. Its finding must say so.
    by_rows = not (attack.on_answers or attack.names_people)
    if by_rows and case.schema.unit.by_person and COUNTED not in " ".join(finding.remarks):
        finding = replace(finding, remarks=[*finding.remarks, _ROWS_COUNTED])
    return finding


def _check_people(name: str, case: Case) -> None:
    """Refuse an attack that takes rows for people where they are not."""
    if case.is_synthetic:
        reason = "the table is synthetic"
    elif case.unmatched_share > _MOST_STRANGERS:
        reason = f"{percent(case.unmatched_share)} of them fit nobody in the original"
    else:
        return
    raise cannot_run(
        name,
        f"the rows of this table do not belong to people: {reason}. See link, copies, inference "
        "and membership.",
    )


def run_all(
    case: Case,
    progress: Callable[[float, float], None] | None = None,
    names: Collection[str] = tuple(ATTACKS),
) -> Findings:
    """Run every attack that fits, or those named, and collect the reasons of the others."""
    findings: list[Finding] = []
    not_run: dict[str, str] = {}
    for number, name in enumerate(names, start=1):
        try:
            findings.append(run(name, case))
        except CallerError as error:  # the attack does not fit, or labels cannot be read
            not_run[name] = reason_of(error)
        if progress is not None:
            progress(number, len(names))
    return Findings(tuple(findings), not_run)
