"""The figures of a decided release, for programs and people alike."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypedDict

from sfumato.anonymize.cost import COSTS

if TYPE_CHECKING:
    from sfumato.anonymize.classes import Counts
    from sfumato.anonymize.outcome import Outcome


class Figures(TypedDict):
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


def of_outcome(outcome: Outcome) -> Figures:
    """The figures of what a search decided."""
    return Figures(
        algorithm=outcome.algorithm,
        criteria=list(outcome.criteria),
        k=outcome.k,
        rows=outcome.rows,
        released=outcome.released,
        suppressed=outcome.suppressed,
        classes=outcome.classes,
        levels=None if outcome.levels is None else dict(outcome.levels),
        cost={name: _number(value) for name, value in outcome.cost.items()},
        minimal=None if outcome.minimal is None else [dict(one) for one in outcome.minimal],
        optimal=outcome.optimal,
        bound=_number(outcome.bound),
        factor=_number(outcome.factor if outcome.ended is None else outcome.excess),
        lattice=outcome.lattice,
        checked=outcome.checked,
        people=outcome.people,
        suppressed_people=outcome.suppressed_people,
        ended=outcome.ended,
    )


def of_classes(algorithm: str, criteria: list[str], sizes: Counts) -> Figures:
    """The figures of a release that generalizes and suppresses nothing."""
    rows = int(sizes.sum())
    return Figures(
        algorithm=algorithm,
        criteria=criteria,
        k=None,
        rows=rows,
        released=rows,
        suppressed=0,
        classes=len(sizes),
        levels=None,
        cost=untouched(sizes),
        minimal=None,
        optimal=False,
        bound=None,
        factor=None,
        lattice=None,
        checked=None,
        people=None,
        suppressed_people=None,
        ended=None,
    )


def untouched(sizes: Counts, *, k: int = 1) -> dict[str, Any]:
    """The costs of a table of which no cell was changed, with classes of these sizes."""
    average = int(sizes.sum()) / len(sizes) / k
    of_sizes = {
        "discernability": int(sizes @ sizes),
        "average_class_size": average,
        "c_avg": average,
        "suppressed": 0,
    }
    names = (name.replace("-", "_") for name in COSTS)
    return {name: of_sizes.get(name, 0.0) for name in names}


def _number(value: float | None) -> float | None:
    """A number as JSON can hold it: nothing where there is no finite one."""
    return None if value is None or not math.isfinite(value) else value
