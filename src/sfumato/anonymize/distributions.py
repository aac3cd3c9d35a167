"""Every column of an original beside the released one, from counts in the engine.

The rows of a label are spread evenly over the values that it covers. The comparison describes the
original, so it is for its holder only. Decision `pages`.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.labels import numeric, ordered, positions
from sfumato.anonymize.taxonomy import grow, read_labels
from sfumato.attack.evaluation.coded_counts import coded, coding_of
from sfumato.data.counting.frequencies import count_held
from sfumato.data.schema.hierarchy import spell
from sfumato.errors import CallerError
from sfumato.report.distributions import ColumnComparison, Distribution

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.anonymize.result import Anonymized
    from sfumato.anonymize.taxonomy import Covers
    from sfumato.arrays import FloatArray, IntArray
    from sfumato.attack.evaluation.coded_counts import CodedTable
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.hierarchy import Taxonomy


ORIGINAL, RELEASED = "Original", "Released"
_POINTS, _BINS = 128, 50
"""Up to this many numbers or days each have their own bin; more are put into equal bins."""
_EPOCH = date(1970, 1, 1).toordinal()


def distributions(decided: Anonymized) -> list[ColumnComparison]:
    """Compare the columns that a release has changed, in the order of the schema.

    Unchanged columns are left out if no row was suppressed, and so are columns whose labels or
    values cannot be read.
    """
    pairs = {column.name: pair for column in decided.labelled if (pair := _spread(decided, column))}
    pairs |= {pair.column: pair for pair in _compare_unchanged(decided)}
    names = [column.name for column in decided.table.schema.columns]
    return [pairs[name] for name in names if name in pairs]


def _spread(decided: Anonymized, column: Column) -> ColumnComparison | None:
    """Compare a generalized column; rows are spread over the values that their labels cover."""
    engine, labels = decided.table.engine, decided.measured.labels(column.name)
    try:
        counted = count_held(engine, engine.table, [column.name])
        values = counted.axes[0].decode(counted.codes[0]).to_pylist()
        taxonomy = grow(column, values)
        covers = read_labels(column, taxonomy, list(labels))
    except CallerError:
        return None
    leaf_numbers = taxonomy.positions(values)
    known = leaf_numbers >= 0
    leaves = len(taxonomy.leaves)
    before = np.bincount(leaf_numbers[known], counted.counts[known], leaves).astype(np.float64)
    after = _evenly(covers, np.array([*labels.values()], dtype=np.float64), leaves)
    return _arrange_leaves(column, taxonomy, (before, after))


def _evenly(covers: Covers, rows: FloatArray, leaves: int) -> FloatArray:
    """Spread the rows of labels evenly over the leaves that they cover."""
    rows_per_leaf = rows / covers.leaves
    weights = np.repeat(rows_per_leaf, np.diff(covers.starts, append=len(covers.first)))
    steps = np.zeros(leaves + 1)
    # A difference array: each run adds its weight at its first leaf and takes it back after its
    # last.
    np.add.at(steps, covers.first, weights)
    np.add.at(steps, covers.last + 1, -weights)
    return np.cumsum(steps[:-1]).clip(min=0.0)


def _arrange_leaves(
    column: Column, taxonomy: Taxonomy, sides: tuple[FloatArray, FloatArray]
) -> ColumnComparison | None:
    """Arrange leaves for a picture: values by name, numbers and days along a scale."""
    if not taxonomy.leaves:
        return None
    if not numeric(taxonomy):
        labels = ["missing" if leaf is None else spell(leaf) for leaf in taxonomy.leaves]
        return ColumnComparison(column.name, labels, _shares(sides))
    inside = np.array([ordered(leaf) for leaf in taxonomy.leaves])
    line, dates = positions(taxonomy)[inside], isinstance(taxonomy.leaves[0], date)
    if dates:
        line = line - _EPOCH
    if not np.isfinite(line).all() or line[0] == line[-1]:
        return None
    bins, starts = _along(line)
    bin_count = len(starts) - 1
    shown = [leaf for leaf in taxonomy.leaves if ordered(leaf)]
    labels = [_range_label([spell(shown[index]) for index in (first, last)])  # type: ignore[arg-type]
              for first, last in _ends(bins, bin_count)]  # fmt: skip
    added = [
        np.append(np.bincount(bins, side[inside], minlength=bin_count), side[~inside].sum())
        for side in sides
    ]
    return ColumnComparison(
        column.name, [*labels, "missing or no number"], _shares(added), starts.tolist(), dates
    )


def _along(line: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the bin of each value on a scale, and the edges of bins."""
    if len(line) <= _POINTS:
        middles = (line[1:] + line[:-1]) / 2
        first, last = line[0] - (middles[0] - line[0]), line[-1] + (line[-1] - middles[-1])
        return np.arange(len(line)), np.array([first, *middles, last])
    # Half a step on both sides, so that the first and last value lie inside the scale.
    half = (line[-1] - line[0]) / (len(line) - 1) / 2
    starts = np.linspace(line[0] - half, line[-1] + half, _BINS + 1)
    bins = np.clip(np.searchsorted(starts, line, side="right") - 1, 0, _BINS - 1)
    return bins, starts


def _ends(bins: IntArray, bin_count: int) -> list[tuple[int, int]]:
    """Return the first and last value of each bin; for an empty bin the values around it."""
    first = np.searchsorted(bins, np.arange(bin_count), side="left")
    last = np.searchsorted(bins, np.arange(bin_count), side="right") - 1
    top = len(bins) - 1
    return list(zip(np.minimum(first, top).tolist(), np.maximum(last, 0).tolist(), strict=True))


def _range_label(ends: Sequence[str]) -> str:
    low, high = ends
    return low if low == high else f"{low} to {high}"


def _shares(sides: Sequence[FloatArray]) -> list[Distribution]:
    return [
        Distribution(name, side / max(float(side.sum()), 1.0))
        for name, side in zip((ORIGINAL, RELEASED), sides, strict=True)
    ]


def _compare_unchanged(decided: Anonymized) -> list[ColumnComparison]:
    """Compare the columns that are not generalized, if their values or rows changed."""
    labelled = {column.name for column in decided.labelled}
    all_released = not decided.figures["suppressed"]
    names = [
        column.name
        for column in decided.table.schema.columns
        if column.name in decided.columns and column.name not in labelled
        if not (all_released and column.name in decided.unchanged)
    ]
    if not names:
        return []
    engine = decided.table.engine
    codings = [coding_of(decided.table.schema.column(name), engine) for name in names]
    with decided.spelled_recoding().released(engine, engine.table) as rows:
        # Counts do not need the sorted order of a release.
        rows.set("order", None)
        with (
            engine.view(rows) as released,
            coded(engine, engine.table, codings) as before,
            coded(engine, released, codings) as after,
        ):
            return [
                ColumnComparison(
                    coding.name,
                    [coding.label(code) for code in range(coding.size)],
                    _shares([_count_codes(side, position) for side in (before, after)]),
                    coding.starts,
                    coding.dates,
                    coding.told,
                )
                for position, coding in enumerate(codings)
            ]


def _count_codes(table: CodedTable, position: int) -> FloatArray:
    counted = table.counted([position])
    size = table.codings[position].size
    return np.bincount(counted.codes[0], counted.counts, minlength=size).astype(np.float64)
