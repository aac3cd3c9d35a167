"""Randomized reports: their layout in files, tables and JSON, and the sums that a collector keeps.

A report has some small codes (a value, a seed, a row of a sketch) and, for some mechanisms, bits.
It names nobody. It travels in three forms:

- in a `.reports` file it is a row of fixed width, little-endian, after one line that names the
  mechanism; files can be read in pieces and appended to;
- in a table (CSV, Parquet, a database) codes are integer columns of their names, and bits are
  columns `bits_0`, `bits_1`, ... of 32 bits each, so that any engine can count them;
- in JSON, which people may read on their own device, a report of one code is that integer, one of
  bits alone is a text of 0 and 1, and any other is an object with its codes and bits.

Decision `local-privacy`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from sfumato import arguments
from sfumato.errors import SourceError
from sfumato.report.display import Card, Shown
from sfumato.text import dumps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, IntArray

MAGIC = b"sfumato reports 1 "
LONGEST_HEADER = 1 << 26
BITS = "bits"
"""The key of a report's bits in JSON."""
_WORD_BITS = 32
_CODE_TYPES = (("<u1", 8), ("<u2", 16), ("<u4", 32), ("<u8", 64))


class Code(NamedTuple):
    """An integer of a report from 0 to `limit` - 1."""

    name: str
    limit: int


