"""What is told of a decided release: its figures, what it promises in plain words, its risk."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypedDict, cast

from sfumato.anonymize.cost import COSTS
from sfumato.data.counting.memory_limit import SizeCounts
from sfumato.data.inspection.reidentification import attacker, reidentification

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.anonymize.classes import Counts
    from sfumato.anonymize.criteria import Criterion
    from sfumato.anonymize.outcome import Outcome
    from sfumato.data.counting.frequencies import Frequencies


class ReleaseFigures(TypedDict):
    """What was decided; `k` is None where it does not apply, as are people where rows are counted.

    `suppressed_people` are those who lose a row; `ended` says what cut the search off.
    """

    algorithm: str
    criteria: list[str]
    k: int | None
    rows: int
    released: int
    suppressed: int
    classes: int
    levels: dict[str, int] | None
    cost: dict[str, float | None]
    minimal: list[dict[str, int]] | None
    optimal: bool
    bound: float | None
    factor: float | None
    lattice: int | None
    checked: int | None
    people: int | None
    suppressed_people: int | None
    ended: str | None


def figures_of_outcome(outcome: Outcome) -> ReleaseFigures:
    """The figures of what a search decided."""
    found = {name: _plain(getattr(outcome, name)) for name in ReleaseFigures.__annotations__}
    if outcome.ended is not None:
        found["factor"] = _plain(outcome.excess)
    return cast("ReleaseFigures", found)


def figures_of_classes(algorithm: str, criteria: list[str], sizes: Counts) -> ReleaseFigures:
    """The figures of a release that generalizes and suppresses nothing."""
    rows = int(sizes.sum())
    found = {
        **dict.fromkeys(ReleaseFigures.__annotations__),
        "algorithm": algorithm,
        "criteria": criteria,
        "rows": rows,
        "released": rows,
        "suppressed": 0,
        "classes": len(sizes),
        "cost": costs_of_untouched(SizeCounts.of(sizes)),
        "optimal": False,
    }
    return cast("ReleaseFigures", found)


def costs_of_untouched(sizes: SizeCounts, *, k: int = 1) -> dict[str, Any]:
    """The costs of a table of which no cell was changed, with classes of these sizes."""
    average = int(sizes.rows.sum()) / len(sizes) / k
    of_sizes = {
        "discernability": sizes.squares,
        "average_class_size": average,
        "c_avg": average,
        "suppressed": 0,
    }
    names = (name.replace("-", "_") for name in COSTS)
    return {name: of_sizes.get(name, 0.0) for name in names}


class PlainWords(TypedDict):
    """What criteria mean to a person, and what they leave open."""

    promises: tuple[str, ...]
    limits: tuple[str, ...]


def in_plain_words(criteria: Sequence[Criterion], person: str | None) -> PlainWords:
    """What was asked, for people who do not know the field; `person` names whom rows are of."""
    counted = "rows" if person is None else "people"
    return PlainWords(
        promises=tuple(one.promise(counted) for one in criteria),
        limits=tuple(dict.fromkeys(one.leaves_open for one in criteria)),
    )


def risk_of(sizes: Counts) -> dict[str, float]:
    """How likely a right guess is of whose a row is, for whoever knows all quasi-identifiers."""
    return asdict(attacker(sizes, sizes))


def risk_before(counted: Frequencies, quasi: Sequence[str], person: str | None) -> dict[str, float]:
    """The same risk in the table as it was; where a column names the `person`, of people."""
    names = dict.fromkeys([*quasi, *([] if person is None else [person])])
    return asdict(reidentification(counted.marginal([*names]), person=person).prosecutor)


def _plain(value: Any) -> Any:
    """A value as JSON can hold it: nothing where there is no finite number."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, tuple):
        return list(map(_plain, value))
    return None if isinstance(value, float) and not math.isfinite(value) else value
