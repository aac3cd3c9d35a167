"""Synthetic data: the town beside a synthetic table of it, and how close they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.attack.evaluation.evaluate import evaluate
from sfumato.attack.evaluation.page import association_maps, column_picture, summary
from sfumato.demo.town import schema_of
from sfumato.release.open_table import read
from sfumato.report.blocks import Heading, KeyFigures, Listing, Note, PageTable, Paragraph
from sfumato.report.heat_maps import draw_tiles
from sfumato.report.value_text import share
from sfumato.vault.protection import protect

if TYPE_CHECKING:
    from sfumato.arrays import FloatArray
    from sfumato.demo.town import Town
    from sfumato.report.blocks import Block
    from sfumato.report.picture import Picture

_EPSILON, _DELTA = "1", "1e-6"
_SHOWN = ("birth_date", "salary", "disease")
_DECADE = 10


def synthesize_town(people: pa.Table) -> pa.Table:
    """A synthetic table of the people, with differential privacy."""
    with read(people, schema_of("town")) as opened:
        # A budget above the cost of the release, which uses epsilon 1 of it.
        private = protect(opened, epsilon=2, delta="1e-5")
        return private.synthesize(epsilon=_EPSILON, delta=_DELTA).table


def section(town: Town) -> list[Block]:
    """The town and its synthetic table side by side: columns, associations and figures."""
    with read(town.people, schema_of("town")) as opened:
        evaluation = evaluate(town.synthetic, opened)
    columns = {column.name: column for column in evaluation.columns}
    figures = [
        (
            share(distances.mean.tvd),
            f"distance of {measure}; fresh sample {share(distances.mean.floor)}",
        )
        for measure, distances in zip(
            ("single columns", "two-way marginals", "three-way marginals"),
            evaluation.sets.values(),
            strict=True,
        )
    ]
    return [
        Heading("Make synthetic data"),
        Paragraph(
            "A synthetic table has the columns of the real one, and rows that belong to nobody. "
            "Some counts are measured with noise, and random rows are drawn that have about these "
            f"counts: here {town.synthetic.num_rows:,} rows at epsilon {_EPSILON} and delta "
            f"{_DELTA}. Any analysis of the original also runs on the synthetic table, as often as "
            "needed."
        ),
        Paragraph(
            "The total variation distance says how close the tables are: the share of rows that "
            "would need other values for both tables to have the same counts. A fresh sample is "
            "as many rows drawn at random from the original."
        ),
        KeyFigures(figures),
        *(column_picture(columns[name]) for name in _SHOWN),
        _by_decade(town),
        Heading("Associations between columns", level=3),
        Paragraph(
            "Each square is a pair of columns. A fuller tone means that one column says more about "
            "the other. Both maps should look alike."
        ),
        association_maps(evaluation),
        Heading("In words", level=3),
        Listing(summary(evaluation)[len(evaluation.sets) :]),
        Note(
            "With real people, only the owner may see such a comparison: the comparison itself is "
            "not private."
        ),
    ]


def _by_decade(town: Town) -> Picture:
    """Decade of birth and illness, in both tables."""
    # The order of the list is that of the rows of both maps.
    names = sorted(set(town.people["disease"].to_pylist()) - {None})
    years = [pc.year(table["birth_date"]) for table in (town.people, town.synthetic)]
    first = min(pc.min(year).as_py() for year in years) // _DECADE
    last = max(pc.max(year).as_py() for year in years) // _DECADE
    tiles = [
        (name, _count_cells(year, table["disease"], names, (first, last)))
        for name, year, table in zip(
            ("The town", "Synthetic"), years, (town.people, town.synthetic), strict=True
        )
    ]
    label = "Decade of birth (across) and disease (up, in the order of the list)"
    rows = [
        (
            f"{_DECADE * (first + index)}s",
            name,
            *(f"{cells[row, index]:,.0f}" for _, cells in tiles),
        )
        for row, name in enumerate(names)
        for index in range(last - first + 1)
    ]
    table = PageTable(label, ("Born", "Disease", "The town", "Synthetic"), rows, folded=True)
    return draw_tiles(tiles, label=label, table=table, value="People")


def _count_cells(
    years: pa.ChunkedArray, diseases: pa.ChunkedArray, names: list[str], ends: tuple[int, int]
) -> FloatArray:
    cells = np.zeros((len(names), ends[1] - ends[0] + 1))
    index = pc.index_in(diseases, value_set=pa.array(names))
    known = pc.and_(pc.is_valid(index), pc.is_valid(years))
    row = np.asarray(index.filter(known), dtype=np.int64)
    column = np.asarray(years.filter(known), dtype=np.int64) // _DECADE - ends[0]
    np.add.at(cells, (row, column), 1)
    return cells