@dataclass(frozen=True)
class ReportLayout:
    """The fields of a mechanism's reports: codes, then `width` bits."""

    codes: tuple[Code, ...]
    width: int = 0

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The row of a report: the smallest integer type for each code, then packed bits."""
        fields: list[Any] = [
            (code.name, next(kind for kind, bits in _CODE_TYPES if code.limit <= 1 << bits))
            for code in self.codes
        ]
        if self.width:
            fields.append(("bits", "u1", (-(-self.width // 8),)))
        return np.dtype(fields)

    @property
    def columns(self) -> list[str]:
        """The columns of a table of reports."""
        return [code.name for code in self.codes] + self.word_names

    @property
    def word_names(self) -> list[str]:
        """The columns of the bits."""
        return [f"bits_{number}" for number in range(-(-self.width // _WORD_BITS))]

    def empty(self, size: int) -> NDArray[Any]:
        """Rows of zeros, to be filled."""
        return np.zeros(size, dtype=self.dtype)

    def valid(self, rows: NDArray[Any]) -> BoolArray:
        """Which rows have all codes below their limits and no bit behind the last."""
        is_valid = np.ones(len(rows), dtype=np.bool_)
        for code in self.codes:
            is_valid &= rows[code.name] < code.limit
        if self.width % 8:
            is_valid &= rows["bits"][:, -1] < 1 << self.width % 8
        return is_valid

    def table(self, rows: NDArray[Any]) -> pa.Table:
        """Rows as a table of integers."""
        arrays = [pa.array(rows[code.name].astype(np.int64)) for code in self.codes]
        if self.width:
            padded = np.zeros((len(rows), 4 * len(self.word_names)), dtype=np.uint8)
            padded[:, : rows["bits"].shape[1]] = rows["bits"]
            word_columns = padded.view("<u4").astype(np.int64)
            arrays += [pa.array(word_columns[:, index]) for index in range(word_columns.shape[1])]
        return pa.Table.from_arrays(arrays, names=self.columns)

    def rows(self, table: pa.Table | pa.RecordBatch) -> tuple[NDArray[Any], int]:
        """The rows of a table of integers, and the number of rows that cannot be reports."""
        columns = {name: _integers(table.column(name)) for name in self.columns}
        is_valid = np.ones(table.num_rows, dtype=np.bool_)
        for name, limit in [*self.codes, *((name, 1 << _WORD_BITS) for name in self.word_names)]:
            is_valid &= (columns[name] >= 0) & (columns[name] < limit)
        rows = self.empty(int(is_valid.sum()))
        for code in self.codes:
            rows[code.name] = columns[code.name][is_valid]
        rejected = int((~is_valid).sum())
        if not self.width:
            return rows, rejected
        bit_words = np.stack(
            [columns[name][is_valid].astype("<u4") for name in self.word_names], axis=1
        )
        packed = bit_words.view(np.uint8)
        size = rows["bits"].shape[1]
        rows["bits"] = packed[:, :size]
        # A set bit behind the last byte is no report of this width.
        clear = ~packed[:, size:].any(axis=1)
        return rows[clear], rejected + int((~clear).sum())


def _integers(column: pa.Array | pa.ChunkedArray) -> IntArray:
    """A column as int64, with -1 where there is no integer."""
    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if not pa.types.is_integer(flat.type):
        return np.full(len(flat), -1, dtype=np.int64)
    if pa.types.is_uint64(flat.type):
        large = np.asarray(flat.fill_null((1 << 64) - 1))
        return np.where(large < np.uint64(1 << 63), large.astype(np.int64), -1)
    return np.asarray(flat.cast(pa.int64()).fill_null(-1))


class Reports(Shown):
    """Randomized reports of one mechanism, which `made_by` describes."""

    def __init__(
        self, made_by: Mapping[str, Any], layout: ReportLayout, rows: NDArray[Any]
    ) -> None:
        self.made_by, self.layout, self.rows = dict(made_by), layout, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __add__(self, other: Reports) -> Reports:
        """The reports of both; they must be of the same mechanism."""
        if not isinstance(other, Reports):
            return NotImplemented
        check_same(self.made_by, other.made_by, "Reports")
        return Reports(self.made_by, self.layout, np.concatenate([self.rows, other.rows]))

    def to_arrow(self) -> pa.Table:
        """A table of integers, for CSV, Parquet or a database."""
        return self.layout.table(self.rows)

    def to_bytes(self) -> bytes:
        """The bytes of a `.reports` file."""
        return header(self.made_by) + self.rows.tobytes()

    @property
    def bytes_each(self) -> int:
        """The bytes of one report."""
        return self.layout.dtype.itemsize

    def _card(self) -> Card:
        facts = {"reports": len(self), "bytes each": self.bytes_each}
        line = f"{len(self):,} reports by {self.made_by['mechanism']}, {self.bytes_each} bytes each"
        return Card(line, facts)


def header(made_by: Mapping[str, Any]) -> bytes:
    """The line before the rows of a `.reports` file."""
    return MAGIC + dumps(dict(made_by), sort_keys=True).encode() + b"\n"


def read_header(start: bytes) -> tuple[dict[str, Any], int]:
    """Read the first line of a file: the mechanism, and the offset of the first row."""
    line, line_end, _ = start.partition(b"\n")
    if not (line_end and line.startswith(MAGIC)):
        raise SourceError(
            "file_malformed",
            "This is no file of reports: it does not begin with 'sfumato reports 1'. "
            "Give a file that `Reports.to_bytes` wrote, or a table as .csv or .parquet.",
        )
    try:
        made_by = json.loads(line[len(MAGIC) :])
    except (ValueError, RecursionError):
        made_by = None
    if not isinstance(made_by, dict):
        raise SourceError(
            "file_malformed",
            "The first line of this file of reports does not say by which mechanism they were "
            "made. Ask for the file again.",
        )
    return made_by, len(line) + 1


def check_same(first: Mapping[str, Any], second: Mapping[str, Any], subject: str) -> None:
    """Refuse to mix what different mechanisms made: the sum would estimate nothing."""
    differing = sorted(key for key in {*first, *second} if first.get(key) != second.get(key))
    if differing:
        keys = " and ".join(differing) if len(differing) < 3 else ", ".join(differing)
        raise SourceError(
            "round_differs",
            f"{subject} of different oracles cannot be taken together: they differ in {keys}. "
            "Estimate each by the oracle that made it.",
        )


def to_wire(layout: ReportLayout, row: Any) -> object:
    """A row as JSON holds it."""
    codes = {code.name: int(row[code.name]) for code in layout.codes}
    if not layout.width:
        return next(iter(codes.values())) if len(codes) == 1 else codes
    bits = np.unpackbits(row["bits"], count=layout.width, bitorder="little")
    text = "".join(map(str, bits.tolist()))
    return {**codes, BITS: text} if codes else text


def from_wire(layout: ReportLayout, report: object) -> NDArray[Any] | str:
    """The row of a report in JSON, or the reason why it is none: a key of `REASONS`."""
    names = [code.name for code in layout.codes] + ([BITS] if layout.width else [])
    fields = {names[0]: report} if len(names) == 1 else report
    if not isinstance(fields, dict) or set(fields) != set(names):
        return "malformed"
    row = layout.empty(1)
    for code in layout.codes:
        value = fields[code.name]
        if type(value) is not int:  # True is an int, and 1.0 equals 1
            return "malformed"
        if not 0 <= value < code.limit:
            return "outside_domain"
        row[code.name] = value
    if layout.width:
        text = fields[BITS]
        if not isinstance(text, str) or set(text) - {"0", "1"}:
            return "malformed"
        if len(text) != layout.width:
            return "outside_domain"
        bits = np.frombuffer(text.encode("ascii"), dtype=np.uint8) - ord("0")
        row["bits"] = np.packbits(bits, bitorder="little")
    return row


_SKETCH_MAGIC = b"sfumato sketch 2 "
_DIGEST_BYTES = 16
# Above this many reports the sums of 64 bits could wrap around.
_MOST_REPORTS = 1 << 62


@dataclass(frozen=True, eq=False, repr=False)
class ReportSketch(Shown):
    """Integer sums over `n` reports of one mechanism; the sum of two sketches is that of all."""

    made_by: dict[str, Any]
    n: int
    rejected: int
    """The number of other rows, which could not be reports of the mechanism."""
    tally: IntArray

    def __add__(self, other: ReportSketch) -> ReportSketch:
        """The sketch of the reports of both."""
        if not isinstance(other, ReportSketch):
            return NotImplemented
        check_same(self.made_by, other.made_by, "Sketches")
        if self.tally.shape != other.tally.shape:
            raise unreadable_sketch()
        n, rejected = self.n + other.n, self.rejected + other.rejected
        if max(n, rejected) >= _MOST_REPORTS:
            raise unreadable_sketch("These sketches have more reports together than can be: 2^62.")
        return ReportSketch(self.made_by, n, rejected, self.tally + other.tally)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReportSketch) and self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]  # a sketch is compared, never a key

    def to_bytes(self) -> bytes:
        """The sketch as bytes with a checksum, to keep or to send to another collector."""
        numbers = np.array([self.n, self.rejected, *self.tally.shape], dtype="<i8")
        fields = {"dimensions": self.tally.ndim, "made_by": self.made_by}
        first_line = header(fields).replace(MAGIC, _SKETCH_MAGIC, 1)
        content = first_line + numbers.tobytes() + self.tally.astype("<i8").tobytes()
        return content + _digest(content)

    @classmethod
    def from_bytes(cls, data: bytes) -> ReportSketch:
        """Read what `to_bytes` wrote."""
        arguments.require(data, "data", bytes, "the bytes of a sketch")
        content, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
        if not data.startswith(_SKETCH_MAGIC) or _digest(content) != digest:
            raise unreadable_sketch()
        fields, start = read_header(MAGIC + content[len(_SKETCH_MAGIC) :])
        start += len(_SKETCH_MAGIC) - len(MAGIC)
        if len(content) % 8 != start % 8 or "made_by" not in fields:
            raise unreadable_sketch()
        numbers = np.frombuffer(content, dtype="<i8", offset=start).astype(np.int64)
        dimensions = fields.get("dimensions")
        if not isinstance(dimensions, int) or not 0 < dimensions <= len(numbers) - 2:
            raise unreadable_sketch()
        n, rejected, *shape = numbers[: 2 + dimensions].tolist()
        tally = numbers[2 + dimensions :]
        if min(n, rejected, *shape) < 0 or max(n, rejected) >= _MOST_REPORTS:
            raise unreadable_sketch()
        if len(tally) != prod(shape):
            raise unreadable_sketch()
        return cls(fields["made_by"], n, rejected, tally.reshape(shape))

    def _card(self) -> Card:
        rejected = f", {self.rejected:,} rejected" if self.rejected else ""
        line = f"{self.n:,} reports by {self.made_by['mechanism']}{rejected}"
        return Card(line, {"reports": self.n, "rejected": self.rejected})


def _digest(data: bytes) -> bytes:
    return sha256(data).digest()[:_DIGEST_BYTES]


def unreadable_sketch(
    reason: str = "This is no sketch, a part of one, or a damaged one.",
) -> SourceError:
    """The error for bytes or sums that no sketch has."""
    return SourceError(
        "file_malformed", f"{reason} Give what `to_bytes` of a sketch wrote, whole and as it was."
    )
