"""Read CSV files of any encoding in one pass; cells are text.

The header, the separator and the shape are checked: rows of equally many cells, every quote closed.

Decision `reading-files`.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import zlib
from codecs import BOM_UTF8
from contextlib import closing
from typing import TYPE_CHECKING, BinaryIO, NoReturn, Protocol

import numpy as np
import pyarrow as pa

from sfumato.data.engines.kinds import STORED
from sfumato.data.files.cell_conversion import check_count, check_names, conform
from sfumato.data.files.file_identity import regular_file
from sfumato.data.files.formats import fixed_separator
from sfumato.data.files.writers import unguarded
from sfumato.data.schema.column import Kind
from sfumato.data.schema.layout import DEFAULT_LAYOUT, UTF8, FileLayout
from sfumato.errors import InternalError, SourceError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray
    from sfumato.data.engines.kinds import Asked
    from sfumato.data.files.file_identity import RegularFile


MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Byte order marks; of two with a common prefix the longer one comes first."""

# Bytes without a letter in Windows-1252.
_NOT_WINDOWS = (b"\x81", b"\x8d", b"\x8f", b"\x90", b"\x9d")

_BLOCK = 1 << 20


def marked(first: bytes) -> str | None:
    """Return the encoding of the byte order mark, if there is one."""
    return next((name for mark, name in MARKS.items() if first.startswith(mark)), None)


def guess_encoding(stream: ByteStream) -> str:
    """Return the assumed encoding of text that is not UTF-8: Windows-1252, else ISO-8859-1."""
    while block := stream.read(_BLOCK):
        if any(byte in block for byte in _NOT_WINDOWS):
            return "iso-8859-1"
    return "windows-1252"


class Prefixed:
    """A stream that returns bytes which were already read before the rest."""

    def __init__(self, first: bytes, stream: ByteStream) -> None:
        self._first = first
        self._stream = stream

    def read(self, size: int) -> bytes:
        """Read this many bytes, fewer only at the end."""
        if not self._first:
            return self._stream.read(size)
        first, self._first = self._first[:size], self._first[size:]
        return first + self._stream.read(size - len(first))

    def close(self) -> None:
        """Close what is behind."""
        self._stream.close()


class Decoded:
    """A stream in any encoding, decoded to UTF-8.

    Malformed bytes are refused, or become U+FFFD where reading is not `strict`. *Attack*: otherwise
    one person's cell would decide whether queries are answered.
    """

    def __init__(
        self, stream: ByteStream, codec: str, file: RegularFile, *, strict: bool = True
    ) -> None:
        self._stream = stream
        self._codec = codec
        self._file = file
        self._decoder = codecs.getincrementaldecoder(codec)("strict" if strict else "replace")
        self._taken = 0
        self._lines = 1
        self._ended = False
        # A single-byte encoding decodes almost any bytes, so a wrong declaration is not noticed.
        # Text in such an encoding is almost never valid UTF-8; a valid file was mis-declared.
        suspicious = strict and len(bytes(range(256)).decode(codec, "replace")) == 256
        self._utf8 = codecs.getincrementaldecoder("utf-8")() if suspicious else None
        self._foreign = False

    def read(self, size: int) -> bytes:
        """Read about this many bytes; none only at the end."""
        text = ""
        while not text and not self._ended:
            block = self._stream.read(size)
            self._ended = not block
            self._taken += len(block)
            self._look(block)
            text = self._decoded(block)
        self._lines += text.count("\n")
        return text.encode("utf-8", "replace")

    def close(self) -> None:
        """Close what is behind."""
        self._stream.close()

    def _decoded(self, block: bytes) -> str:
        try:
            return self._decoder.decode(block, final=self._ended)
        except UnicodeDecodeError as error:
            known = error.object[: error.start].decode(self._codec, "replace")
            offset = self._taken - len(error.object) + error.start
            line = self._lines + known.count("\n")
        raise SourceError(
            "encoding_wrong",
            f"The byte at offset {offset:,} (line {line:,}) of {self._file.name!r} is invalid in "
            f"its encoding, {self._codec}. Declare the encoding that it has in the schema, e.g. "
            'file.encoding = "windows-1252", or save the file as UTF-8.',
        )

    def _look(self, block: bytes) -> None:
        """Refuse, at the end, a file that is valid UTF-8 with letters beyond ASCII."""
        if self._utf8 is None:
            return
        try:
            self._utf8.decode(block, final=self._ended)
        except UnicodeDecodeError:
            self._utf8 = None
            return
        self._foreign = self._foreign or not block.isascii()
        if self._ended and self._foreign:
            raise SourceError(
                "encoding_wrong",
                f"{self._file.name!r} is UTF-8, but its schema declares "
                f'file.encoding = "{self._codec}". Remove that line, or name a file in that '
                "encoding.",
            )


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
        """Return the next bytes, without advancing."""
        self._fill()
        return self._ahead

    def skip(self, size: int) -> None:
        """Skip bytes, such as a byte order mark."""
        self._ahead = self._ahead[size:]
        self._offset += size

    def header(self) -> bytes:
        """Return the first row without its line end."""
        self._fill()
        ends = _positions_outside_quotes(np.frombuffer(self._ahead, np.uint8), _NEWLINE)
        row = self._ahead[: ends[0] + 1] if ends.size else self._last(self._ahead)
        self._check_bytes(row)
        self._advance(row)
        return self._replace_malformed(row).rstrip(b"\r\n")

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
            yield self._replace_malformed(block)

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

    def _replace_malformed(self, block: bytes) -> bytes:
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
    """Return the positions of a byte outside quotes."""
    is_match = data == byte
    quotes = data == _QUOTE
    if quotes.any():
        is_match &= ~np.logical_xor.accumulate(quotes)
    return np.flatnonzero(is_match)


