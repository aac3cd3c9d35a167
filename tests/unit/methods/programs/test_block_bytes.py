"""The bytes of a block are a function of that block's rows alone, whoever lies beside it."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.methods.programs.blocks import Cut, to_stream

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_DAY = date(2000, 1, 1)
CELLS: dict[str, Any] = {
    "integer": (pa.int64(), lambda n: n * 7919 - 3),
    "real": (pa.float64(), lambda n: float("nan") if n % 11 == 5 else n / 7),
    "text": (pa.string(), lambda n: ("é" * (n % 5)) + str(n)),
    "date": (pa.date32(), lambda n: FIRST_DAY + timedelta(days=n % 10_000)),
    "boolean": (pa.bool_(), lambda n: n % 3 == 0),
}
MISSING: dict[str, Callable[[int], bool]] = {
    "none": lambda _: False,
    "all": lambda _: True,
    "first": lambda n: n == 0,
    "every third": lambda n: n % 3 == 0,
}
SIZES = (0, 1, 7, 8, 9, 15, 16, 17, 31, 63, 64, 65, 127, 511, 512, 513)
CHUNKS = (2047, 2048, 2049)
"""Rows of an engine's vector, and one more or less."""


def column(kind: str, missing: str, size: int) -> pa.Array:
    stored, cell = CELLS[kind]
    return pa.array([None if MISSING[missing](n) else cell(n) for n in range(size)], stored)


def neighbours(kind: str, salt: int, size: int) -> pa.Array:
    stored, cell = CELLS[kind]
    return pa.array([None if n % 5 == salt else cell(n + 1000 * salt) for n in range(size)], stored)


def surrounded(block: pa.Array, before: pa.Array, after: pa.Array, chunk: int) -> pa.Table:
    """The block's rows as a slice of one table, in the chunks in which an engine would give it."""
    whole = pa.concat_arrays([before, block, after])
    chunks = [whole.slice(start, chunk) for start in range(0, len(whole), chunk)]
    table = pa.table({"x": pa.chunked_array(chunks, block.type)})
    return table.slice(len(before), len(block))


def written_as_a_slice(rows: pa.Table) -> bytes:
    """A planted wrong twin: Arrow writes the slice as it lies among its neighbours."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", CELLS)
def test_a_slice_that_is_written_as_it_lies_is_caught(kind: str) -> None:
    caught = 0
    for size in SIZES:
        block = column(kind, "every third", size)
        found = {
            written_as_a_slice(
                surrounded(block, neighbours(kind, salt, salt), neighbours(kind, salt + 1, 70), 64)
            )
            for salt in range(4)
        }
        caught += len(found) > 1
    assert caught > len(SIZES) // 2


@pytest.mark.parametrize("missing", MISSING)
@pytest.mark.parametrize("kind", CELLS)
def test_neighbours_before_and_after_change_no_byte(kind: str, missing: str) -> None:
    for size in (*SIZES, *CHUNKS):
        block = column(kind, missing, size)
        expected = to_stream(pa.table({"x": block}))
        assert pa.ipc.open_stream(expected).read_all()["x"].to_pylist() == pytest.approx(
            block.to_pylist(), nan_ok=True
        )
        for salt, ahead, behind, chunk in (
            (1, 0, 1, 10**6),
            (2, 1, 0, 10**6),
            (3, 3, 70, 64),
            (4, 65, 5, 2048),
            (0, 2048, 2048, 2048),
        ):
            rows = surrounded(
                block, neighbours(kind, salt, ahead), neighbours(kind, salt + 1, behind), chunk
            )
            assert to_stream(rows) == expected, (size, salt)


def test_a_cell_under_a_missing_one_and_a_nan_s_payload_are_not_sent() -> None:
    hidden = pa.Array.from_buffers(
        pa.int64(), 3, [pa.py_buffer(b"\x05"), pa.py_buffer(np.array([1, 666, 3]))]
    )
    assert to_stream(pa.table({"x": hidden})) == to_stream(
        pa.table({"x": pa.array([1, None, 3], pa.int64())})
    )
    odd = np.array([0x7FF8000000000123], dtype=np.uint64).view(np.float64)
    assert to_stream(pa.table({"x": odd})) == to_stream(pa.table({"x": [float("nan")]}))


def test_letters_of_a_missing_text_are_not_sent() -> None:
    letters, places = pa.py_buffer(b"secretab"), pa.py_buffer(np.array([0, 6, 8], np.int32))
    hidden = pa.Array.from_buffers(pa.string(), 2, [pa.py_buffer(b"\x02"), places, letters])
    written = to_stream(pa.table({"x": hidden}))
    assert b"secret" not in written
    assert written == to_stream(pa.table({"x": pa.array([None, "ab"])}))


def test_bits_after_the_last_row_metadata_and_a_true_bitmap_are_not_sent() -> None:
    bits = pa.Array.from_buffers(pa.bool_(), 3, [pa.py_buffer(b"\xff"), pa.py_buffer(b"\xff")])
    table = pa.table({"x": bits}).replace_schema_metadata({"engine": "chunk 7"})
    assert to_stream(table) == to_stream(pa.table({"x": [True, True, True]}))


@pytest.mark.parametrize("times", [1, 3])
def test_text_that_arrow_cannot_hold_makes_the_block_unreadable(
    times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F29: also where it is one person's equal rows, which the engine gives as one with a count."""
    monkeypatch.setattr("sfumato.methods.programs.blocks._MOST_TEXT", 10 * times)
    column = sf.Column("x", sf.Kind.TEXT, nullable=False)
    schema = sf.Schema("t", (column,), sf.Entity("x", max_rows=times))
    for letters, is_readable in (("0123456789", True), ("0123456789a", False)):
        with sf.read(pa.table({"x": [letters] * 5}), schema) as table:
            cut = Cut(schema.columns, schema.unit, 1)
            (block,) = cut.blocks_of(table.engine, table.engine.table, "salt")
        assert (to_stream(block) != b"") == is_readable
        assert is_readable or block is None, "the rows were copied before they were measured"


