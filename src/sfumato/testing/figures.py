"""The exact aggregates of a question, in a form in which two databases can be compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.query.exact import Exact
from sfumato.query.statistic import Rank
from sfumato.query.tally import all_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray
    from sqlglot import exp

    from sfumato.query.exact import Questions
    from sfumato.query.levels import Level
    from sfumato.query.split import Split
    from sfumato.query.statistic import Statistic
    from sfumato.query.tally import Groups

    Label = tuple[Any, ...]
    Histogram = tuple[NDArray[np.int64], NDArray[np.int64]]


class Figures:
    """The exact aggregates of one database: by slot, then by group, those that are not zero.

    A group goes by its number where keys are declared, else by its keys; `found` holds those of a
    level that occur. A quantile has the points that occur and how often.
    """

    def __init__(self, asked: Questions, results: Sequence[pa.Table], chosen: Split) -> None:
        queries = [id(one.query) for one in asked.asked.values()]
        replay = _Replay(dict(zip(queries, results, strict=True)))
        exact = Exact(asked, replay)  # type: ignore[arg-type]  # it runs queries only
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


def _labels(exact: Exact, level: Level, groups: Groups) -> list[Label]:
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
