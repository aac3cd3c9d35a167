"""Reports: what leaves a person's device, and nothing else does. Rows of fixed width, no names.

A report is some small codes (a value, a seed, a row of a sketch) and, where a mechanism sends bits,
these. On the wire and in a `.reports` file it is a row of fixed width, numbers with the lowest byte
first, behind one line that says by which mechanism it was made; files can be read in pieces, and
appended to. In a table (CSV, Parquet, a database) codes are integer columns of their names and bits
are columns `bits_0`, `bits_1`, ... of 32 bits each, so that any engine can count them.

In JSON, readable by whoever looks at what leaves their device, a report of one code is that whole
number; one of bits alone is a text of 0 and 1; any other is an object with its codes by name and
its bits. What is not exactly that is no report.

Decision `local-reports`.
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
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, IntArray


MAGIC = b"sfumato reports 1 "
LONGEST_HEADER = 1 << 26
BITS = "bits"
"""The name of the bits of a report in JSON."""
_WORD_BITS = 32


class Code(NamedTuple):
    """A whole number of a report: its name, and what it is below."""

    name: str
    limit: int


@dataclass(frozen=True)
class ReportLayout:
    """How a mechanism's reports are laid out: codes, then so many bits."""

    codes: tuple[Code, ...]
    width: int = 0

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The row of a report."""
        fields: list[Any] = [(code.name, _smallest(code.limit)) for code in self.codes]
        if self.width:
            fields.append(("bits", "u1", (-(-self.width // 8),)))
        return np.dtype(fields)

    @property
    def columns(self) -> list[str]:
        """The columns of a table of reports."""
        return [code.name for code in self.codes] + self.word_names

    @property
    def word_names(self) -> list[str]:
        """The columns of its bits."""
        return [f"bits_{number}" for number in range(-(-self.width // _WORD_BITS))]

    def empty(self, size: int) -> NDArray[Any]:
        """Rows to be filled."""
        return np.zeros(size, dtype=self.dtype)

    def valid(self, rows: NDArray[Any]) -> BoolArray:
        """Which rows hold numbers that the mechanism can send."""
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
            numbers = padded.view("<u4").astype(np.int64)
            arrays += [pa.array(numbers[:, at]) for at in range(numbers.shape[1])]
        return pa.Table.from_arrays(arrays, names=self.columns)

    def rows(self, table: pa.Table | pa.RecordBatch) -> tuple[NDArray[Any], int]:
        """Rows of a table of integers, and how many others there were that cannot be reports."""
        numbers = {name: _integers(table.column(name)) for name in self.columns}
        is_valid = np.ones(table.num_rows, dtype=np.bool_)
        for name, limit in [*self.codes, *((name, 1 << _WORD_BITS) for name in self.word_names)]:
            is_valid &= (numbers[name] >= 0) & (numbers[name] < limit)
        rows = self.empty(int(is_valid.sum()))
        for code in self.codes:
            rows[code.name] = numbers[code.name][is_valid]
        if not self.width:
            return rows, int((~is_valid).sum())
        columns = np.stack(
            [numbers[name][is_valid].astype("<u4") for name in self.word_names], axis=1
        )
        packed = columns.view(np.uint8)
        size = rows["bits"].shape[1]
        rows["bits"] = packed[:, :size]
        clear = ~packed[:, size:].any(axis=1)
        return rows[clear], int((~is_valid).sum() + (~clear).sum())


def _integers(column: pa.Array | pa.ChunkedArray) -> IntArray:
    """A column as int64, with -1 for what is no whole number."""
    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if not pa.types.is_integer(flat.type):
        return np.full(len(flat), -1, dtype=np.int64)
    if pa.types.is_uint64(flat.type):
        large = np.asarray(flat.fill_null((1 << 64) - 1))
        return np.where(large < np.uint64(1 << 63), large.astype(np.int64), -1)
    return np.asarray(flat.cast(pa.int64()).fill_null(-1))


def _smallest(limit: int) -> str:
    return next(kind for kind, bits in _KINDS if limit <= 1 << bits)


_KINDS = (("<u1", 8), ("<u2", 16), ("<u4", 32), ("<u8", 64))


class Reports(Shown):
    """Randomized reports of one mechanism, which `made_by` describes."""

    def __init__(
        self, made_by: Mapping[str, Any], layout: ReportLayout, rows: NDArray[Any]
    ) -> None:
        self.made_by, self.layout, self.rows = dict(made_by), layout, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __add__(self, other: Reports) -> Reports:
        """Both together; they must have been made by the same mechanism."""
        if not isinstance(other, Reports):
            return NotImplemented
        check_same(self.made_by, other.made_by, "Reports")
        return Reports(self.made_by, self.layout, np.concatenate([self.rows, other.rows]))

    def to_arrow(self) -> pa.Table:
        """As a table of whole numbers, for CSV, Parquet or a database."""
        return self.layout.table(self.rows)

    def to_bytes(self) -> bytes:
        """As the bytes of a `.reports` file."""
        return header(self.made_by) + self.rows.tobytes()

    @property
    def bytes_each(self) -> int:
        """How many bytes one report takes."""
        return self.layout.dtype.itemsize

    def _card(self) -> Card:
        facts = {"reports": len(self), "bytes each": self.bytes_each}
        line = f"{len(self):,} reports by {self.made_by['mechanism']}, {self.bytes_each} bytes each"
        return Card(line, facts)


def header(made_by: Mapping[str, Any]) -> bytes:
    """The line before the rows of a `.reports` file."""
    return MAGIC + dumps(dict(made_by), sort_keys=True).encode() + b"\n"


def read_header(start: bytes) -> tuple[dict[str, Any], int]:
    """The mechanism that a file's first line names, and where its rows begin."""
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
    apart = sorted(key for key in {*first, *second} if first.get(key) != second.get(key))
    if apart:
        raise SourceError(
            "round_differs",
            f"{subject} of different oracles cannot be taken together: they differ in "
            f"{_listed(apart)}. Estimate each by the oracle that made it.",
        )