SCHEMA = """
table = "t"
unit = "row"
[columns.who]
role = "other"
kind = "integer"
bounds = [0, 1000000]
nullable = false
""" + "".join(
    f'[columns.{kind}]\nrole = "other"\nkind = "{kind}"\n{more}'
    for kind, more in (
        ("integer", "bounds = [-10, 100000000]\n"),
        ("real", "bounds = [-10, 1000000]\n"),
        ("text", ""),
        ("date", ""),
        ("boolean", ""),
    )
)


def person(number: int, who: int) -> dict[str, object]:
    cells = {
        kind: None if (number + place) % 7 == 0 else cell(number)
        for place, (kind, (_, cell)) in enumerate(CELLS.items())
    }
    return {"who": who, **cells}


STORED = pa.schema([("who", pa.int64()), *((kind, stored) for kind, (stored, _) in CELLS.items())])


@pytest.mark.parametrize("size", [300, 2048 * 3 + 1, 122_880 + 65])
@pytest.mark.parametrize("by", ["row", "who"])
def test_without_one_person_no_byte_of_another_block_changes(
    by: str, size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Through the engine: around its vectors and row groups, with rows that stand for several."""
    schema = tmp_path_factory.mktemp("bytes") / "t.toml"
    schema.write_text(SCHEMA)
    unit = sf.Rows() if by == "row" else sf.Entity("who", max_rows=3)
    # Every third person has four equal rows, of which three are kept as one with a count.
    rows = [person(n // 4 if n % 12 < 4 else n, n // 4) for n in range(size)]
    whole = pa.Table.from_pylist(rows, STORED)

    def written(rows: pa.Table) -> list[bytes]:
        with sf.read(rows, schema=str(schema)) as table:
            cut = Cut(tuple(table.schema.columns), unit, 40, 1)
            blocks = cut.blocks_of(table.engine, table.engine.table, "salt")
            return [to_stream(block) for block in blocks]

    full = written(whole)
    for victim in (0, 17, 40) if size < 10_000 else (17,):
        keep = np.arange(size) != victim if by == "row" else np.arange(size) // 4 != victim
        fewer = written(whole.filter(pa.array(keep)))
        changed = [place for place in range(40) if full[place] != fewer[place]]
        assert len(changed) == 1
