"""Blocks: without one person exactly that person's blocks are others, whatever the order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.methods.programs.blocks import Cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.data.schema.unit import Unit

SCHEMA = """
table = "t"
unit = "row"
[columns.who]
role = "other"
kind = "integer"
bounds = [0, 99]
nullable = false
[columns.x]
role = "other"
kind = "real"
bounds = [-10, 10]
"""
ROWS = [(who, x) for who in range(5) for x in (0.0, -0.0, 1.5, 1.5)] + [(3, None)] * 2
Blocks = list[list[tuple[object, ...]]]


def cut(rows: Sequence[tuple[int, float | None]], unit: Unit, blocks: int, repeats: int) -> Blocks:
    columns = {"who": [one[0] for one in rows], "x": [one[1] for one in rows]}
    types = pa.schema([("who", pa.int64()), ("x", pa.float64())])
    with sf.read(pa.table(columns, schema=types), schema=SCHEMA_FILE[0]) as table:
        made = Cut(tuple(table.schema.columns), unit, blocks, repeats)
        found = made.blocks_of(table.engine, table.engine.table, "salt")
    readable = [block for block in found if block is not None]
    assert [block.schema for block in readable] == [made.schema] * made.blocks
    return [[tuple(map(str, row.values())) for row in block.to_pylist()] for block in readable]


SCHEMA_FILE: list[str] = []


@pytest.fixture(autouse=True)
def _schema(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("cut") / "t.toml"
    path.write_text(SCHEMA)
    SCHEMA_FILE[:] = [str(path)]


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("by", ["row", "who"])
def test_without_one_person_only_their_blocks_change(by: str, repeats: int) -> None:
    unit: Unit = sf.Rows() if by == "row" else sf.Entity("who", max_rows=3)
    whole = cut(ROWS, unit, 12, repeats)
    assert len(whole) == 12
    for place in range(0, len(ROWS), 3) if by == "row" else range(5):  # rows of every kind
        rest = [
            one
            for number, one in enumerate(ROWS)
            if (number != place if by == "row" else one[0] != place)
        ]
        fewer = cut(rest, unit, 12, repeats)
        changed = [one for one in range(12) if whole[one] != fewer[one]]
        assert 1 <= len(changed) <= repeats
        for one in changed:
            left = list(whole[one])
            for row in fewer[one]:
                left.remove(row)
            assert len(left) == 1 if by == "row" else {row[0] for row in left} == {str(place)}


def test_order_of_rows_in_a_file_changes_nothing() -> None:
    for unit in (sf.Rows(), sf.Entity("who", max_rows=3)):
        assert cut(ROWS, unit, 6, 2) == cut(ROWS[::-1], unit, 6, 2)


def test_everybody_is_in_one_block_of_each_round_with_bounded_rows() -> None:
    found = cut(ROWS, sf.Entity("who", max_rows=3), 12, 3)
    for first in (0, 4, 8):
        held = [{row[0] for row in one} for one in found[first : first + 4]]
        assert sum(map(len, held)) == len(set().union(*held)) == 5
        assert sum(map(len, found[first : first + 4])) == 5 * 3


def test_equal_rows_are_spread() -> None:
    """A hash of what rows say alone would put them all into one block."""
    found = cut([(1, 1.0)] * 400, sf.Rows(), 4, 1)
    assert sum(map(len, found)) == 400
    assert all(60 <= len(one) <= 140 for one in found)


def test_an_empty_table_has_empty_blocks() -> None:
    assert cut([], sf.Rows(), 3, 1) == [[], [], []]
