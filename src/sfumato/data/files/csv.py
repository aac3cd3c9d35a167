"""Read CSV files: header, separator and shape are checked, cells are text, in one pass.

Decision `reading-files`.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from codecs import BOM_UTF8
from contextlib import closing
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

from sfumato.data.engines.kinds import STORED
from sfumato.data.files.cell_conversion import check_count, check_names, conform
from sfumato.data.files.csv_shape import Records
from sfumato.data.files.file_identity import regular_file
from sfumato.data.files.formats import fixed_separator
from sfumato.data.files.text_encoding import Decoded, Prefixed, guess_encoding, marked
from sfumato.data.files.writers import unguarded
from sfumato.data.schema.column import Kind
from sfumato.data.schema.layout import USUAL, UTF8, FileLayout
from sfumato.errors import InternalError, SourceError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from sfumato.data.engines.kinds import Asked
    from sfumato.data.files.csv_shape import ByteStream
    from sfumato.data.files.file_identity import RegularFile


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
        layout: FileLayout = USUAL,
        *,
        declared: Collection[str] = (),
        ours: bool = False,
        strict: bool = True,
    ) -> None:
        self._ours = ours
        self._file = regular_file(path)
        self._stream: ByteStream = _opened(self._file)
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
                    "file_damaged",
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
                "file_damaged",
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


def _opened(file: RegularFile) -> ByteStream:
    raw = file.open()
    if file.path.suffix.lower() == ".gz":
        return _Expanding(raw, file.name)
    return raw


def encoding_of(path: Path | str) -> str:
    """The assumed encoding of an undeclared file that is not UTF-8."""
    with closing(_opened(regular_file(path))) as stream:
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
    """The separator with which the header names the most declared columns."""

    def score(separator: str) -> tuple[int, int]:
        try:
            names = split_row(header, separator)
        except SourceError:  # a name in quotes ends where only its own separator follows
            return (-1, 0)
        return (len(set(declared).intersection(names)), len(names))

    return max(SEPARATORS, key=score)


def detect_separator(header: bytes, ahead: bytes) -> str:
    """The separator on whose number the header and the next rows agree best."""
    whole_rows = ahead.split(b"\n", ROWS_COMPARED)[:-1]
    unquoted = [b"".join(row.split(b'"')[0::2]) for row in (header, *whole_rows)]

    def agreement(separator: str) -> tuple[float, int]:
        counts = [row.count(separator.encode()) for row in unquoted]
        agreeing_share = sum(count == counts[0] for count in counts) / len(counts)
        return (agreeing_share if counts[0] else 0.0, counts[0])

    return max(SEPARATORS, key=agreement)
