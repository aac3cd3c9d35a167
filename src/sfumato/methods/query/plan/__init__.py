"""A plan: the private part of a question, in a form whose cost follows from public facts.

Planning never looks at data. A plan holds one query, `source`, that yields the rows to aggregate,
under names of our own; everything above the aggregate is in `finish`, which sees noisy figures.
Each level of a plan is a set of keys to group by. Two questions with the same canonical form are
the same question. Decisions `one-source-query` and `sql-trees`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from hashlib import sha256
from math import prod
from typing import TYPE_CHECKING, Any

from sfumato.data.counting.axes import Grid
from sfumato.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from sqlglot import exp

    from sfumato.data.counting.axes import Axis
    from sfumato.data.schema.column import Kind
    from sfumato.data.schema.unit import Unit


NOISY = "sf_noisy"
"""The table of noisy figures that `finish` reads: one column per key and per measure, by name."""


class Function(StrEnum):
    """The function of an aggregate."""

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
    only those that pass a noisy threshold are answered. `length` is how many characters a text has
    at most.
    """

    column: str
    name: str
    kind: Kind
    axis: Axis | None
    length: int | None = None


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
    """Everything that is needed to answer a question.

    Attributes
    ----------
    datasets, public
        The names of the private and of the public tables that `source` reads.
    source
        The query for the rows to aggregate. Its columns are the keys, the arguments and, if the
        unit is an `Entity`, the person as `contribution.PERSON`. Each row depends on at most one
        person.
    multiplicity
        The largest number of rows of `source` that one private row becomes by joins with public
        tables. It is 1 if the unit is an `Entity`, because rows are then bounded after the joins.
    levels
        The sets of keys to group by, as positions in `keys`. ROLLUP and CUBE have several.
    finish
        The query over the noisy figures: HAVING, ORDER BY, LIMIT and arithmetic.
    columns
        The names of the columns of the answer.
    joined_row_cap
        If a person has more rows than this in a joined relation, only so many of them are joined.
        None: joins use all rows.
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
    joined_row_cap: int | None = None

    @cached_property
    def canonical(self) -> Mapping[str, Any]:
        """Everything that determines the answer, in a fixed order, without the asker's aliases."""
        return canonical(self)


MOST_GROUPS = 1_000_000
"""How many groups of declared keys one question may have, over all levels."""


@dataclass(frozen=True)
class Level:
    """One set of keys: all combinations of declared ones are answered, or those that pass."""

    number: int
    positions: tuple[int, ...]
    keys: tuple[Key, ...]

    @property
    def declared(self) -> bool:
        """Whether every key is declared, so that all combinations are answered."""
        return all(key.axis is not None for key in self.keys)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each declared key has."""
        return tuple(key.axis.size for key in self.keys if key.axis is not None)

    @property
    def groups(self) -> int | None:
        """How many groups are answered; None where the data decide."""
        return prod(self.sizes) if self.declared else None

    @property
    def grouped(self) -> bool:
        """Whether there may be more than one group."""
        return self.groups != 1


def levels(plan: Plan) -> tuple[Level, ...]:
    """The levels of a plan, each once; too many declared groups are refused."""
    sets = dict.fromkeys(tuple(sorted(set(positions))) for positions in plan.levels)
    plan_levels = tuple(
        Level(number, positions, tuple(plan.keys[position] for position in positions))
        for number, positions in enumerate(sets)
    )
    # Observed groups are not counted here: how many there are is private.
    groups = sum(level.groups or 0 for level in plan_levels)
    if groups > MOST_GROUPS:
        raise QueryError(
            "problem_too_large",
            f"The declared keys make {groups:,} groups, all of which would be answered; at most "
            f"{MOST_GROUPS:,} are allowed. Group by fewer columns, or by coarser ones.",
        )
    return plan_levels


def canonical(plan: Plan) -> dict[str, Any]:
    """Everything that determines what a plan asks, in one order, without aliases of the asker."""
    return {
        "datasets": list(plan.datasets),
        "public": list(plan.public),
        # The text of the query, under aliases of our own: two spellings of one query have one
        # digest, and a stored answer serves both.
        "source": plan.source.sql(comments=False),
        "unit": repr(plan.unit),
        "multiplicity": plan.multiplicity,
        "keys": [
            [key.column, key.name, str(key.kind), _axis_record(key.axis)] for key in plan.keys
        ],
        "levels": [list(level) for level in plan.levels],
        "measures": [
            [
                measure.name,
                str(measure.function),
                _argument_record(measure.argument),
                _optional_text(measure.quantile),
            ]
            for measure in plan.measures
        ],
        "finish": plan.finish.sql(comments=False),
        "columns": list(plan.columns),
    }


def _axis_record(axis: Axis | None) -> list[Any] | None:
    """An axis; long lists of values by their hash."""
    if axis is None:
        return None
    if isinstance(axis, Grid):
        bounds = axis.bounds
        return [str(bounds.low), str(bounds.high), _optional_text(bounds.step), axis.nullable]
    values = repr(axis.values.to_pylist())
    return [axis.size, sha256(values.encode()).hexdigest()]


def _argument_record(argument: Argument | None) -> list[Any] | None:
    if argument is None:
        return None
    ends = [argument.low, argument.high, str(argument.step)]
    return [argument.column, *ends, str(argument.kind), argument.nullable]


def _optional_text(value: object | None) -> str | None:
    return None if value is None else str(value)
