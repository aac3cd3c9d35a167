"""Make up a twin: the town beside synthetic rows of it, and how near they are."""

from __future__ import annotations

from contextlib import closing
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.attack.evaluation.evaluate import compare_tables
from sfumato.attack.evaluation.page import association_maps, column_picture, said
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


def twin_of(people: pa.Table) -> pa.Table:
    """Synthetic rows of the town's people, for a price."""
    with (
        as_file(files("sfumato.demo") / "town.toml") as schema,
        closing(read(people, schema)) as opened,
    ):
        private = protect(opened, epsilon=2, delta="1e-5")
        return private.synthesize(epsilon=_EPSILON, delta=_DELTA).table


def section(town: Town) -> list[Block]:
    """The town and its twin side by side: columns, what they say together, and figures."""
    with (
        as_file(files("sfumato.demo") / "town.toml") as schema,
        closing(read(town.people, schema)) as opened,
    ):
        found = compare_tables(town.twin, opened, None)
    columns = {one.name: one for one in found.columns}
    figures = [
        (share(one.mean.tvd), f"would move in {words}; in a fresh sample {share(one.mean.floor)}")
        for words, one in zip(
            ("a column", "two columns", "three"), found.sets.values(), strict=True
        )
    ]
    return [
        Heading("Make up a twin"),
        Paragraph(
            "A synthetic table has the columns of the real one, and rows that belong to nobody. "
            "Some counts are measured with noise, and rows are drawn that have about these counts: "
            f"here for epsilon {_EPSILON} and delta {_DELTA}, {town.twin.num_rows:,} of them. "
            "Whatever worked on the original works on its twin, as often as anybody likes."
        ),
        Paragraph(
            "How near it is can be said in rows that would have to take other values for both "
            "tables to have the same counts. A fresh sample is as many rows drawn by chance from "
            "the original itself."
        ),
        KeyFigures(figures),
        *(column_picture(columns[name]) for name in _SHOWN),
        _by_decade(town),
        Heading("What columns say together", level=3),
        Paragraph(
            "Each square stands for two columns; the fuller its tone, the more one of them tells "
            "about the other. The two maps should look alike."
        ),
        association_maps(found),
        Heading("In words", level=3),
        Listing(said(found)[len(found.sets) :]),
        Note(
            "Nobody but the owner may look at real people beside their twin, as this page does "
            "with made-up ones: the comparison itself is not private."
        ),
    ]


def _by_decade(town: Town) -> Picture:
    """When people were born and what they fell ill with, in both tables."""
    names = sorted(set(town.people["disease"].to_pylist()) - {None})
    years = [pc.year(one["birth_date"]) for one in (town.people, town.twin)]
    first = min(pc.min(one).as_py() for one in years) // _DECADE
    last = max(pc.max(one).as_py() for one in years) // _DECADE
    tiles = [
        (name, _counted(year, table["disease"], names, (first, last)))
        for name, year, table in zip(
            ("The town", "Its twin"), years, (town.people, town.twin), strict=True
        )
    ]
    label = "Decade of birth (across) and disease (up, in the order of the list)"
    rows = [
        (
            f"{_DECADE * (first + place)}s",
            name,
            *(f"{cells[row, place]:,.0f}" for _, cells in tiles),
        )
        for row, name in enumerate(names)
        for place in range(last - first + 1)
    ]
    table = PageTable(label, ("Born", "Disease", "The town", "Its twin"), rows, folded=True)
    return draw_tiles(tiles, label=label, table=table, value="People")


def _counted(
    years: pa.ChunkedArray, diseases: pa.ChunkedArray, names: list[str], ends: tuple[int, int]
) -> FloatArray:
    cells = np.zeros((len(names), ends[1] - ends[0] + 1))
    place = pc.index_in(diseases, value_set=pa.array(names))
    known = pc.and_(pc.is_valid(place), pc.is_valid(years))
    row = np.asarray(place.filter(known), dtype=np.int64)
    column = np.asarray(years.filter(known), dtype=np.int64) // _DECADE - ends[0]
    np.add.at(cells, (row, column), 1)
    return cells
