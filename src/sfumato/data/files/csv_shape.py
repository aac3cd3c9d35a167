"""The shape of a CSV file, checked with NumPy: equally many cells per row, every quote closed.

Decision `reading-files`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, Protocol

import numpy as np

from sfumato.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray

READ_BYTES = 8 << 20
"""Bytes that are read at a time, and the longest row allowed."""

# ASCII codes; in UTF-8 none of them occurs inside a longer character.
_QUOTE, _NEWLINE, _RETURN = 34, 10, 13
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()


class ByteStream(Protocol):
    """A stream of bytes; `read` returns fewer only at the end, decoded text about as many."""

    def read(self, size: int, /) -> bytes:
        """Read the next bytes."""
        ...

    def close(self) -> None:
        """Close the underlying file."""
        ...


class Records:
    """A CSV file as blocks of whole rows, each checked before it is returned.

    Quoting is RFC 4180: a quote opens a cell at its start, closes it at its end, and is doubled
    inside. Lines end in LF or CR LF. *Invariant*: a byte is inside quotes if and only if an odd
    number of quotes precede it, so a cumulative XOR replaces a state machine.

    A `decoded` stream is valid UTF-8, and its offsets are not those of the file. Where reading is
    not `strict`, malformed bytes become U+FFFD.
    """

    def __init__(self, stream: ByteStream, *, decoded: bool = False, strict: bool = True) -> None:
        self._stream = stream
        self._decoded = decoded
        self._strict = strict
        self._ahead = b""
        self._offset = 0
        self._line = 1
        self.rows = 0

    def peek(self) -> bytes:
        """The next bytes, without advancing."""
        self._fill()
        return self._ahead

    def skip(self, size: int) -> None:
        """Skip bytes, such as a byte order mark."""
        self._ahead = self._ahead[size:]
        self._offset += size

    def header(self) -> bytes:
        """The first row without its line end."""
        self._fill()
        ends = _positions_outside_quotes(np.frombuffer(self._ahead, np.uint8), _NEWLINE)
        row = self._ahead[: ends[0] + 1] if ends.size else self._last(self._ahead)
        self._check_bytes(row)
        self._advance(row)
        return self._mended(row).rstrip(b"\r\n")

    def blocks(self, separator: int, columns: int) -> Iterator[bytes]:
        """Yield the other rows in blocks; refuse rows with another number of cells."""
        blank_line: int | None = None
        while self._fill():
            ends = _positions_outside_quotes(np.frombuffer(self._ahead, np.uint8), _NEWLINE)
            block = self._ahead[: ends[-1] + 1] if ends.size else self._last(self._ahead)
            if not ends.size:
                ends = np.array([len(block) - 1])
            self._check_bytes(block)
            blank_line = self._check_rows(block, ends, separator, columns, blank_line)
            self._advance(block)
            yield self._mended(block)

    def _fill(self) -> bool:
        """Read ahead unless a whole row is buffered; return whether there are bytes left."""
        if _positions_outside_quotes(np.frombuffer(self._ahead, np.uint8), _NEWLINE).size == 0:
            block = self._stream.read(READ_BYTES)
            self._ahead += block
        return bool(self._ahead)

    def _last(self, row: bytes) -> bytes:
        """The last row, which has no line end; refuse one that is too long or has an open quote."""
        next_byte = self._stream.read(1)
        if next_byte:
            self._ahead = row + next_byte
            self._refuse(
                "table_malformed",
                f"starts a row longer than {READ_BYTES >> 20} MiB",
                "Is a quote left open, or is it not a CSV",
            )
        if row.count(b'"') % 2:
            self._refuse(
                "table_malformed",
                "starts a row whose quote is never closed",
                "Close it, or double a quote that belongs to the text",
            )
        return row + b"\n"

    def _advance(self, block: bytes) -> None:
        """Advance past a checked block."""
        self._ahead = self._ahead[len(block) :]
        self._offset += len(block)
        self._line += block.count(b"\n")

    def _mended(self, block: bytes) -> bytes:
        """A checked block as valid text; replacing bytes does not change where cells end."""
        if self._strict:
            return block
        if not (self._decoded or block.isascii()):
            block = block.decode("utf-8", "replace").encode()
        return block.replace(b"\0", _REPLACEMENT)

    def _check_bytes(self, block: bytes) -> None:
        """Refuse malformed UTF-8, NUL bytes, and carriage returns outside line ends."""
        if self._strict and b"\0" in block:
            self._refuse_byte(
                "table_malformed", "is NUL, so this is no text file", block.index(b"\0")
            )
        if self._strict and not (self._decoded or block.isascii()):
            try:
                block.decode("utf-8")
            except UnicodeDecodeError as error:
                self._refuse_byte("not_utf8", "is not valid UTF-8", error.start)
        data = np.frombuffer(block, np.uint8)
        if b"\r" in block:
            returns = _positions_outside_quotes(data, _RETURN)
            lone = returns[data[np.minimum(returns + 1, data.size - 1)] != _NEWLINE]
            if lone.size:
                self._refuse(
                    "table_malformed",
                    "holds a carriage return outside quotes that is not part of a line end",
                    "End lines with LF or CR LF",
                    position=int(lone[0]),
                )

    def _check_rows(
        self,
        block: bytes,
        ends: NDArray[np.intp],
        separator: int,
        columns: int,
        blank_line: int | None,
    ) -> int | None:
        """Refuse misplaced quotes and rows of another length; return the first blank line."""
        data = np.frombuffer(block, np.uint8)
        if b'"' in block:
            self._check_quotes(data, separator)
        separators = _positions_outside_quotes(data, separator)
        cells = np.diff(np.searchsorted(separators, ends), prepend=0) + 1
        starts = np.concatenate(([0], ends[:-1] + 1))
        sizes = ends - starts - (data[np.maximum(ends - 1, 0)] == _RETURN)
        blank = (sizes == 0) if columns > 1 else np.zeros(ends.size, bool)
        self.rows += int(ends.size - blank.sum())
        wrong = np.flatnonzero((cells != columns) & ~blank)
        if wrong.size:
            first = int(wrong[0])
            self._refuse(
                "table_malformed",
                f"has {int(cells[first]):,} cells but the header has {columns:,}",
                "Correct the row, or quote a cell that holds the separator",
                position=int(starts[first]),
            )
        return self._check_blank(blank, starts, blank_line)

    def _check_blank(
        self, blank: BoolArray, starts: NDArray[np.intp], blank_line: int | None
    ) -> int | None:
        """Refuse blank lines before rows: a row may have been lost there."""
        if blank_line is None and blank.any():
            first = int(np.argmax(blank))
            blank_line = self._line_at(int(starts[first]))
            blank = blank[first:]
        if blank_line is not None and not blank.all():
            raise SourceError(
                "table_malformed",
                f"Line {blank_line:,} is blank but rows follow it.",
                hint="Remove the line, or write missing cells as separators alone.",
            )
        return blank_line

    def _check_quotes(self, data: NDArray[np.uint8], separator: int) -> None:
        """Refuse quotes that neither open nor close a cell nor are doubled inside one."""
        quotes = np.flatnonzero(data == _QUOTE)
        opening, closing = quotes[0::2], quotes[1::2]
        before = data[np.maximum(opening - 1, 0)]
        after = data[closing + 1]  # a block ends in a line end, so there is a next byte
        edges = np.array([separator, _NEWLINE, _QUOTE], np.uint8)
        astray = np.concatenate(
            (
                opening[(opening > 0) & ~np.isin(before, edges)],
                closing[~np.isin(after, edges) & (after != _RETURN)],
            )
        )
        if astray.size:
            self._refuse(
                "table_malformed",
                "has a quote in the middle of a cell",
                "Put the whole cell in quotes and double the quotes inside it",
                position=int(astray.min()),
            )

    def _line_at(self, position: int) -> int:
        return self._line + self._ahead.count(b"\n", 0, position)

    def _refuse(self, code: str, problem: str, remedy: str, position: int = 0) -> NoReturn:
        raise SourceError(code, f"Line {self._line_at(position):,} {problem}. {remedy}.")

    def _refuse_byte(self, code: str, problem: str, position: int) -> NoReturn:
        offset = "" if self._decoded else f"at offset {self._offset + position:,} "
        raise SourceError(
            code,
            f"The byte {offset}(line {self._line_at(position):,}) {problem}. Save the file as "
            'UTF-8, or say in the schema what it is, e.g. file.encoding = "windows-1252".',
        )


def _positions_outside_quotes(data: NDArray[np.uint8], byte: int) -> NDArray[np.intp]:
    """The positions of a byte outside quotes."""
    is_match = data == byte
    quotes = data == _QUOTE
    if quotes.any():
        is_match &= ~np.logical_xor.accumulate(quotes)
    return np.flatnonzero(is_match)
