"""All attacks by name. A new one is a file beside this one, with `run(case)`, and its line here."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING

from sfumato.attack.case import cannot_run, reason_of
from sfumato.attack.finding import Finding, Findings, percent
from sfumato.attack.persons import COUNTED
from sfumato.attack.roles import PERSON
from sfumato.data.schema.column import Role
from sfumato.data.schema.names import suggestion
from sfumato.errors import CallerError, ParameterError, option

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from sfumato.attack.case import Case

ATTACKS: dict[str, str] = {
    "link": "a named list is joined with the release",
    "link-fuzzy": "the same with typing errors and missing cells",
    "uniqueness": "who is alone in the population too",
    "homogeneity": "a class in which all have one value",
    "background": "a class in which one value is left after some are excluded",
    "skewness": "a class in which a rare value is common",
    "similarity": "a class whose values mean the same",
    "minimality": "what the algorithm met, by its not stopping earlier",
    "definetti": "traits and values that go together across buckets",
    "composition": "two releases of the same people are intersected",
    "join": "two releases, or one and a public table, are joined over their labels",
    "downcoding": "labels that are minimal, taken back a step",
    "predict": "a model trained on the release",
    "differencing": "two questions that differ in one person",
    "averaging": "one question asked again and again",
    "tracker": "questions about many that cancel out but for one",
    "reconstruct": "everybody's secret from counts of random groups",
    "membership": "who was in the data that a table was made from",
    "singling-out": "what stands alone in the release, looked for among people",
    "linkability": "two lists brought together by the release",
    "inference": "the nearest released row tells the rest",
    "copies": "people who stand in the release as they are",
    "scoreboard": "a few ratings find all of a person's",
    "path": "a few points find all of a person's",
    "log": "names and places that people search for",
    "neighbourhood": "the neighbours of a person in a graph",
}
"""Every attack, and what it does in a few words; the module has its name, '-' being '_'."""

ALL = "all"

ON_ANSWERS = frozenset({"differencing", "averaging", "tracker", "reconstruct"})
"""Those that ask questions through the door; they need no release, but the owner's table."""

ON_COUNTS = frozenset({"membership"})
"""Those that read published counts, which have no rows."""

WITH_OTHERS = frozenset({"predict", "singling-out", "linkability", "inference"})
"""Those that know much of anybody, in the data or not: only what goes beyond others is leaked.
Membership tells others apart by itself."""

OF_BELIEF = frozenset({"skewness"})
"""Those that succeed where a belief grows, be it right or not sure at all."""

OF_USE = frozenset({"join"})
"""Those that tell what anybody has of a release, not only attackers."""

WITH_LISTS = frozenset({"log"})
"""Those whose list of people has columns that no release has."""

WITH_MOMENTS = frozenset({"path", "scoreboard"})
"""Those that look at times, not at dates alone."""

ON_CLASSES = ("link", "homogeneity", "skewness")
"""Those that a table is put to before it leaves, if it has classes: who is found, whose value is
certain, and whose is believed twice as much."""

ON_ROWS = ("link", "copies", "inference")
"""Those that made-up rows, and counts read as rows, are put to before they leave: who is found, who
stands there as they are, and whose value the nearest row tells."""

ON_NOBODYS = (*ON_ROWS, "predict", "singling-out", "linkability")
"""Those that rows that are nobody's, and counts read as such, can be put to before they leave."""

NEED_ROLES: dict[str, tuple[Role, ...]] = {
    "link": (Role.QUASI,),
    "inference": (Role.SENSITIVE,),
    "predict": (Role.QUASI, Role.SENSITIVE),
}
"""Of these the roles that columns of a release must have."""

NEED_TWO = frozenset({"inference", "linkability"})
"""Of these those that need two columns."""

NEED_NAMES: dict[str, tuple[tuple[str, ...], ...]] = {
    "scoreboard": ((PERSON, "item"),),
    "path": ((PERSON, "time", "place"), (PERSON, "time", "lon", "lat")),
    "neighbourhood": (("source", "target"),),
}
"""Those on other data, and the names by which they know columns where nobody says which is which:
one of these sets must be there."""

NEED_MORE: dict[str, str] = {
    "link-fuzzy": "a list of people",
    "uniqueness": "the population, or its size",
    "composition": "a second release",
    "join": "a second release",
    "membership": "people who are not in the data",
    "log": "a list of people",
    **dict.fromkeys(sorted(ON_ANSWERS), "a table that answers questions"),
}
"""Those that no release can be put to before it leaves, and what they need besides."""


BY_ROWS = frozenset(
    {"uniqueness", "homogeneity", "background", "skewness", "similarity", "composition", "join"}
)
"""Those that take released rows for people, which those of a synthetic table are not."""

BY_PERSON = frozenset({"scoreboard", "path", "log", "neighbourhood"})
"""Those whose data are of people by themselves, whoever they are named by."""

_ROWS_COUNTED = "Rows are counted, not people, of whom some may have several."
_MOST_STRANGERS = 0.5
"""Where more of the released rows than this fit nobody in the original, they are not people's."""


def run(name: str, case: Case) -> Finding:
    """Run one attack; one that does not fit says why."""
    started = perf_counter()
    attack: Callable[[Case], Finding] = import_module(_module(name)).run
    if case.release.rows_are == "counts" and name not in ON_ANSWERS | ON_COUNTS:
        raise cannot_run(
            name,
            "the release is published counts, not rows. What they give away is told by membership, "
            f"with the original and {option('control', metavar='FILE')}; what questions do by "
            f"differencing and reconstruct, with {option('epsilon', metavar='E')}.",
        )
    if case.emptiness is not None:
        raise cannot_run(name, case.emptiness)
    if name in BY_ROWS:
        _check_people(name, case)
    found = replace(attack(case), seconds=perf_counter() - started)
    by_rows = name not in ON_ANSWERS | BY_PERSON
    if by_rows and case.schema.unit.by_person and COUNTED not in " ".join(found.remarks):
        found = replace(found, remarks=[*found.remarks, _ROWS_COUNTED])
    return found


def _check_people(name: str, case: Case) -> None:
    """Refuse an attack that takes rows for people where they are not."""
    why = None
    if case.rows_are_nobodys:
        why = "the table is synthetic"
    elif case.fitting_nobody > _MOST_STRANGERS:
        why = f"{percent(case.fitting_nobody)} of them fit nobody in the original"
    if why is not None:
        raise cannot_run(
            name,
            f"rows of this table are nobody's: {why}. See link, copies, inference and membership.",
        )


def run_all(
    case: Case,
    progress: Callable[[float, float], None] | None = None,
    names: Collection[str] = ATTACKS,
) -> Findings:
    """Run every attack that fits, or some; the others say why they do not."""
    found: list[Finding] = []
    not_run: dict[str, str] = {}
    for done, name in enumerate(names, start=1):
        try:
            found.append(run(name, case))
        except CallerError as error:  # it does not fit, or labels cannot be read
            not_run[name] = reason_of(error)
        if progress is not None:
            progress(done, len(names))
    return Findings(tuple(found), not_run)


def _module(name: str) -> str:
    if name not in ATTACKS:
        raise ParameterError(
            "attack_unknown", f"There is no attack {name!r}; " + suggestion(name, [*ATTACKS, ALL])
        )
    return f"sfumato.attack.{name.replace('-', '_')}"
