"""The exact aggregates of one query. They are private: the only permitted next step is noise.

The results of all queries of a question are coded together, so that equal keys have equal codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.data.counting.axes import encode
from sfumato.data.counting.grouping import group, keys
from sfumato.data.counting.hashing import Keyed
from sfumato.methods.query.answer.engine_queries import Aggregates, join_limbs, limb_count
from sfumato.methods.query.plan.statistics import Count, DistinctCount, PeopleCount, Rank, Total
from sfumato.methods.query.sql.work_limits import insert_hash
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
        """Which rows have a declared value on every declared axis; others are in no group."""
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

    def group_numbers(self, tally: EngineAnswer) -> IntArray:
        """The group of each row of a tally; -1 for rows that belong to none."""
        of_rows = [tally.codes[position] for position in self.level.positions]
        inside = tally.inside()
        group_numbers = np.full(tally.rows, -1, dtype=np.int64)
        if not of_rows:
            group_numbers[inside] = 0
        elif inside.any() and self.count:
            within = [codes[inside] for codes in of_rows]
            group_numbers[inside] = self._lookup(within)
        return group_numbers

    def _lookup(self, codes: Sequence[Codes]) -> IntArray:
        if self.level.declared:
            # Declared groups are all combinations in row-major order, so that no search is needed.
            return np.ravel_multi_index(tuple(codes), self.sizes).astype(np.int64)
        combined = [np.concatenate(pair) for pair in zip(self.codes, codes, strict=True)]
        numbers, _ = keys(combined, self.sizes)
        own_numbers, row_numbers = numbers[: self.count], numbers[self.count :]
        # The groups of an observed level are sorted by their keys.
        positions = np.minimum(np.searchsorted(own_numbers, row_numbers), self.count - 1)
        return np.where(own_numbers[positions] == row_numbers, positions, -1)

    def collect(self, tally: EngineAnswer, figure: str) -> NDArray[Any]:
        """Sum a figure in each group, in Python integers if 64 bits may not suffice."""
        group_numbers = self.group_numbers(tally)
        is_grouped = group_numbers >= 0
        # Sums of a level's cells: 64 bits may not hold the sum of many clipped cells.
        figures = widened(tally.figures[figure][is_grouped], 1)
        totals = np.zeros(self.count, dtype=figures.dtype)
        np.add.at(totals, group_numbers[is_grouped], figures)
        return totals


def all_groups(level: Level) -> LevelGroups:
    """Every combination of declared keys, in order."""
    count = level.groups
    assert count is not None
    codes = np.unravel_index(np.arange(count), level.sizes) if level.sizes else ()
    return LevelGroups(level, level.sizes, tuple(codes), count)


def occurring_groups(
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
    # A tally may have several rows for one group, because it also groups by the other keys.
    groups = group(codes, sizes, tally.figures[figure][inside])
    present = groups.counts > 0
    representatives = groups.representatives[present]
    merged = tuple(column[representatives] for column in codes)
    return LevelGroups(level, sizes, merged, len(representatives)), groups.counts[present]


def read_aggregates(
    engine: Engine, queries: Sequence[EngineQuery], plan_keys: Sequence[Key]
) -> tuple[dict[int, Axis], list[EngineAnswer]]:
    """Run the queries and code their keys; axes are by the position of their key."""
    tables = [engine.run(query.query) for query in queries]
    codes: list[dict[int, Codes]] = [{} for _ in queries]
    axes: dict[int, Axis] = {}
    for position, key in enumerate(plan_keys):
        users = [index for index, query in enumerate(queries) if position in query.positions]
        columns = [
            tables[index].column(queries[index].positions.index(position)) for index in users
        ]
        if not users:
            continue
        axes[position], coded = _encode_key(columns, key)
        for index, key_codes in zip(users, coded, strict=True):
            codes[index][position] = key_codes
    tallies = [
        EngineAnswer(of_keys, _figures(table, query), table.num_rows)
        for of_keys, table, query in zip(codes, tables, queries, strict=True)
    ]
    return axes, tallies


def _encode_key(columns: Sequence[pa.ChunkedArray], key: Key) -> tuple[Axis, list[Codes]]:
    """Code one key's values from all tables together, and take them apart again."""
    # One encoding for all tables: a code means the same value in each of them.
    values = pa.chunked_array(
        [chunk for column in columns for chunk in column.chunks], columns[0].type
    )
    counted = pa.table({"key": values, "rows": pa.nulls(len(values), pa.int64())})
    axes, codes, _ = encode(counted.to_reader(), [key.name if key.axis is None else key.axis])
    ends = np.cumsum([len(column) for column in columns])
    return axes[0], np.split(codes[0], ends[:-1])


