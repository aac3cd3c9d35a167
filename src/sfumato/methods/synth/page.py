"""Synthetic rows as pictures: each column beside the noisy counts that it was drawn from.

All of it was released. What the rows lack against the original, an evaluation tells its owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.data.schema.constraints import DeclaredRows, words
from sfumato.methods.synth.measured_tables import RowsBeside
from sfumato.report.bars import NOISE_ALONE
from sfumato.report.blocks import Heading, KeyFigures, Note, PageTable, Paragraph
from sfumato.report.distributions import ColumnComparison, Distribution, draw_comparison, fold
from sfumato.report.heat_maps import MapSide, draw_heat_map, draw_tiles
from sfumato.report.text_width import cut
from sfumato.report.value_text import share, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from sfumato.arrays import FloatArray
    from sfumato.methods.synth.generator import SynthesisModel
    from sfumato.methods.synth.measured_tables import ColumnBeside, PairBeside
    from sfumato.report.blocks import Block
    from sfumato.report.picture import Picture

_NOISY, _DRAWN = "Measured, with noise", "Synthetic rows"
_SERIES = "What"
_BARS = 12
"""Pairs of columns with more places than that come first: they have more to show."""
_FEWEST_IN_MAP = 3
_TILES = 2
_CELLS = 30
"""So many cells of a pair are told in words."""
_DEVIATIONS = 2.12
"""So many standard deviations hold 95 % of a Laplace noise, and more of a rounder one."""
_KEPT = (
    "Values were changed until rows kept what always holds, which moves the shares of columns that "
    "were not measured together:"
)
_STRENGTHS = (0.05, 0.1, 0.2, 0.4, 0.7)


def synthesis_blocks(model: SynthesisModel, rows: pa.Table) -> list[Block]:
    """What was measured and what was drawn from it, of columns, then of pairs."""
    beside = RowsBeside.of(model, rows)
    columns, pairs = beside.columns(), beside.pairs()
    together = [one for one in model.measured if len(one) > 1]
    figures = [
        (f"{rows.num_rows:,}", "synthetic rows"),
        (f"{rows.num_columns:,}", "columns"),
        (f"{len(together):,}", "sets of columns measured together"),
    ]
    blocks: list[Block] = [
        Heading("What was measured, and what was drawn from it", 3),
        Paragraph(
            "Nobody's row is in the table. Counts were measured with noise that hides any one "
            "person; rows were made up that have about these counts. Each picture shows both."
        ),
        KeyFigures(figures),
    ]
    ordered = sorted(columns, key=lambda one: -float(np.abs(one.noisy - one.drawn).sum()))
    blocks += fold((one.name, _column(one)) for one in ordered)
    declared = model.encoding.schema.constraints
    kept = [words(one) for one in declared if not isinstance(one, DeclaredRows)]
    blocks += [Note(f"{_KEPT} {'; '.join(kept)}.")] if kept else []
    return [*blocks, *_together(columns, pairs), *_measured(together)]


def synthesis_pictures(model: SynthesisModel, rows: pa.Table) -> list[Picture]:
    """The pictures of all columns, in the table's order."""
    return [_column(one) for one in RowsBeside.of(model, rows).columns()]


def _column(one: ColumnBeside) -> Picture:
    """Numbers and dates as two lines in steps, the noisy one in its band; other values as bars."""
    noisy = Distribution(_NOISY, one.noisy, _DEVIATIONS * one.stddev)
    shown = ColumnComparison(
        one.name, one.labels, (noisy, Distribution(_DRAWN, one.drawn)), one.starts, dates=one.dates
    )
    label = f"{one.name}: share of rows, measured and drawn"
    return draw_comparison(shown, label=label, series=_SERIES, note=NOISE_ALONE)


def _together(columns: Sequence[ColumnBeside], pairs: Sequence[PairBeside]) -> list[Block]:
    """The strongest measured pairs beside what was drawn, and a map of all pairs."""
    if len(columns) < _FEWEST_IN_MAP or not pairs:
        return []
    blocks: list[Block] = [Heading("How columns hang together", 3)]
    strong = sorted(pairs, key=lambda one: (max(one.drawn.shape) < _BARS, -one.strength))
    labels = {one.name: [*map(cut, one.labels)] for one in columns}
    measured = [one for one in strong if one.noisy is not None][:_TILES]
    blocks += [_tiles(one, [labels[name] for name in one.columns]) for one in measured]
    names = [one.name for one in columns]
    place = {name: number for number, name in enumerate(names)}
    matrix = np.eye(len(names))
    for one in pairs:
        at = tuple(place[name] for name in one.columns)
        matrix[at] = matrix[at[::-1]] = one.strength
    rows = [(" and ".join(one.columns), show(round(one.strength, 2))) for one in pairs]
    label = "How strongly columns of the synthetic rows hang together (Cramér's V)"
    side = MapSide("", names)
    blocks.append(
        draw_heat_map(
            matrix,
            (side, side),
            label=label,
            table=PageTable(label, ("Columns", "Cramér's V"), rows, folded=True),
            value="Cramér's V",
            steps=_STRENGTHS,
        )
    )
    return blocks


def _tiles(one: PairBeside, labels: Sequence[Sequence[str]]) -> Picture:
    """Two columns that were measured together, in both ways, with the largest cells in words."""
    assert one.noisy is not None
    columns, drawn, noisy = one.columns, one.drawn.astype(float), np.maximum(one.noisy, 0)
    if drawn.shape[0] < drawn.shape[1]:  # the longer side lies across
        columns, labels, drawn, noisy = columns[::-1], labels[::-1], drawn.T, noisy.T
    scale = drawn.sum() / max(float(noisy.sum()), 1.0)
    tiles = [(_DRAWN, drawn), (_NOISY, scale * noisy)]
    label = f"{columns[0]} (across) and {columns[1]} (up), measured together"
    return draw_tiles(
        [(name, cells.T[::-1]) for name, cells in tiles],
        label=label,
        table=_cells(label, columns, labels, (noisy, drawn)),
        value="Rows",
        names=(labels[0], labels[1]),
    )


def _cells(
    label: str,
    columns: Sequence[str],
    labels: Sequence[Sequence[str]],
    sides: tuple[FloatArray, FloatArray],
) -> PageTable:
    """The cells of a pair by their values, the largest first, as shares of all rows."""
    shares = [cells / max(float(cells.sum()), 1.0) for cells in sides]
    larger = np.maximum(*shares).ravel()
    order = np.argsort(-larger, kind="stable")[:_CELLS]
    places = [np.unravel_index(at, shares[0].shape) for at in order[larger[order] > 0]]
    rows = [
        (labels[0][first], labels[1][second], *(share(float(one[first, second])) for one in shares))
        for first, second in places
    ]
    filled = int((larger > 0).sum())
    some = f"; the {len(rows)} largest of {filled:,} cells" if filled > len(rows) else ""
    caption = f"{label}{some}; numbers and dates by the lowest value of each bin"
    return PageTable(caption, (*columns, _NOISY, _DRAWN), rows, folded=True)


def _measured(together: Sequence[tuple[str, ...]]) -> list[Block]:
    if not together:
        return [Paragraph("Columns were measured one by one: what they have to do with each other "
                          "is not in the rows.")]  # fmt: skip
    rows = [(", ".join(one),) for one in together]
    return [PageTable("Measured together", ("Columns",), rows, folded=True)]
