"""Synthetic rows in pictures: each column beside the noisy counts that it was drawn from.

Everything here was released. An evaluation shows the owner how the rows differ from the original.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.attack.evaluation.measures import cramers_v
from sfumato.data.counting.axes import Grid
from sfumato.data.schema.column import Kind
from sfumato.data.schema.constraints import DeclaredRows, describe
from sfumato.methods.publish.page import STDDEVS_FOR_95_PERCENT
from sfumato.methods.synth.encode.axes import codes_in
from sfumato.report.bars import NOISE_ALONE
from sfumato.report.blocks import Heading, KeyFigures, Note, PageTable, Paragraph
from sfumato.report.distributions import ColumnComparison, Distribution, draw_comparison, fold
from sfumato.report.drawing import cut
from sfumato.report.heat_maps import MapSide, draw_heat_map, draw_tiles
from sfumato.report.value_text import share, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray
    from sfumato.data.counting.axes import Axis
    from sfumato.methods.synth.synthesis_model import SynthesisModel
    from sfumato.report.blocks import Block
    from sfumato.report.picture import Picture

    Codes = NDArray[np.int64]


_NOISY, _DRAWN = "Measured, with noise", "Synthetic rows"
_LONG_SIDE = 12
"""Pairs with a column of this many values come first: their pictures show more."""
_LEAST_COLUMNS_FOR_MAP = 3
_MOST_PAIRS = 2
_MOST_CELLS = 30
"""The most cells of a pair in the table below its picture."""
_CONSTRAINTS = (
    "Values were changed until every row met the declared constraints. This changes the shares of "
    "columns that were not measured together:"
)
_ASSOCIATION_STEPS = (0.05, 0.1, 0.2, 0.4, 0.7)


def synthesis_blocks(model: SynthesisModel, rows: pa.Table) -> list[Block]:
    """What was measured and what was drawn from it: columns first, then pairs of columns."""
    beside = RowsOfModel.of(model, rows)
    columns, pairs = beside.columns(), beside.pairs()
    marginals = [names for names in model.measured if len(names) > 1]
    figures = [
        (f"{rows.num_rows:,}", "synthetic rows"),
        (f"{rows.num_columns:,}", "columns"),
        (f"{len(marginals):,}", "sets of columns measured together"),
    ]
    least_similar = sorted(
        columns, key=lambda column: -float(np.abs(column.noisy - column.drawn).sum())
    )
    declared = model.encoding.schema.constraints
    constraints = [describe(rule) for rule in declared if not isinstance(rule, DeclaredRows)]
    return [
        Heading("What was measured, and what was drawn from it", 3),
        Paragraph(
            "No row of this table belongs to a person. Counts were measured with noise that hides "
            "any one person, and random rows were drawn that have about these counts. Each "
            "picture shows both."
        ),
        KeyFigures(figures),
        *fold((column.name, _draw_column(column)) for column in least_similar),
        *([Note(f"{_CONSTRAINTS} {'; '.join(constraints)}.")] if constraints else []),
        *_pair_blocks(columns, pairs),
        _measured_sets(marginals),
    ]


def synthesis_pictures(model: SynthesisModel, rows: pa.Table) -> list[Picture]:
    """The pictures of all columns, in the order of the table."""
    return [_draw_column(column) for column in RowsOfModel.of(model, rows).columns()]


def _draw_column(column: ColumnShares) -> Picture:
    """Numbers and dates as two lines, the noisy one with a band; other values as bars."""
    noisy = Distribution(_NOISY, column.noisy, STDDEVS_FOR_95_PERCENT * column.stddev)
    drawn = Distribution(_DRAWN, column.drawn)
    comparison = ColumnComparison(
        column.name, column.labels, (noisy, drawn), column.starts, dates=column.dates
    )
    label = f"{column.name}: share of rows, measured and drawn"
    return draw_comparison(comparison, label=label, series="What", note=NOISE_ALONE)


def _pair_blocks(columns: Sequence[ColumnShares], pairs: Sequence[PairCounts]) -> list[Block]:
    """The strongest measured pairs beside what was drawn, and a map of all associations."""
    if len(columns) < _LEAST_COLUMNS_FOR_MAP or not pairs:
        return []
    strongest = sorted(pairs, key=lambda pair: (max(pair.drawn.shape) < _LONG_SIDE, -pair.strength))
    measured = [pair for pair in strongest if pair.noisy is not None][:_MOST_PAIRS]
    labels = {column.name: [*map(cut, column.labels)] for column in columns}
    names = list(labels)
    index = {name: number for number, name in enumerate(names)}
    matrix = np.eye(len(names))
    for pair in pairs:
        first, second = (index[name] for name in pair.columns)
        matrix[first, second] = matrix[second, first] = pair.strength
    rows = [(" and ".join(pair.columns), show(round(pair.strength, 2))) for pair in pairs]
    label = "Associations between columns of the synthetic rows (Cramér's V)"
    side = MapSide("", names)
    association_map = draw_heat_map(
        matrix,
        (side, side),
        label=label,
        table=PageTable(label, ("Columns", "Cramér's V"), rows, folded=True),
        value="Cramér's V",
        steps=_ASSOCIATION_STEPS,
    )
    pictures = [_draw_pair(pair, [labels[name] for name in pair.columns]) for pair in measured]
    return [Heading("Associations between columns", 3), *pictures, association_map]


def _draw_pair(pair: PairCounts, labels: Sequence[Sequence[str]]) -> Picture:
    """A measured pair of columns and what was drawn, with the largest cells in a table."""
    assert pair.noisy is not None
    columns, drawn, noisy = pair.columns, pair.drawn.astype(float), np.maximum(pair.noisy, 0)
    if drawn.shape[0] < drawn.shape[1]:  # the longer side goes across
        columns, labels, drawn, noisy = columns[::-1], labels[::-1], drawn.T, noisy.T
    scale = drawn.sum() / max(float(noisy.sum()), 1.0)
    tiles = [(_DRAWN, drawn), (_NOISY, scale * noisy)]
    label = f"{columns[0]} (across) and {columns[1]} (up), measured together"
    return draw_tiles(
        [(name, cells.T[::-1]) for name, cells in tiles],
        label=label,
        table=_largest_cells(label, columns, labels, (noisy, drawn)),
        value="Rows",
        names=(labels[0], labels[1]),
    )


def _largest_cells(
    label: str,
    columns: Sequence[str],
    labels: Sequence[Sequence[str]],
    sides: tuple[FloatArray, FloatArray],
) -> PageTable:
    """The cells of a pair by their values, the largest first, as shares of all rows."""
    shares = [cells / max(float(cells.sum()), 1.0) for cells in sides]
    larger = np.maximum(*shares).ravel()
    order = np.argsort(-larger, kind="stable")[:_MOST_CELLS]
    cells = [np.unravel_index(cell, shares[0].shape) for cell in order[larger[order] > 0]]
    rows = [
        (labels[0][first], labels[1][second], *(share(float(of[first, second])) for of in shares))
        for first, second in cells
    ]
    filled = int((larger > 0).sum())
    truncation = f"; the {len(rows)} largest of {filled:,} cells" if filled > len(rows) else ""
    caption = f"{label}{truncation}; numbers and dates by the lowest value of each bin"
    return PageTable(caption, (*columns, _NOISY, _DRAWN), rows, folded=True)


def _measured_sets(marginals: Sequence[tuple[str, ...]]) -> Block:
    if not marginals:
        return Paragraph(
            "Columns were measured one by one, so the rows do not show how columns are related."
        )
    rows = [(", ".join(names),) for names in marginals]
    return PageTable("Measured together", ("Columns",), rows, folded=True)


# What was measured with noise beside what rows drawn from it hold: of columns and of pairs.
#
# Both were released, so that whoever has them may look; nothing of the original is in it.

_MOST_PAIR_CELLS = 1 << 20


@dataclass(frozen=True)
class ColumnShares:
    """The shares of a column's codes: by the noisy tables, and in the rows that were drawn."""

    name: str
    labels: tuple[str, ...]
    """The values, or the lowest of each bin; what is missing comes last."""
    starts: tuple[float, ...]
    """Where bins and points begin, and where the last ends; empty where values have no order."""
    dates: bool
    noisy: FloatArray
    stddev: float
    drawn: FloatArray