SEPARATORS = ",;\t|"
"""Separators that are detected; others must be declared."""

ROWS_COMPARED = 100
"""The number of rows with which the header's separator is compared."""

MOST_EXPANSION = 200
"""The largest expansion of a compressed file; text about people compresses far less."""

EXPANSION_FREE = 64 << 20
"""Bytes below which the expansion is not limited."""

# Bytes read to recognise formats and byte order marks.
LONGEST_MAGIC = 16

# First bytes of other formats under the name of a text file: what they are, and a remedy.
_MAGIC = {
    b"PK\x03\x04": ("a zip archive or a spreadsheet", "Save it as CSV, or name it .xlsx"),
    b"\xd0\xcf\x11\xe0": ("an old or a locked spreadsheet (xls)", "Save it as CSV or .xlsx"),
    b"%PDF": ("a PDF", "Ask for the table as CSV"),
    b"PAR1": ("a Parquet file", "Name it .parquet"),
    b"\x1f\x8b": ("a gzip file", "Name it .csv.gz"),
    b"SQLite format 3": ("an SQLite database", "Export its table as CSV"),
    b"$FL": ("an SPSS file", "Name it .sav or .zsav"),
    b"<stata_dta>": ("a Stata file", "Name it .dta"),
}


class CsvFile:
    """An open CSV file whose header was read. Close it at the end.

    Parameters
    ----------
    path : Path or str
        The file.
    layout : FileLayout
        What is declared of it; the rest is detected.
    declared : collection of str
        Names of declared columns. With them the header alone decides on the separator. *Attack*:
        otherwise a row of one person could change how the whole file is read.
    ours : bool
        Whether Sfumato wrote the file, with text guarded against spreadsheets.
    strict : bool
        Whether malformed bytes are refused; else they become U+FFFD.
    """

    def __init__(
        self,
        path: Path | str,
        layout: FileLayout = DEFAULT_LAYOUT,
        *,
        declared: Collection[str] = (),
        ours: bool = False,
        strict: bool = True,
    ) -> None:
        self._ours = ours
        self._file = regular_file(path)
        self._stream: ByteStream = _open_stream(self._file)
        try:
            self._open(layout, declared, strict=strict)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def _open(self, layout: FileLayout, declared: Collection[str], *, strict: bool) -> None:
        first = _read_fully(self._stream, LONGEST_MAGIC)
        self._refuse_other_formats(first)
        encoding = marked(first) or layout.encoding
        codec = FileLayout(encoding).codec
        if not strict:
            FileLayout(encoding).check_private()
        self._stream = Prefixed(first, self._stream)
        if codec not in UTF8:
            self._stream = Decoded(self._stream, codec, self._file, strict=strict)
        self._records = Records(self._stream, decoded=codec not in UTF8, strict=strict)
        if first.startswith(BOM_UTF8):
            self._records.peek()
            self._records.skip(len(BOM_UTF8))
        header = self._records.header()
        if not header.strip():
            raise SourceError(
                "table_malformed",
                f"{self._file.name!r} has no header. The first line must name the columns.",
            )
        fixed = fixed_separator(self._file.name)
        separator = fixed or layout.separator
        if separator is None and declared:
            separator = separator_by_names(header, declared)
        self.separator = separator or detect_separator(header, self._records.peek())
        check_count(header.count(self.separator.encode()) + 1)
        self.names = split_row(header, self.separator)
        check_names(self.names)
        usual = self.separator in (",", fixed)
        self.layout = FileLayout(encoding, None if usual else self.separator)

    @property
    def held(self) -> dict[str, Kind]:
        """The kinds of the columns: text, all of them."""
        return dict.fromkeys(self.names, Kind.TEXT)

    def read(self, kinds: Mapping[str, Asked], *, strict: bool = True) -> Iterator[pa.RecordBatch]:
        """Read all rows, once, as the given kinds; other columns are text."""
        every = {name: kinds.get(name, Kind.TEXT) for name in self.names}
        texts = map(unguarded, self._texts()) if self._ours else self._texts()
        yield from conform(texts, every, strict=strict)
        self._file.check_unchanged()

    def _texts(self) -> Iterator[pa.RecordBatch]:
        """Parse blocks into text columns: an empty cell is NULL, `""` is empty text."""
        from pyarrow import csv as arrow_csv

        convert_options = arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(self.names, STORED[Kind.TEXT]),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            check_utf8=False,
        )
        rows = 0
        for block in self._records.blocks(ord(self.separator), len(self.names)):
            parse_options = arrow_csv.ParseOptions(
                delimiter=self.separator,
                newlines_in_values=b'"' in block,
                ignore_empty_lines=len(self.names) > 1,
            )
            read_options = arrow_csv.ReadOptions(column_names=self.names, block_size=len(block) + 1)
            table = arrow_csv.read_csv(
                pa.py_buffer(block),
                read_options=read_options,
                parse_options=parse_options,
                convert_options=convert_options,
            )
            rows += table.num_rows
            yield from table.to_batches()
        # `Records` and Arrow count rows independently: a difference means that one of them erred.
        if rows != self._records.rows:
            raise InternalError(
                "rows_lost", f"Read {rows:,} rows of {self._records.rows:,}; nothing was kept."
            )

    def _refuse_other_formats(self, first: bytes) -> None:
        for magic, (format_name, remedy) in _MAGIC.items():
            if first.startswith(magic):
                raise SourceError(
                    "file_malformed",
                    f"{self._file.name!r} is named as a text file but is {format_name}. {remedy}.",
                )


