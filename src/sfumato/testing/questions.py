"""Plans made by hand and the exact aggregates of a question, for tests behind the planner."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.counting.axes import Listed
from sfumato.counting.contribution import PERSON
from sfumato.engines.kinds import STORED
from sfumato.engines.sources import open_duckdb
from sfumato.method import Dataset
from sfumato.privacy.units import Rows
from sfumato.query.answer.exact import ExactAggregates, all_groups
from sfumato.query.plan import NOISY, Argument, Key, Measure, Plan
from sfumato.query.plan.statistics import Rank
from sfumato.schema.column import Column, Kind
from sfumato.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from sfumato.noise.entropy import Entropy
    from sfumato.privacy.units import Unit
    from sfumato.query.answer.exact import EngineQueries, LevelGroups
    from sfumato.query.answer.question import Question
    from sfumato.query.plan import Level
    from sfumato.query.plan.allocation import Allocation
    from sfumato.query.plan.statistics import Statistic
    from sfumato.release.release import Release

    Label = tuple[Any, ...]
    Histogram = tuple[NDArray[np.int64], NDArray[np.int64]]

DATASET = "visits"


def declared(column: str, values: Sequence[object], *, kind: Kind = Kind.TEXT) -> Key:
    """A key whose values are public."""
    return Key(column, column, kind, Listed(column, pa.array(values, STORED[kind]), declared=True))


def observed(column: str, *, kind: Kind = Kind.TEXT) -> Key:
    """A key whose values are private."""
    return Key(column, column, kind, None)


def argument(
    column: str,
    low: int,
    high: int,
    *,
    step: Fraction = Fraction(1),
    kind: Kind = Kind.INTEGER,
    nullable: bool = True,
) -> Argument:
    """A column of whole numbers, clamped into bounds by the source below."""
    return Argument(column, low, high, step, kind, nullable)


def released(question: Question, table: pa.Table, entropy: Entropy) -> Release:
    """Answer a question about a table in memory, as the gatekeeper does once it is paid for."""
    engine = open_duckdb(table)
    schema = Schema(DATASET, (Column("x", Kind.INTEGER),))
    try:
        dataset = Dataset(DATASET, engine, engine.table, schema, question.plan.unit)
        return question.run({DATASET: dataset}, entropy)
    finally:
        engine.close()


def plan(
    keys: Sequence[Key],
    measures: Sequence[Measure],
    *,
    unit: Unit = Rows(),  # noqa: B008  # frozen
    levels: Iterable[tuple[int, ...]] | None = None,
    multiplicity: int = 1,
    finish: exp.Select | None = None,
) -> Plan:
    """A plan over one table whose columns are named like the keys and the arguments."""
    arguments = {one.argument.column: one.argument for one in measures if one.argument}
    source = exp.select(*(exp.column(key.column, quoted=True) for key in keys))
    for one in arguments.values():
        source = source.select(_clamped(one).as_(one.column, quoted=True))
    if unit.column is not None:
        source = source.select(exp.column(unit.column, quoted=True).as_(PERSON))
    if not source.expressions:
        source = source.select(exp.convert(1).as_("one"))
    names = (*(key.name for key in keys), *(one.name for one in measures))
    shown = exp.select(*(exp.column(name, quoted=True) for name in names)).from_(NOISY)
    return Plan(
        datasets=(DATASET,),
        source=source.from_(exp.to_table(DATASET)),
        unit=unit,
        multiplicity=multiplicity,
        keys=tuple(keys),
        levels=(tuple(range(len(keys))),) if levels is None else tuple(levels),
        measures=tuple(measures),
        finish=shown if finish is None else finish,
        columns=names,
    )


def _clamped(one: Argument) -> exp.Expr:
    value = exp.column(one.column, quoted=True)
    low, high = (exp.cast(exp.convert(end), "BIGINT") for end in (one.low, one.high))
    return exp.case().when(value < low, low).when(value > high, high).else_(value.copy())


class ComparableAggregates:
    """The exact aggregates of one database: by slot, then by group, those that are not zero.

    A group goes by its number where keys are declared, else by its keys; `found` holds those of a
    level that occur. A quantile has the points that occur and how often.
    """

    def __init__(
        self, asked: EngineQueries, results: Sequence[pa.Table], chosen: Allocation
    ) -> None:
        queries = [id(one.query) for one in asked.asked.values()]
        replay = _Replay(dict(zip(queries, results, strict=True)))
        exact = ExactAggregates(asked, replay)  # type: ignore[arg-type]  # it runs queries only
        self.of: dict[tuple[int, Statistic], dict[Label, Any]] = {}
        self.found: dict[int, set[Label]] = {}
        for level in chosen.levels:
            declared = level.declared
            groups = all_groups(level) if declared else exact.found(chosen.carrier, level)[0]
            labels = None if declared else _labels(exact, level, groups)
            self.found[level.number] = set(labels or ())
            for one in chosen.at(level):
                slot = level.number, one
                if isinstance(one, Rank):
                    counted = exact.counted(one, groups)
                    self.of[slot] = {
                        labels[place] if labels else (place,): _histogram(counted, place)
                        for place in np.unique(counted.groups).tolist()
                    }
                else:
                    values = exact.values(one, groups)
                    self.of[slot] = {
                        labels[place] if labels else (place,): int(values[place])
                        for place in np.flatnonzero(values).tolist()
                    }

    def told(self) -> dict[Any, Any]:
        """All figures in a form that equals that of the same ones."""
        return {
            slot: {
                label: one if isinstance(one, int) else [part.tolist() for part in one]
                for label, one in of_slot.items()
            }
            for slot, of_slot in self.of.items()
        }


@dataclass(frozen=True)
class _Replay:
    """An engine that has already answered."""

    results: dict[int, pa.Table]

    def run(self, query: exp.Query) -> pa.Table:
        """The answer to a query that was asked before."""
        return self.results[id(query)]


def _labels(exact: ExactAggregates, level: Level, groups: LevelGroups) -> list[Label]:
    names = [
        exact.axes[position].decode(codes).to_pylist()
        for position, codes in zip(level.positions, groups.codes, strict=True)
    ]
    return list(zip(*names, strict=True)) if names else [()] * groups.count


def _histogram(counted: Any, place: int) -> Histogram:
    mine = counted.groups == place
    points, places = np.unique(counted.points[mine], return_inverse=True)
    counts = np.zeros(len(points), dtype=np.int64)
    np.add.at(counts, places, counted.counts[mine])
    return points, counts


def score_move(rank: Rank, one: Histogram | None, other: Histogram | None) -> int:
    """The largest move of a point's score, in parts of the rank's denominator.

    Scores change only at points that occur and right after them.
    """
    nothing = np.zeros(0, dtype=np.int64)
    one, other = one or (nothing, nothing), other or (nothing, nothing)
    occur = np.union1d(one[0], other[0])
    last = rank.argument.high - rank.argument.low
    points = np.unique(np.clip(np.concatenate([[0], occur, occur + 1]), 0, last))
    return int(np.abs(_scores(rank, one, points) - _scores(rank, other, points)).max())


def _scores(rank: Rank, histogram: Histogram, points: NDArray[np.int64]) -> NDArray[np.int64]:
    parts, share = rank.quantile.denominator, rank.quantile.numerator
    occur, counts = histogram
    below = (counts * (occur < points[:, None])).sum(axis=1)
    up_to = (counts * (occur <= points[:, None])).sum(axis=1)
    total = counts.sum()
    short = np.maximum(parts * below - share * total, share * total - parts * up_to)
    scores: NDArray[np.int64] = np.minimum(0, -short)
    return scores