@dataclass(frozen=True)
class PairCounts:
    """The counts of two columns: noisy where they were measured together, and drawn."""

    columns: tuple[str, str]
    noisy: FloatArray | None
    drawn: Codes

    @property
    def strength(self) -> float:
        """How strongly the drawn columns hang together, by Cramér's V."""
        return cramers_v(self.drawn)


@dataclass(frozen=True)
class RowsOfModel:
    """Rows that were drawn, as codes, beside the model that they were drawn from."""

    model: SynthesisModel
    codes: Sequence[Codes]

    @classmethod
    def of(cls, model: SynthesisModel, rows: pa.Table) -> RowsOfModel:
        """Rows of a model's columns."""
        axes = model.encoding.axes
        codes = (codes_in(axis, rows) for axis in axes)
        return cls(model, [column.astype(np.int64) for column in codes])

    def columns(self) -> list[ColumnShares]:
        """Every column, in the table's order."""
        axes, log = self.model.encoding.axes, self.model.log
        singles = [(index,) for index in range(len(axes))]
        estimate, total = log.estimate(singles), log.total()
        return [
            ColumnShares(
                name=axis.column,
                labels=_labels(axis),
                starts=_starts(axis),
                dates=isinstance(axis, Grid) and axis.kind is Kind.DATE,
                noisy=estimate.table((index,)) / total,
                stddev=estimate.variance((index,)) ** 0.5 / total,
                drawn=_shares(np.bincount(codes, minlength=axis.size)),
            )
            for index, (axis, codes) in enumerate(zip(axes, self.codes, strict=True))
        ]

    def pairs(self) -> list[PairCounts]:
        """Every pair of columns of few enough cells."""
        shape, log = self.model.fitted.shape, self.model.log
        pairs = []
        estimate = log.estimate(log.measured)
        for first, second in shape.pairs():
            first_size, second_size = shape.of_set((first, second))
            if first_size * second_size > _MOST_PAIR_CELLS:
                continue
            keys = self.codes[first] * second_size + self.codes[second]
            drawn = np.bincount(keys, minlength=first_size * second_size).reshape(
                first_size, second_size
            )
            measured = (first, second) in log.measured
            noisy = estimate.table((first, second)) if measured else None
            names = (shape.names[first], shape.names[second])
            pairs.append(PairCounts(names, noisy, drawn))
        return pairs


def _shares(counts: Codes) -> FloatArray:
    return np.asarray(counts / max(int(counts.sum()), 1))


def _numbers(values: pa.Array) -> FloatArray:
    """Numbers, and dates as days since the beginning of 1970."""
    plain = values.cast(pa.int32()) if pa.types.is_date(values.type) else values
    return np.asarray(plain.fill_null(0), dtype=np.float64)


def _labels(axis: Axis) -> tuple[str, ...]:
    decoded = axis.decode(np.arange(axis.size)).to_pylist()
    return tuple(
        "(missing)" if value is None or value != value else str(value) for value in decoded
    )


def _starts(axis: Axis) -> tuple[float, ...]:
    if not isinstance(axis, Grid):
        return ()
    lowest = _numbers(axis.decode(np.arange(axis.points)))
    step = float(axis.bounds.grid_step or 1)
    last = axis.bounds.high
    end = _numbers(pa.array([last])) if axis.kind is Kind.DATE else [float(last)]  # type: ignore[arg-type]
    return (*lowest.tolist(), float(end[0]) + step)
