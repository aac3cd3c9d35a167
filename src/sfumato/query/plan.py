"""A plan: what a question asks of private rows, in a form whose cost follows from public facts.

Planning never looks at data. A plan holds one query, `source`, that yields the rows to aggregate,
under names of our own; everything above the aggregate is in `finish`, which sees noisy figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction

    from sqlglot import exp

    from sfumato.axes import Axis
    from sfumato.privacy.units import Unit
    from sfumato.schema.column import Kind

NOISY = "sf_noisy"
"""The table of noisy figures that `finish` reads: one column per key and per measure, by name."""


class Function(StrEnum):
    """What is asked about the rows of a group."""

    COUNT = "count"
    COUNT_PEOPLE = "count-people"
    COUNT_DISTINCT = "count-distinct"
    SUM = "sum"
    AVERAGE = "average"
    VARIANCE = "variance"
    STDDEV = "stddev"
    QUANTILE = "quantile"


@dataclass(frozen=True)
class Key:
    """What rows are grouped by.

    With a declared `axis` the column holds what that axis codes (`Grid`: codes, `Listed`: values)
    and every one of its values is answered. Without one the values are observed, hence private, and
    only those that pass a noisy threshold are answered.
    """

    column: str
    name: str
    kind: Kind
    axis: Axis | None


@dataclass(frozen=True)
class Argument:
    """A value that is aggregated, as a whole number of steps, clamped in the engine.

    The column holds n for the value n * step, low <= n <= high, or NULL. The bounds are declared,
    or derived from declared ones, never observed. A date counts in days since 1970-01-01, a truth
    value as 0 or 1. `COUNT` counts what is not NULL. For `COUNT_DISTINCT` the column holds any
    integer or text, and without bounds low and high are 0.
    """

    column: str
    low: int
    high: int
    step: Fraction
    kind: Kind
    nullable: bool


@dataclass(frozen=True)
class Measure:
    """One aggregate of the question; without an argument it counts rows."""

    name: str
    function: Function
    argument: Argument | None = None
    quantile: Fraction | None = None
    note: str | None = None


@dataclass(frozen=True)
class Plan:
    """All that answering needs.

    `source` has the columns of keys and arguments and, where the unit is an `Entity`, the person
    under `contribution.PERSON`; no row of it depends on more than one person. One private row gives
    at most `multiplicity` rows of `source`: what joins with public tables multiply; it is 1 where
    the unit is an `Entity`, whose rows are bounded after the joins. `levels` lists the sets of keys
    to group by, as positions in `keys`; more than one for ROLLUP and CUBE. Every table that
    `source` names is one of `datasets`, which are private, or of `public`, by its name there. Of
    people with more than `kept` rows in what is joined only some rows are; None: of nobody.
    """

    datasets: tuple[str, ...]
    source: exp.Query
    unit: Unit
    multiplicity: int
    keys: tuple[Key, ...]
    levels: tuple[tuple[int, ...], ...]
    measures: tuple[Measure, ...]
    finish: exp.Select
    columns: tuple[str, ...]
    public: tuple[str, ...] = ()
    kept: int | None = None