def _figures(table: pa.Table, query: EngineQuery) -> dict[str, NDArray[Any]]:
    first = len(query.positions)
    return {
        name: table.column(first + index)
        .combine_chunks()
        .cast(pa.int64())
        .to_numpy(zero_copy_only=False)
        for index, name in enumerate(query.figures)
    }


class EngineQueries:
    """The engine queries for statistics at their levels, with rows sampled under a secret salt.

    The sample is the same on every engine unless an engine's own hash is given.
    """

    def __init__(
        self,
        plan: Plan,
        levels: Sequence[Level],
        slots: Iterable[tuple[int, Statistic]],
        source: exp.Query,
        salt: str,
        native: Native | None = None,
    ) -> None:
        slot_list = list(slots)
        unique_statistics = dict.fromkeys(statistic for _, statistic in slot_list)
        self.keys, self.unit = plan.keys, plan.unit
        self.additive = [
            statistic for statistic in unique_statistics if isinstance(statistic, Count | Total)
        ]
        keyed = Keyed(salt, native)
        aggregates = Aggregates(plan, insert_hash(source, keyed), keyed)
        # Counts, sums and ranks are read once for all levels, by every key.
        self.queries: dict[object, EngineQuery] = {}
        if self.additive:
            self.queries[Count] = aggregates.additive(self.additive)
        for number, statistic in slot_list:
            if isinstance(statistic, Rank) and statistic.argument not in self.queries:
                self.queries[statistic.argument] = aggregates.ranked(statistic)
            elif isinstance(statistic, PeopleCount):
                self.queries[number, statistic] = aggregates.people(levels[number])
            elif isinstance(statistic, DistinctCount):
                self.queries[number, statistic] = aggregates.distinct(statistic, levels[number])


class ExactAggregates:
    """Every wanted statistic at its level, read from the engine, contributions bounded."""

    def __init__(self, questions: EngineQueries, engine: Engine) -> None:
        queries = questions.queries
        self._additive, self._unit = questions.additive, questions.unit
        self.axes, tallies = read_aggregates(engine, list(queries.values()), questions.keys)
        self._tallies: dict[object, EngineAnswer] = dict(zip(queries, tallies, strict=True))

    def values(self, statistic: Statistic, groups: LevelGroups) -> NDArray[Any]:
        """A statistic of each group, in granules."""
        tally, figures = self._tally_of(statistic, groups.level)
        return join_limbs([groups.collect(tally, figure) for figure in figures], self._unit)

    def value_counts(self, rank: Rank, groups: LevelGroups) -> Counted:
        """How often each point of an argument's grid occurs in each group."""
        tally = self._tallies[rank.argument]
        points, counts = tally.figures.values()
        group_numbers = groups.group_numbers(tally)
        is_grouped = group_numbers >= 0
        steps = points[is_grouped] - rank.argument.low
        return Counted(steps, counts[is_grouped], group_numbers[is_grouped], groups.count)

    def occurring_groups(self, carrier: Statistic, level: Level) -> tuple[LevelGroups, IntArray]:
        """The groups of a level that occur, and how many they count of what decides about them."""
        tally, figures = self._tally_of(carrier, level)
        return occurring_groups(level, self.axes, tally, figures[0])

    def _tally_of(self, statistic: Statistic, level: Level) -> tuple[EngineAnswer, Sequence[str]]:
        """Where the figures of a statistic stand."""
        if not isinstance(statistic, Count | Total):
            tally = self._tallies[level.number, statistic]
            return tally, tuple(tally.figures)
        tally = self._tallies[Count]
        # Figures stand in the order in which `Aggregates.additive` wrote the statistics, limb by
        # limb.
        names = iter(tally.figures)
        figure_names = {
            summed: [next(names) for _ in range(limb_count(summed, self._unit))]
            for summed in self._additive
        }
        return tally, figure_names[statistic]
