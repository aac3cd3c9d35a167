"""A release in which every column is cut into intervals, the same for all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.labels import ancestors, numeric, ranges, sets
from sfumato.anonymize.outcome import measured
from sfumato.anonymize.partition import Partition, Release, Shares
from sfumato.recoding import ByColumn, ColumnMap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.anonymize.labels import Written
    from sfumato.anonymize.points import Points
    from sfumato.anonymize.problem import Problem
    from sfumato.anonymize.quasi import Quasi

    Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Intervals(Partition):
    """Each column's leaves in intervals, every interval under its label; failing classes are out.

    `interval` has the interval of every leaf, `written` the labels of the intervals, and
    `suppressed_codes` the label codes of the combinations that are not released.
    """

    interval: tuple[Ints, ...]
    written: tuple[Written, ...]
    suppressed_codes: tuple[Ints, ...]

    @classmethod
    def cut(
        cls,
        algorithm: str,
        problem: Problem,
        points: Points,
        interval: Sequence[Ints],
        *,
        owners: Ints,
        fails: NDArray[np.bool_],
        checked: int,
        optimal: bool,
        bound: float,
    ) -> Intervals:
        """The outcome of a search that cut the columns; `owners` has the class of each point."""
        written = tuple(_labels(*pair) for pair in zip(problem.quasi, interval, strict=True))
        numbers = np.where(fails, -1, np.cumsum(~fails) - 1)
        kept = np.flatnonzero(numbers[owners] >= 0)
        shares = Shares(points, kept, points.counts[kept], numbers[owners[kept]])
        one = np.zeros(len(fails), dtype=np.int64)
        one[owners] = np.arange(len(owners))
        places = [cuts[leaves[one]] for cuts, leaves in zip(interval, points.leaves, strict=True)]
        labels = tuple(
            column.take(place[~fails]) for column, place in zip(written, places, strict=True)
        )
        release = Release(problem, shares, labels)
        return cls(
            **measured(algorithm, release),
            release=release,
            checked=checked,
            optimal=optimal,
            bound=bound,
            interval=tuple(interval),
            written=written,
            suppressed_codes=tuple(
                column.codes[place[fails]] for column, place in zip(written, places, strict=True)
            ),
        )

    def recoding(self, unchanged: Sequence[str] = ()) -> ByColumn:
        """Value maps for every quasi-identifier, and the suppressed combinations of labels."""
        import pyarrow as pa

        maps = []
        quasi = self.release.problem.quasi
        for column, interval, one in zip(quasi, self.interval, self.written, strict=True):
            codes = pa.array(one.codes[interval[column.leaves]])
            texts = pa.array(one.texts, type=pa.string())
            values = column.axis.decode(column.present)
            maps.append(ColumnMap(column.name, values, texts.take(codes), codes))
        gone = [pa.array(codes) for codes in self.suppressed_codes]
        suppressed = pa.Table.from_arrays(gone, names=[one.column for one in maps])
        return ByColumn(tuple(maps), suppressed, tuple(unchanged))


def _labels(column: Quasi, interval: Ints) -> Written:
    """A label for each interval, over the leaves that occur in it.

    Categories wear their ancestor where it covers nothing else that occurs, else their set.
    """
    leaves = np.flatnonzero(column.rows)
    owners = interval[leaves]
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    low, high = leaves[starts], leaves[np.append(starts[1:], len(leaves)) - 1]
    if numeric(column.taxonomy):
        return ranges(column, low, high)
    above = ancestors(column, low, high)
    wider = np.flatnonzero(above.covers.rows != np.add.reduceat(column.rows[leaves], starts))
    if not len(wider):
        return above
    inside = np.isin(owners, wider)
    own = sets(column, np.searchsorted(wider, owners[inside]), leaves[inside], len(wider))
    return above.replaced(wider, own)