def _listed(names: Sequence[str]) -> str:
    return " and ".join(names) if len(names) < 3 else ", ".join(names)


def to_wire(layout: ReportLayout, row: Any) -> object:
    """A row of reports as JSON takes it."""
    codes = {code.name: int(row[code.name]) for code in layout.codes}
    if not layout.width:
        return next(iter(codes.values())) if len(codes) == 1 else codes
    bits = np.unpackbits(row["bits"], count=layout.width, bitorder="little")
    text = "".join(map(str, bits.tolist()))
    return {**codes, BITS: text} if codes else text


def from_wire(layout: ReportLayout, report: object) -> NDArray[Any] | str:
    """The row of a report, or in one word why it is none."""
    fields = _fields(layout, report)
    if fields is None:
        return "malformed"
    row = layout.empty(1)
    for code in layout.codes:
        value = fields[code.name]
        if type(value) is not int:
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


def _fields(layout: ReportLayout, report: object) -> dict[str, object] | None:
    names = [code.name for code in layout.codes] + ([BITS] if layout.width else [])
    if len(names) == 1:
        return {names[0]: report}
    if isinstance(report, dict) and set(report) == set(names):
        return report
    return None


# What a collector keeps: whole-number sums over reports. The sum of two is that of all reports.

_SKETCH_MAGIC = b"sfumato sketch 2 "
_DIGEST_BYTES = 16
_MOST = 1 << 62
"""So many reports no sketch has: sums of 64 bits would wrap."""


@dataclass(frozen=True, eq=False, repr=False)
class ReportSketch(Shown):
    """Sums over `n` reports of one mechanism; `rejected` others could not be reports of it."""

    made_by: dict[str, Any]
    n: int
    rejected: int
    tally: IntArray

    def __add__(self, other: ReportSketch) -> ReportSketch:
        """The sketch of the reports of both."""
        if not isinstance(other, ReportSketch):
            return NotImplemented
        check_same(self.made_by, other.made_by, "Sketches")
        if self.tally.shape != other.tally.shape:
            raise unreadable()
        if self.n + other.n >= _MOST or self.rejected + other.rejected >= _MOST:
            raise unreadable("These sketches have more reports together than can be: 2^62.")
        return ReportSketch(
            self.made_by,
            self.n + other.n,
            self.rejected + other.rejected,
            self.tally + other.tally,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReportSketch) and self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]  # a sketch is compared, never a key

    def to_bytes(self) -> bytes:
        """As bytes, to be kept or sent to who merges."""
        counts = np.array([self.n, self.rejected, *self.tally.shape], dtype="<i8")
        fields = {"dimensions": self.tally.ndim, "made_by": self.made_by}
        first_line = header(fields).replace(MAGIC, _SKETCH_MAGIC, 1)
        content = first_line + counts.tobytes() + self.tally.astype("<i8").tobytes()
        return content + _digest(content)

    @classmethod
    def from_bytes(cls, data: bytes) -> ReportSketch:
        """Read what `to_bytes` wrote."""
        arguments.require(data, "data", bytes, "the bytes of a sketch")
        if (
            not data.startswith(_SKETCH_MAGIC)
            or _digest(data[:-_DIGEST_BYTES]) != data[-_DIGEST_BYTES:]
        ):
            raise unreadable()
        data = data[:-_DIGEST_BYTES]
        fields, start = read_header(MAGIC + data[len(_SKETCH_MAGIC) :])
        start += len(_SKETCH_MAGIC) - len(MAGIC)
        if len(data) % 8 != start % 8 or "made_by" not in fields:
            raise unreadable()
        numbers = np.frombuffer(data, dtype="<i8", offset=start).astype(np.int64)
        dimensions = fields.get("dimensions")
        if not isinstance(dimensions, int) or not 0 < dimensions <= len(numbers) - 2:
            raise unreadable()
        n, rejected, *shape = numbers[: 2 + dimensions].tolist()
        tally = numbers[2 + dimensions :]
        if not 0 <= min(n, rejected, *shape) <= max(n, rejected) < _MOST or len(tally) != prod(
            shape
        ):
            raise unreadable()
        return cls(fields["made_by"], n, rejected, tally.reshape(shape))

    def _card(self) -> Card:
        turned = f", {self.rejected:,} rejected" if self.rejected else ""
        line = f"{self.n:,} reports by {self.made_by['mechanism']}{turned}"
        return Card(line, {"reports": self.n, "rejected": self.rejected})


def _digest(data: bytes) -> bytes:
    return sha256(data).digest()[:_DIGEST_BYTES]


def unreadable(why: str = "This is no sketch, a part of one, or a damaged one.") -> SourceError:
    """What is said of bytes or sums that no sketch has."""
    return SourceError(
        "file_malformed", f"{why} Give what `to_bytes` of a sketch wrote, whole and as it was."
    )
