"""The private aggregates of one question, as exact integers. Only noise may follow.

All queries of one question are coded together, so that equal keys have equal codes in all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.data.counting.encoding import encode
from sfumato.data.counting.grouping import group, keys
from sfumato.data.counting.hashing import Keyed
from sfumato.methods.query.answer.engine_queries import Aggregates, joined, limbs
from sfumato.methods.query.plan.statistics import Count, DistinctCount, PeopleCount, Rank, Total
from sfumato.methods.query.sql.work_limits import salted
from sfumato.privacy.mechanisms.base import widened
from sfumato.privacy.mechanisms.quantile import Counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray
    from sqlglot import exp

    from sfumato.arrays import BoolArray, IntArray
    from sfumato.data.counting.axes import Axis
    from sfumato.data.counting.hashing import Native
    from sfumato.data.engines.base import Engine
    from sfumato.methods.query.answer.engine_queries import EngineQuery
    from sfumato.methods.query.plan import Key, Level, Plan
    from sfumato.methods.query.plan.statistics import Statistic

    Codes = NDArray[np.integer]


@dataclass(frozen=True)
class EngineAnswer:
    """The answer to one query: the codes of each key, by position, and the figures."""

    codes: Mapping[int, Codes]
    figures: Mapping[str, IntArray]
    rows: int

    def inside(self) -> BoolArray:
        """Which rows have a place on every declared axis."""
        fits = np.ones(self.rows, dtype=bool)
        for codes in self.codes.values():
            fits &= codes >= 0
        return fits


@dataclass(frozen=True)
class LevelGroups:
    """The groups that a level answers: a column of codes for each of its keys, in order."""

    level: Level
    sizes: tuple[int, ...]
    codes: tuple[Codes, ...]
    count: int

    def places(self, tally: EngineAnswer) -> IntArray:
        """The group of each row of a tally; -1 for rows that belong to none."""
        of_rows = [tally.codes[position] for position in self.level.positions]
        inside = tally.inside()
        places = np.full(tally.rows, -1, dtype=np.int64)
        if not of_rows:
            places[inside] = 0
        elif inside.any() and self.count:
            within = [codes[inside] for codes in of_rows]
            places[inside] = self._find(within)
        return places

    def _find(self, codes: Sequence[Codes]) -> IntArray:
        if self.level.declared:
            return np.ravel_multi_index(tuple(codes), self.sizes).astype(np.int64)
        both = [np.concatenate(pair) for pair in zip(self.codes, codes, strict=True)]
        numbers, _ = keys(both, self.sizes)
        own, others = numbers[: self.count], numbers[self.count :]
        found = np.minimum(np.searchsorted(own, others), self.count - 1)
        return np.where(own[found] == others, found, -1)

    def collect(self, tally: EngineAnswer, figure: str) -> NDArray[Any]:
        """Add up a figure of a tally in each group, in Python integers where 64 bits may not do."""
        places = self.places(tally)
        known = places >= 0
        figures = widened(tally.figures[figure][known], 1)
        totals = np.zeros(self.count, dtype=figures.dtype)
        np.add.at(totals, places[known], figures)
        return totals


def all_groups(level: Level) -> LevelGroups:
    """Every combination of declared keys, in order."""
    count = level.groups
    assert count is not None
    codes = np.unravel_index(np.arange(count), level.sizes) if level.sizes else ()
    return LevelGroups(level, level.sizes, tuple(codes), count)


def found_groups(
    level: Level, axes: Mapping[int, Axis], tally: EngineAnswer, figure: str
) -> tuple[LevelGroups, IntArray]:
    """The groups of a level that occur, in the order of their keys, and a figure above 0 of each.

    They are private until a threshold has let them pass.
    """
    sizes = tuple(axes[position].size for position in level.positions)
    inside = tally.inside()
    codes = [tally.codes[position][inside] for position in level.positions]
    if not inside.any():
        return LevelGroups(level, sizes, tuple(codes), 0), np.zeros(0, dtype=np.int64)
    found = group(codes, sizes, tally.figures[figure][inside])
    present = found.counts > 0
    representatives = found.representatives[present]
    merged = tuple(column[representatives] for column in codes)
    return LevelGroups(level, sizes, merged, len(representatives)), found.counts[present]


def read(
    engine: Engine, questions: Sequence[EngineQuery], plan_keys: Sequence[Key]
) -> tuple[dict[int, Axis], list[EngineAnswer]]:
    """Ask the engine and code what it says; axes go by the position of their key."""
    tables = [engine.run(asked.query) for asked in questions]
    codes: list[dict[int, Codes]] = [{} for _ in questions]
    axes: dict[int, Axis] = {}
    for position, key in enumerate(plan_keys):
        having = [place for place, asked in enumerate(questions) if position in asked.positions]
        columns = [
            tables[place].column(questions[place].positions.index(position)) for place in having
        ]
        if not having:
            continue
        axes[position], coded = _code(columns, key)
        for place, part in zip(having, coded, strict=True):
            codes[place][position] = part
    tallies = [
        EngineAnswer(of_keys, _figures(table, asked), table.num_rows)
        for of_keys, table, asked in zip(codes, tables, questions, strict=True)
    ]
    return axes, tallies


def _code(columns: Sequence[pa.ChunkedArray], key: Key) -> tuple[Axis, list[Codes]]:
    """Code one key's values from all tables together, and take them apart again."""
    values = pa.chunked_array(
        [chunk for column in columns for chunk in column.chunks], columns[0].type
    )
    counted = pa.table({"key": values, "rows": pa.nulls(len(values), pa.int64())})
    axes, codes, _ = encode(counted.to_reader(), [key.name if key.axis is None else key.axis])
    ends = np.cumsum([len(column) for column in columns])
    return axes[0], np.split(codes[0], ends[:-1])


