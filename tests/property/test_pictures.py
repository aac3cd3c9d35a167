"""Whatever a release holds has a page: it is paid for when the page is made."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.methods.publish.page import table_blocks
from sfumato.report.page import render

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "integer": (pa.int64(), st.integers(-(2**62), 2**62)),
    "small": (pa.int64(), st.integers(0, 20)),
    "real": (pa.float64(), st.floats()),
    "text": (pa.string(), WORDS),
    "date": (pa.date32(), st.dates()),
    "boolean": (pa.bool_(), st.booleans()),
}
COUNTS = st.floats(-1e15, 1e15)
BOUNDS = st.sampled_from([None, 0.0, 3.0, 1e9])


@st.composite
def cells(draw: st.DrawFn) -> tuple[list[str], pa.Table]:
    """Cells of up to three columns of any kind."""
    columns = [f"column {draw(WORDS)}{n}" for n in range(draw(st.integers(1, 3)))]
    size = draw(st.integers(0, 25))
    made: dict[str, pa.Array] = {}
    for column in columns:
        kind, values = KINDS[draw(st.sampled_from(sorted(KINDS)))]
        made[column] = pa.array(
            draw(st.lists(st.none() | values, min_size=size, max_size=size)), kind
        )
    return columns, _with_counts(draw, made, size)


@st.composite
def boxes(draw: st.DrawFn) -> tuple[list[str], pa.Table]:
    """Boxes that lie side by side along one column, or in stripes over two."""
    kind = draw(st.sampled_from([pa.int64(), pa.date32()]))
    cuts = draw(st.lists(st.integers(-700_000, 2_000_000), min_size=2, max_size=25, unique=True))
    cuts.sort()
    size = len(cuts) - 1
    ends = pa.array(cuts[:-1], pa.int32()), pa.array([cut - 1 for cut in cuts[1:]], pa.int32())
    made = {"a_low": ends[0].cast(kind), "a_high": ends[1].cast(kind)}
    columns = ["a"]
    if draw(st.booleans()):
        columns = ["b", "a"]
        made |= {"b_low": pa.array([0.0] * size), "b_high": pa.array([0.25] * size)}
    table = _with_counts(draw, made, size)
    return columns, table.append_column("sd", pa.array([draw(BOUNDS)] * size, pa.float64()))


def _with_counts(draw: st.DrawFn, columns: dict[str, pa.Array], size: int) -> pa.Table:
    counts = draw(st.lists(COUNTS, min_size=size, max_size=size))
    return pa.table({**columns, "count": pa.array(counts, pa.float64())})


@settings(deadline=None)
@given(cells() | boxes(), BOUNDS)
def test_every_table_has_a_page(given_table: tuple[list[str], pa.Table], bound: float) -> None:
    columns, table = given_table
    blocks = table_blocks(columns, {"cells": table}, {"cell": {"bound95": bound}})
    page = render("t", blocks, lead="", footer="")
    for drawing in re.findall(r"<svg .*?</svg>", page, re.DOTALL):
        assert not re.search(r'="[^"]*\b(nan|inf)\b', drawing)
