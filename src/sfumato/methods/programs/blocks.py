"""Divide a table into blocks of people, in its own engine, by a keyed hash.

People are distributed in `repeats` rounds. In each round everybody is in one of blocks / repeats
blocks, whose number is a hash of the person under the round's secret key. So the block of a person
depends on the key and on nobody else's rows: removing one person changes exactly the blocks that
held the person.

Where every row is a person, a row has no name. A hash of its position in the file would not do:
without one row all later positions change, and so would every block. A hash of the values alone
would put all equal rows into one block. So a row is identified by its values and its number among
equal rows; of m equal rows the one with number m is the one that is removed, since nothing else
distinguishes them.

Rows of a block are sorted by their seals, a keyed hash of their values. An engine's own order may
change with any row of the table, and a program could look at it. Blocks are the same on every
engine except for reals, which engines write as text in their own ways: these may be sorted
differently, and, where every row is a person, be in other blocks of the same distribution.
Decision `programs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.data.counting.contribution import COUNT, PERSON, bound
from sfumato.data.counting.hashing import digest, integer, sealed
from sfumato.data.engines.base import REAL
from sfumato.data.engines.kinds import stored_schema
from sfumato.data.schema.column import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import IntArray
    from sfumato.data.engines.base import Engine
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.unit import Unit

_SEAL, _OWNER, _TWIN, _DRAWN, _BLOCK = "sf_seal", "sf_whose", "sf_twin", "sf_drawn", "sf_block"
_ROWS, _NUMBERED, _HASHED = "sf_people_rows", "sf_numbered", "sf_hashed"
_MOST_TEXT = 2**31 - 1
"""Bytes of text that one Arrow column can address."""


@dataclass(frozen=True)
class Cut:
    """How a table is divided: the columns that programs see, the unit, and the blocks."""

    columns: tuple[Column, ...]
    unit: Unit
    blocks: int
    repeats: int = 1

    @property
    def schema(self) -> pa.Schema:
        """The columns of every block; declared, and so the same whatever the rows are."""
        return stored_schema({column.name: column for column in self.columns})

    def blocks_of(self, engine: Engine, table: exp.Table, salt: str) -> list[pa.Table | None]:
        """The rows of each block; None where they have more text than Arrow can address."""
        rows = engine.run(self._query(table, salt))
        numbers = rows[_BLOCK].to_numpy()
        # Rows are sorted by block, so each block is one slice, an empty one included.
        starts = np.searchsorted(numbers, np.arange(self.blocks + 1))
        counts = rows[COUNT].to_numpy()
        values = rows.select(range(len(self.columns)))
        values = values.rename_columns(self.schema.names).cast(self.schema, safe=False)
        return [
            _repeated(values.slice(first, last - first), counts[first:last])
            for first, last in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
        ]

    def _query(self, table: exp.Table, salt: str) -> exp.Query:
        """All rows with their block, in the order of blocks and seals; once for each round."""
        names = [f"sf_value_{number}" for number in range(len(self.columns))]
        rows = exp.select(
            *(
                exp.alias_(_cell(column), name)
                for column, name in zip(self.columns, names, strict=True)
            )
        ).from_(table.copy())
        known, identity = (
            self._by_person(rows, names, salt)
            if self.unit.by_person
            else _by_row(rows, names, salt)
        )
        blocks_of_round = self.blocks // self.repeats
        query: exp.Query | None = None
        for number in range(self.repeats):
            # Not by an engine's own hash: wherever the rows lie, the blocks are the same.
            drawn = digest(f"{salt}/{number}", list(map(exp.column, identity)))
            block_in_round = exp.Mod(
                this=integer(exp.column(_DRAWN)), expression=_bigint(blocks_of_round)
            )
            block = exp.Paren(this=block_in_round) + _bigint(number * blocks_of_round)
            carried = [exp.column(name) for name in (*names, COUNT, _SEAL)]
            hashed = exp.select(*carried, exp.alias_(drawn, _DRAWN)).from_(_NUMBERED)
            dealt = exp.select(*carried, exp.alias_(block, _BLOCK)).from_(hashed.subquery(_HASHED))
            query = dealt if query is None else exp.union(query, dealt, distinct=False)
        assert query is not None
        ordered = (
            exp.select(*map(exp.column, (*names, COUNT, _BLOCK)))
            .from_(query.subquery("sf_dealt"))
            .order_by(exp.column(_BLOCK), exp.column(_SEAL))
        )
        return ordered.with_(_NUMBERED, as_=known)

    def _by_person(
        self, rows: exp.Select, names: Sequence[str], salt: str
    ) -> tuple[exp.Query, list[str]]:
        """Rows of somebody, no more of each than the unit allows."""
        assert self.unit.column is not None
        person = exp.column(self.unit.column, quoted=True)
        owned = rows.select(exp.alias_(person, PERSON), exp.alias_(person.copy(), _OWNER))
        # Sampled before rows are dealt: a person with many rows fills no block.
        bounded = bound(owned, self.unit.bounded(self.unit.max_rows), (), salt, (*names, _OWNER))
        return _with_seal(bounded, [*names, _OWNER], salt, COUNT, _OWNER), [_OWNER]


def _cell(column: Column) -> exp.Expr:
    """A value, with -0.0 as 0.0: engines treat the two as equal."""
    value = exp.column(column.name, quoted=True)
    if column.kind is not Kind.REAL:
        return value
    zero = exp.cast(exp.convert("0"), REAL)
    return exp.case().when(value.eq(zero), zero.copy()).else_(value.copy())


def _by_row(rows: exp.Select, names: Sequence[str], salt: str) -> tuple[exp.Query, list[str]]:
    """Every row with its number among its equals."""
    # Equal rows have equal seals; any order among them gives the same blocks.
    twin = exp.Window(
        this=exp.RowNumber(),
        partition_by=[exp.column(_SEAL)],
        order=exp.Order(expressions=[exp.Ordered(this=exp.column(_SEAL), nulls_first=False)]),
    )
    once = exp.alias_(_bigint(1), COUNT)
    numbered = exp.select(
        *map(exp.column, names), exp.column(_SEAL), once, exp.alias_(twin, _TWIN)
    ).from_(_with_seal(rows, names, salt).subquery(_ROWS))
    return numbered, [_SEAL, _TWIN]


def _with_seal(rows: exp.Query, names: Sequence[str], salt: str, *unsealed: str) -> exp.Select:
    seal = exp.alias_(sealed(salt, list(map(exp.column, names))), _SEAL)
    selected = dict.fromkeys((*names, *unsealed))
    return exp.select(*map(exp.column, selected), seal).from_(rows.subquery("sf_bounded"))


def _repeated(rows: pa.Table, counts: np.ndarray) -> pa.Table | None:
    """Rows as often as they count; None where a column would have more text than Arrow can address.

    One person's equal rows are one row with a count, so the text is summed before it is copied:
    else that person would decide whether the run fails, and how much memory it takes.
    """
    for column in rows.columns:
        if column.type == pa.string() and int(_text_lengths(column) @ counts) > _MOST_TEXT:
            return None
    if (counts == 1).all():
        return rows
    return rows.take(np.repeat(np.arange(len(counts)), counts))


def _bigint(number: int) -> exp.Expr:
    return exp.cast(exp.convert(number), "BIGINT")


def to_stream(rows: pa.Table | None) -> bytes:
    """Encode a block as the Arrow IPC stream that a program gets; no bytes for an unreadable one.

    The bytes are a function of the block's own schema and rows. Arrow writes a slice together with
    the padding behind it, which holds neighbouring rows, and keeps the chunks in which an engine
    gave them; a program that reads those bytes sees other people's cells. So every buffer is built
    anew: one record batch, text offsets from 0, zeros under missing cells and after the last row, a
    validity bitmap only where a cell is missing, one bit pattern for NaN, no metadata.
    """
    if rows is None:
        return b""
    columns = [_fresh(column) for column in rows.columns]
    batch = pa.RecordBatch.from_arrays(
        columns, schema=pa.schema([pa.field(field.name, field.type) for field in rows.schema])
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def _fresh(column: pa.ChunkedArray) -> pa.Array:
    """Copy a column into buffers that hold its own cells and zeros, and nothing else."""
    missing = pa.compute.is_null(column).to_numpy()
    kind, size = column.type, len(column)
    validity = _padded(np.packbits(~missing, bitorder="little")) if missing.any() else None
    if kind == pa.string():
        buffers = _text_buffers(column)
    elif kind == pa.bool_():
        values = pa.compute.fill_null(column, False).to_numpy()
        buffers = [_padded(np.packbits(values, bitorder="little"))]
    else:
        buffers = [_padded(_fixed(column, missing))]
    return pa.Array.from_buffers(kind, size, [validity, *buffers], null_count=int(missing.sum()))


def _fixed(column: pa.ChunkedArray, missing: np.ndarray) -> np.ndarray:
    """The cells of a column of numbers or days, zero where one is missing."""
    if column.type == pa.date32():
        column = column.cast(pa.int32())
    zero = pa.scalar(0, column.type)
    values: np.ndarray = pa.compute.if_else(pa.array(missing), zero, column).to_numpy().copy()
    if column.type == pa.float64():
        values[np.isnan(values)] = np.nan
    return values


def _text_lengths(column: pa.ChunkedArray) -> IntArray:
    """The bytes of each text; 0 for a missing one."""
    lengths = pa.compute.fill_null(pa.compute.binary_length(column), 0)
    return np.asarray(lengths.to_numpy(), dtype=np.int64)


def _text_buffers(column: pa.ChunkedArray) -> list[pa.Buffer]:
    """Offsets from 0 and the letters of a text column, without those of missing cells."""
    offsets = np.zeros(len(column) + 1, dtype=np.int32)
    np.cumsum(_text_lengths(column), out=offsets[1:])
    pieces = []
    for chunk in pa.compute.fill_null(column, "").chunks:
        _, starts, letters = chunk.buffers()
        if letters is None or not len(chunk):
            continue
        ends = np.frombuffer(starts, dtype=np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
        pieces.append(np.frombuffer(letters, dtype=np.uint8)[ends[0] : ends[-1]])
    joined = np.concatenate([np.empty(0, dtype=np.uint8), *pieces])
    return [_padded(offsets), _padded(joined)]


def _padded(values: np.ndarray) -> pa.Buffer:
    """The bytes of an array, with zeros up to Arrow's multiple of 64."""
    room = np.zeros(-(-values.nbytes // 64) * 64, dtype=np.uint8)
    room[: values.nbytes] = values.view(np.uint8)
    return pa.py_buffer(room)