def _figures(table: pa.Table, asked: EngineQuery) -> dict[str, NDArray[Any]]:
    first = len(asked.positions)
    return {
        name: table.column(first + place)
        .combine_chunks()
        .cast(pa.int64())
        .to_numpy(zero_copy_only=False)
        for place, name in enumerate(asked.figures)
    }


class EngineQueries:
    """What to ask the engine for the wanted statistics at their levels, under a secret salt.

    What is kept of people is the same on every engine unless an engine's own hash is given.
    """

    def __init__(
        self,
        plan: Plan,
        levels: Sequence[Level],
        wanted: Iterable[tuple[int, Statistic]],
        source: exp.Query,
        salt: str,
        native: Native | None = None,
    ) -> None:
        slots = list(wanted)
        different = dict.fromkeys(one for _, one in slots)
        self.keys, self.unit = plan.keys, plan.unit
        self.additive = [one for one in different if isinstance(one, Count | Total)]
        keyed = Keyed(salt, native)
        aggregates = Aggregates(plan, salted(source, keyed), keyed)
        # Counts, sums and ranks are read once for all levels, by every key.
        self.asked: dict[object, EngineQuery] = {}
        if self.additive:
            self.asked[Count] = aggregates.additive(self.additive)
        for number, one in slots:
            if isinstance(one, Rank) and one.argument not in self.asked:
                self.asked[one.argument] = aggregates.ranked(one)
            elif isinstance(one, PeopleCount):
                self.asked[number, one] = aggregates.people(levels[number])
            elif isinstance(one, DistinctCount):
                self.asked[number, one] = aggregates.distinct(one, levels[number])


class ExactAggregates:
    """Every wanted statistic at its level, read from the engine, contributions bounded."""

    def __init__(self, questions: EngineQueries, engine: Engine) -> None:
        asked = questions.asked
        self._additive, self._unit = questions.additive, questions.unit
        self.axes, tallies = read(engine, list(asked.values()), questions.keys)
        self._tallies: dict[object, EngineAnswer] = dict(zip(asked, tallies, strict=True))

    def values(self, one: Statistic, groups: LevelGroups) -> NDArray[Any]:
        """A statistic of each group, in granules."""
        tally, figures = self._place(one, groups.level)
        return joined([groups.collect(tally, figure) for figure in figures], self._unit)

    def counted(self, one: Rank, groups: LevelGroups) -> Counted:
        """How often each point of an argument's grid occurs in each group."""
        tally = self._tallies[one.argument]
        points, counts = tally.figures.values()
        places = groups.places(tally)
        known = places >= 0
        steps = points[known] - one.argument.low
        return Counted(steps, counts[known], places[known], groups.count)

    def found(self, carrier: Statistic, level: Level) -> tuple[LevelGroups, IntArray]:
        """The groups of a level that occur, and how many they count of what decides about them."""
        tally, figures = self._place(carrier, level)
        return found_groups(level, self.axes, tally, figures[0])

    def _place(self, one: Statistic, level: Level) -> tuple[EngineAnswer, Sequence[str]]:
        """Where the figures of a statistic stand."""
        if not isinstance(one, Count | Total):
            tally = self._tallies[level.number, one]
            return tally, tuple(tally.figures)
        tally = self._tallies[Count]
        names = iter(tally.figures)
        placed = {
            each: [next(names) for _ in range(limbs(each, self._unit))] for each in self._additive
        }
        return tally, placed[one]