class _Expanding:
    """A gzip stream with limited expansion, so that a small file cannot fill the memory."""

    def __init__(self, raw: BinaryIO, name: str) -> None:
        self._raw = raw
        self._name = name
        self._expanded = 0
        self._stream = gzip.GzipFile(fileobj=raw, mode="rb")

    def read(self, size: int) -> bytes:
        """Read exactly this many bytes, fewer only at the end."""
        try:
            data = self._stream.read(size)
        except (EOFError, OSError, zlib.error):
            raise SourceError(
                "file_malformed",
                f"{self._name!r} is not a whole gzip file. Compress or fetch it again.",
            ) from None
        self._expanded += len(data)
        if self._expanded > max(EXPANSION_FREE, MOST_EXPANSION * self._raw.tell()):
            raise SourceError(
                "file_too_large",
                f"{self._name!r} grows more than {MOST_EXPANSION} times when it is expanded.",
                hint="Expand it yourself if you trust it.",
            )
        return data

    def close(self) -> None:
        """Close the stream and the file under it."""
        self._stream.close()
        self._raw.close()


def _read_fully(stream: ByteStream, size: int) -> bytes:
    first = stream.read(size)
    while len(first) < size and (block := stream.read(size - len(first))):
        first += block
    return first


def _open_stream(file: RegularFile) -> ByteStream:
    raw = file.open()
    if file.path.suffix.lower() == ".gz":
        return _Expanding(raw, file.name)
    return raw


def encoding_of(path: Path | str) -> str:
    """Return the assumed encoding of an undeclared file that is not UTF-8."""
    with closing(_open_stream(regular_file(path))) as stream:
        return guess_encoding(stream)


def split_row(row: bytes, separator: str) -> list[str]:
    """Split the header into names."""
    try:
        return next(csv.reader([row.decode("utf-8")], delimiter=separator, strict=True))
    except csv.Error:
        raise SourceError(
            "table_malformed",
            "Line 1, the header, has a quote in the middle of a name or a name beyond "
            f"{csv.field_size_limit():,} letters.",
            hint="Quote whole names and double quotes inside them.",
        ) from None


def separator_by_names(header: bytes, declared: Collection[str]) -> str:
    """Return the separator with which the header names the most declared columns."""

    def score(separator: str) -> tuple[int, int]:
        try:
            names = split_row(header, separator)
        except SourceError:  # a name in quotes ends where only its own separator follows
            return (-1, 0)
        return (len(set(declared).intersection(names)), len(names))

    return max(SEPARATORS, key=score)


def detect_separator(header: bytes, ahead: bytes) -> str:
    """Return the separator on whose number the header and the next rows agree best."""
    whole_rows = ahead.split(b"\n", ROWS_COMPARED)[:-1]
    unquoted = [b"".join(row.split(b'"')[0::2]) for row in (header, *whole_rows)]

    def agreement(separator: str) -> tuple[float, int]:
        counts = [row.count(separator.encode()) for row in unquoted]
        agreeing_share = sum(count == counts[0] for count in counts) / len(counts)
        return (agreeing_share if counts[0] else 0.0, counts[0])

    return max(SEPARATORS, key=agreement)
